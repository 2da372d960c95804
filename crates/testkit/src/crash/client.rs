//! What a client knows, and what it must not be told.

use serde_json::json;

use super::chance::Chance;
use super::{Asked, ENTRIES, Heard, entry};

/// A client in the middle of a conversation.
#[derive(Default)]
pub(super) struct Client {
    /// The last question it has seen.
    asked: Option<Asked>,
    /// Whether that question may have been answered.
    unsure: bool,
    /// Whether its answer was accepted over this connection, where saying it again would only
    /// bring what is next twice.
    accepted_here: bool,
    /// The last entry that was accepted.
    accepted: u32,
    /// How often it was told the final result.
    ended: u32,
}

/// What a client does next.
#[derive(Clone, Debug)]
pub(super) enum Move {
    Begin,
    Answer(Asked),
    Look(Asked),
}

impl Client {
    /// What to do next; None when nothing is left. A result is asked for once more, because it may
    /// have been lost on its way.
    pub(super) fn turn(&self, chance: &mut Chance) -> Option<Move> {
        let again = chance.below(2) == 0 && !self.accepted_here;
        if self.ended > 1 {
            return None;
        }
        Some(match &self.asked {
            None => Move::Begin,
            Some(asked) if self.unsure && !again => Move::Look(asked.clone()),
            Some(asked) => Move::Answer(asked.clone()),
        })
    }

    /// How many steps are over, for all that is known.
    pub(super) fn done(&self) -> u32 {
        match (self.ended, &self.asked) {
            (0, Some(asked)) => asked.number - 1,
            (0, None) => 0,
            _ => ENTRIES,
        }
    }

    /// The program was killed, and the connection with it.
    pub(super) fn lose(&mut self) {
        self.accepted_here = false;
    }

    /// Takes in what a move has led to; nothing if the program was killed first.
    pub(super) fn hear(&mut self, turn: Move, heard: Option<Heard>) {
        if matches!(turn, Move::Answer(_)) {
            self.unsure = true;
        }
        let Some(heard) = heard else { return };
        match (turn, heard) {
            (Move::Begin, Heard::Asked(asked)) => {
                assert_eq!(asked.number, 1, "a flow begins with its first question");
                self.asked = Some(asked);
            }
            (Move::Answer(answered), Heard::Accepted) => {
                self.accepted = self.accepted.max(answered.number);
                self.accepted_here = true;
            }
            (Move::Answer(asked) | Move::Look(asked), Heard::Asked(next)) => {
                assert_eq!(self.ended, 0, "a flow that was over asks {next:?}");
                let (last, number) = (asked.number, next.number);
                assert!([last, last + 1].contains(&number), "{number} is asked for after {last}");
                assert!(number > self.accepted, "{number} is asked for though it was accepted");
                self.accepted = number - 1;
                (self.unsure, self.accepted_here) = (false, false);
                self.asked = Some(next);
            }
            (Move::Answer(asked) | Move::Look(asked), Heard::Ended(result)) => {
                assert_eq!(asked.number, ENTRIES, "a flow is over before its last question");
                let entries: Vec<_> = (1..=ENTRIES).map(entry).collect();
                assert_eq!(result, json!({"entries": entries}), "a result is wrong");
                self.ended += 1;
                self.accepted_here = false;
            }
            (turn, heard) => panic!("{turn:?} is answered with {heard:?}"),
        }
    }
}
