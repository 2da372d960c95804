//! Client model: what it knows, and which replies would be wrong.

use serde_json::json;

use super::schedule::Schedule;
use super::{ENTRIES, EntryPrompt, SessionReply, entry};

/// A client in the middle of a session.
#[derive(Default)]
pub(super) struct Client {
    /// The last prompt it has seen.
    prompt: Option<EntryPrompt>,
    /// True if that prompt may have been answered.
    unsure: bool,
    /// True if the answer was accepted on this connection, where repeating it would return the next
    /// prompt twice.
    accepted_here: bool,
    /// The last entry that was accepted.
    accepted: u32,
    /// Number of final results received.
    ended: u32,
}

/// Next action of a client.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Start,
    Answer(EntryPrompt),
    Query(EntryPrompt),
}

impl Client {
    /// Chooses the next action; `None` when nothing is left. The result is requested once more,
    /// because it may have been lost.
    pub(super) fn action(&self, schedule: &mut Schedule) -> Option<Action> {
        let again = schedule.below(2) == 0 && !self.accepted_here;
        if self.ended > 1 {
            return None;
        }
        Some(match &self.prompt {
            None => Action::Start,
            Some(prompt) if self.unsure && !again => Action::Query(prompt.clone()),
            Some(prompt) => Action::Answer(prompt.clone()),
        })
    }

    /// Number of steps known to be completed.
    pub(super) fn done(&self) -> u32 {
        match (self.ended, &self.prompt) {
            (0, Some(prompt)) => prompt.number - 1,
            (0, None) => 0,
            _ => ENTRIES,
        }
    }

    /// Records that the program was killed and the connection lost.
    pub(super) fn disconnect(&mut self) {
        self.accepted_here = false;
    }

    /// Records the reply to an action; `None` if the program was killed first.
    pub(super) fn record(&mut self, action: Action, reply: Option<SessionReply>) {
        if matches!(action, Action::Answer(_)) {
            self.unsure = true;
        }
        let Some(reply) = reply else { return };
        match (action, reply) {
            (Action::Start, SessionReply::Prompt(prompt)) => {
                assert_eq!(prompt.number, 1, "a flow begins with its first question");
                self.prompt = Some(prompt);
            }
            (Action::Answer(answered), SessionReply::Accepted) => {
                self.accepted = self.accepted.max(answered.number);
                self.accepted_here = true;
            }
            (Action::Answer(prompt) | Action::Query(prompt), SessionReply::Prompt(next)) => {
                assert_eq!(self.ended, 0, "a flow that was over asks {next:?}");
                let (last, number) = (prompt.number, next.number);
                assert!([last, last + 1].contains(&number), "{number} is asked for after {last}");
                assert!(number > self.accepted, "{number} is asked for though it was accepted");
                self.accepted = number - 1;
                (self.unsure, self.accepted_here) = (false, false);
                self.prompt = Some(next);
            }
            (Action::Answer(prompt) | Action::Query(prompt), SessionReply::Ended(result)) => {
                assert_eq!(prompt.number, ENTRIES, "a flow is over before its last question");
                let entries: Vec<_> = (1..=ENTRIES).map(entry).collect();
                assert_eq!(result, json!({"entries": entries}), "a result is wrong");
                self.ended += 1;
                self.accepted_here = false;
            }
            (action, reply) => panic!("{action:?} is answered with {reply:?}"),
        }
    }
}
