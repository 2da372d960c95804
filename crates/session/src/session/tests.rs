//! Model-based tests: sessions against an independent model of the protocol's state table.

use std::time::Duration;

use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use serde_json::{Map, json};

use super::{Answer, Bounds, Command, CommandError, Session};
use crate::event::{
    Ending, FaultName, FlowFault, JournalEvent, Limit, SessionStarted, StepOutcome,
};
use crate::question::{Question, text};
use crate::{Owner, Timestamp};

/// Model of a session: its state and some counts.
#[derive(Debug, Default)]
struct Model {
    state: &'static str,
    /// Outstanding questions; the first one is open.
    outstanding: Vec<Outstanding>,
    asked: u32,
    turns: usize,
    expired: bool,
    given_used: bool,
    /// Numbers of the waits for signals, and of the signals that are kept.
    waits: Vec<u32>,
    signals: Vec<u32>,
    waited: u32,
    signalled: u32,
}

#[derive(Clone, Debug, PartialEq)]
struct Outstanding {
    number: u32,
    key: &'static str,
    wrong: u32,
    is_answered: bool,
}

/// A command of the model.
#[derive(Clone, Debug)]
enum Move {
    Begin,
    Ask(&'static str),
    AskInvalid,
    AnswerWell,
    AnswerBadly,
    /// An answer to the question of this number, ahead of its turn.
    AheadWell(u32),
    AheadBadly(u32),
    Withdraw(u32),
    Step,
    Note,
    SetTimer,
    AwaitSignal,
    Signal,
    TakeSignal(u32, u32),
    DropSignalWait(u32),
    Complete,
    Finish,
    Cancel,
    Fail,
    Expire,
}

const PROMPTS: u32 = 4;
const ATTEMPTS: u32 = 3;

impl Model {
    /// Applies a command by the protocol's table (INT-062 to INT-069, C-42). The error is the start
    /// of the expected message.
    fn make(&mut self, step: &Move) -> Result<(), &'static str> {
        let final_state = ["completed", "cancelled", "error"].contains(&self.state);
        let running = ["active", "processing"].contains(&self.state);
        let allowed = match step {
            Move::Begin => self.state == "idle",
            Move::Complete => running,
            Move::Ask(_)
            | Move::AskInvalid
            | Move::Step
            | Move::Note
            | Move::SetTimer
            | Move::AwaitSignal
            | Move::Finish => running || self.state == "waiting_user",
            Move::AheadWell(number) | Move::AheadBadly(number) => {
                let mut queued = self.outstanding.iter().skip(1);
                queued.any(|queued| queued.number == *number && !queued.is_answered)
            }
            Move::Withdraw(number) => !final_state && *number < self.asked,
            Move::AnswerWell | Move::AnswerBadly => self.state == "waiting_user",
            Move::TakeSignal(wait, signal) => {
                self.waits.contains(wait) && self.signals.contains(signal)
            }
            Move::DropSignalWait(wait) => {
                (running || self.state == "waiting_user") && *wait < self.waited
            }
            Move::Signal | Move::Cancel | Move::Fail | Move::Expire => !final_state,
        };
        if !allowed {
            return Err(match self.state {
                "cancelled" => "cancelled",
                "error" if self.expired => "expired",
                _ => "transition",
            });
        }
        match step {
            Move::Begin => self.state = "active",
            Move::Ask(_) | Move::AskInvalid if self.asked == PROMPTS => self.end("error"),
            Move::AskInvalid => self.end("error"),
            // "given" is a parameter, which answers once.
            Move::Ask("given") if !self.given_used => {
                self.given_used = true;
                self.asked += 1;
            }
            Move::Ask(key) => {
                let number = self.asked;
                self.asked += 1;
                self.outstanding.push(Outstanding { number, key, wrong: 0, is_answered: false });
                self.state = "waiting_user";
            }
            Move::AnswerWell => {
                self.outstanding.remove(0);
                self.turns += 1;
                self.open_next();
            }
            Move::AnswerBadly => self.reject(0),
            Move::AheadWell(number) => {
                let index = self.find(*number).unwrap();
                self.outstanding[index].is_answered = true;
            }
            Move::AheadBadly(number) => self.reject(self.find(*number).unwrap()),
            Move::Withdraw(number) => {
                if let Some(index) = self.find(*number) {
                    self.outstanding.remove(index);
                    self.open_next();
                }
            }
            Move::Step | Move::Note => {}
            Move::SetTimer if self.state == "active" => self.state = "processing",
            Move::SetTimer => {}
            Move::AwaitSignal => {
                if self.state == "active" {
                    self.state = "processing";
                }
                self.waits.push(self.waited);
                self.waited += 1;
            }
            Move::Signal => {
                self.signals.push(self.signalled);
                self.signalled += 1;
            }
            Move::TakeSignal(wait, signal) => {
                self.waits.retain(|waiting| waiting != wait);
                self.signals.retain(|kept| kept != signal);
            }
            Move::DropSignalWait(wait) => self.waits.retain(|waiting| waiting != wait),
            Move::Complete | Move::Finish => self.end("completed"),
            Move::Cancel => self.end("cancelled"),
            Move::Fail => self.end("error"),
            Move::Expire => {
                self.end("error");
                self.expired = true;
            }
        }
        Ok(())
    }

    fn find(&self, number: u32) -> Option<usize> {
        self.outstanding.iter().position(|question| question.number == number)
    }

    /// Gives the questions answered ahead their turn, up to the next open one.
    fn open_next(&mut self) {
        while self.outstanding.first().is_some_and(|question| question.is_answered) {
            self.outstanding.remove(0);
            self.turns += 1;
        }
        self.state = if self.outstanding.is_empty() { "processing" } else { "waiting_user" };
    }

    fn reject(&mut self, index: usize) {
        let question = &mut self.outstanding[index];
        question.wrong += 1;
        if question.wrong == ATTEMPTS {
            self.end("error");
        }
    }

    fn end(&mut self, state: &'static str) {
        self.state = state;
        self.outstanding.clear();
        self.waits.clear();
        self.signals.clear();
        self.turns = 0;
    }
}

proptest! {
    /// INT-062 to INT-069, INT-110, C-42: any sequence of commands leads to the state in the table,
    /// and replaying the journal gives the same session.
    #[test]
    fn a_session_follows_the_state_table(
        moves in proptest::collection::vec(moves(), 0..40),
        times in proptest::collection::vec(any::<u16>(), 40),
    ) {
        let bounds = Bounds { prompts: PROMPTS, attempts: ATTEMPTS, ..Bounds::default() };
        let mut session = Session::start(started());
        let mut journal = vec![JournalEvent::Started(started())];
        let mut model = Model { state: "idle", ..Model::default() };
        for (step, time) in moves.iter().zip(times) {
            // The clock jumps; the times of a session are monotonic.
            let at = Timestamp::from_millis(time.into());
            let expected = model.make(step);
            let touched = session.touched;
            match session.decide(command(step), at, &bounds) {
                Ok(event) => {
                    prop_assert_eq!(expected, Ok(()), "{:?} was allowed", step);
                    prop_assert!(event.at() >= touched);
                    session.apply(event.clone()).unwrap();
                    if matches!(event, JournalEvent::Ended(_)) { journal.clear(); }
                    journal.push(event);
                }
                Err(error) => {
                    let name = match error {
                        CommandError::AlreadyCancelled => "cancelled",
                        CommandError::Expired(_) => "expired",
                        CommandError::Transition { .. } => "transition",
                        CommandError::TooManySignals => "too many",
                        CommandError::LinkUsed | CommandError::LinkRevoked => "link",
                    };
                    prop_assert_eq!(expected, Err(name), "{:?} was rejected", step);
                }
            }
            prop_assert_eq!(session.state.name(), model.state);
            prop_assert_eq!(session.history.len(), model.turns);
            let waits: Vec<_> = session.signal_waits.iter().map(|wait| wait.number).collect();
            prop_assert_eq!(&waits, &model.waits);
            let signals: Vec<_> = session.signals.iter().map(|kept| kept.number).collect();
            prop_assert_eq!(&signals, &model.signals);
            prop_assert_eq!(outstanding(&session), model.outstanding.clone());
            let folded = Session::replay(&journal).unwrap().unwrap();
            prop_assert_eq!(folded.state, session.state);
            prop_assert_eq!(&folded.history, &session.history);
            prop_assert_eq!(&folded.queued, &session.queued);
            prop_assert_eq!(&folded.data, &session.data);
            prop_assert_eq!(&folded.signals, &session.signals);
            prop_assert_eq!(&folded.signal_waits, &session.signal_waits);
            prop_assert_eq!(folded.summary(), session.summary());
            let read = crate::store::decode(&crate::store::encode(&journal)).unwrap();
            prop_assert_eq!(&read, &journal);
        }
    }

    /// An arbitrary journal is replayed or rejected, without a panic.
    #[test]
    fn any_journal_is_replayed_or_rejected(moves in proptest::collection::vec(moves(), 0..20)) {
        let bounds = Bounds::default();
        let mut journal = vec![JournalEvent::Started(started())];
        for step in &moves {
            // Each event comes from another session, so most do not fit.
            let mut other = Session::start(started());
            let at = Timestamp::from_millis(1);
            for step in [Move::Begin, Move::Ask("a"), Move::Ask("b"), step.clone()] {
                if let Ok(event) = other.decide(command(&step), at, &bounds) {
                    other.apply(event.clone()).unwrap();
                    journal.push(event);
                }
            }
            let _ = Session::replay(&journal);
        }
    }
}

/// INT-071, INT-072, INT-109: activity restarts the inactivity timeout, not the duration.
#[test]
fn deadlines() {
    let bounds = Bounds::default();
    let mut session = Session::start(started());
    let at = Timestamp::from_millis;
    assert_eq!(session.deadline(), Some(at(1_000)));
    for (time, step, deadline) in [
        (100, Move::Begin, 5_000),
        (200, Move::Ask("a"), 1_200),
        (900, Move::AnswerBadly, 1_900),
        (1_000, Move::AnswerWell, 5_000),
        (4_500, Move::Ask("b"), 5_000),
    ] {
        let event = session.decide(command(&step), at(time), &bounds).unwrap();
        session.apply(event).unwrap();
        assert_eq!(session.deadline(), Some(at(deadline)), "after {step:?}");
    }
    assert_eq!(session.overdue(at(4_999)), None);
    assert_eq!(session.overdue(at(5_000)), Some(Limit::Duration));
    let event = session.decide(command(&Move::Expire), at(5_000), &bounds).unwrap();
    session.apply(event).unwrap();
    assert_eq!(session.deadline(), Some(at(5_000).after(Duration::from_secs(300))));
}

/// A default inactivity timeout does not end a session before the timer of its flow fires; one that
/// was chosen does.
#[test]
fn timers_outlast_a_default_inactivity_timeout() {
    for (is_default, deadline) in [(true, 4_000), (false, 1_000)] {
        let started = SessionStarted { inactivity_is_default: is_default, ..started() };
        let mut session = Session::start(started);
        for step in [Move::Begin, Move::Ask("a"), Move::SetTimer] {
            let event = session.decide(command(&step), Timestamp::default(), &Bounds::default());
            session.apply(event.unwrap()).unwrap();
        }
        assert_eq!(session.deadline(), Some(Timestamp::from_millis(deadline)));
    }
}

/// INT-114, C-11: no answer is retained after the end of a session.
#[test]
fn a_tombstone_has_no_content() {
    let mut session = Session::start(started());
    let steps =
        [Move::Begin, Move::Signal, Move::Ask("a"), Move::AnswerWell, Move::Note, Move::Complete];
    for step in steps {
        let event = session.decide(command(&step), Timestamp::from_millis(5), &Bounds::default());
        session.apply(event.unwrap()).unwrap();
    }
    let left = format!("{session:?}");
    for content in ["well answered", "a note", "a signal"] {
        assert!(!left.contains(content), "{left}");
    }
    assert_eq!(session.ended.unwrap().turns, 1);
}

/// A flow that records too many or too large entries is stopped.
#[test]
fn the_size_of_a_session_is_limited() {
    for bounds in
        [Bounds { events: 20, ..Bounds::default() }, Bounds { bytes: 2_000, ..Bounds::default() }]
    {
        let mut session = Session::start(started());
        session.apply(JournalEvent::Began { at: Timestamp::default() }).unwrap();
        while !session.state.is_final() {
            let event = session.decide(command(&Move::Step), Timestamp::default(), &bounds);
            session.apply(event.unwrap()).unwrap();
        }
        assert!(matches!(
            session.ending(),
            Some(Ending::Failed(FlowFault { name: FaultName::TooMuchData, .. }))
        ));
    }
}

/// The outstanding questions of a session, as the model has them.
fn outstanding(session: &Session) -> Vec<Outstanding> {
    let key = |key: &str| {
        if key == "a" {
            "a"
        } else if key == "b" {
            "b"
        } else {
            "given"
        }
    };
    let open = session.open.as_ref().map(|open| Outstanding {
        number: session.number,
        key: key(&open.key),
        wrong: session.attempts(),
        is_answered: false,
    });
    let queued = session.queued.iter().map(|queued| Outstanding {
        number: queued.number,
        key: key(&queued.asked.key),
        wrong: queued.attempts(),
        is_answered: queued.answered.is_some(),
    });
    open.into_iter().chain(queued).collect()
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        3 => Just(Move::Begin),
        4 => prop_oneof![Just(Move::Ask("a")), Just(Move::Ask("b")), Just(Move::Ask("given"))],
        1 => Just(Move::AskInvalid),
        6 => Just(Move::AnswerWell),
        3 => Just(Move::AnswerBadly),
        3 => (0..PROMPTS).prop_map(Move::AheadWell),
        2 => (0..PROMPTS).prop_map(Move::AheadBadly),
        2 => (0..PROMPTS).prop_map(Move::Withdraw),
        2 => Just(Move::Step),
        2 => Just(Move::Note),
        1 => Just(Move::SetTimer),
        2 => Just(Move::AwaitSignal),
        2 => Just(Move::Signal),
        2 => (0..2_u32, 0..2_u32).prop_map(|(wait, signal)| Move::TakeSignal(wait, signal)),
        1 => (0..2_u32).prop_map(Move::DropSignalWait),
        1 => Just(Move::Complete),
        1 => Just(Move::Finish),
        1 => Just(Move::Cancel),
        1 => Just(Move::Fail),
        1 => Just(Move::Expire),
    ]
}

fn command(step: &Move) -> Command {
    let ask = |key: &str, prompt: &crate::Prompt| Command::Ask {
        key: key.to_owned(),
        prompt: prompt.clone().into(),
        progress: None,
        link: None,
    };
    match step {
        Move::Begin => Command::Begin,
        Move::Ask(key) => ask(key, text("?").length(3..).prompt()),
        Move::AskInvalid => ask("c", text("?").pattern("(").prompt()),
        Move::AnswerWell => Command::Answer(Answer::from(json!("well answered"))),
        Move::AnswerBadly => Command::Answer(Answer::from(json!(17))),
        Move::AheadWell(question) => {
            Command::AnswerAhead { question: *question, answer: json!("well answered").into() }
        }
        Move::AheadBadly(question) => {
            Command::AnswerAhead { question: *question, answer: json!(17).into() }
        }
        Move::Withdraw(question) => Command::Withdraw { question: *question, skipped: false },
        Move::Step => Command::Record {
            key: "s".into(),
            number: Some(1),
            outcome: StepOutcome::Ok(json!([1, 2])),
            is_lookup: false,
            is_compensable: false,
        },
        Move::SetTimer => {
            Command::SetTimer { key: "t".into(), until: Timestamp::from_millis(3_000) }
        }
        Move::AwaitSignal => Command::AwaitSignal { key: "w".into() },
        Move::Signal => Command::Signal { key: "w".into(), value: json!("a signal"), link: None },
        Move::TakeSignal(wait, signal) => Command::TakeSignal { wait: *wait, signal: *signal },
        Move::DropSignalWait(wait) => Command::DropSignalWait { wait: *wait },
        Move::Note => Command::Set { key: "n".into(), value: json!("a note") },
        Move::Complete => {
            Command::End(Ending::Completed { success: true, data: json!({"x": 1}), summary: None })
        }
        Move::Finish => Command::Finish,
        Move::Cancel => Command::End(Ending::Cancelled { reason: Some("enough".into()) }),
        Move::Fail => Command::End(Ending::Failed(FlowFault::new(FaultName::Failed, "broke"))),
        Move::Expire => Command::End(Ending::Expired(Limit::Inactivity)),
    }
}

fn started() -> SessionStarted {
    let mut params = Map::new();
    params.insert("given".into(), json!("told before"));
    SessionStarted {
        flow: "sample".into(),
        owner: Owner::local(),
        params,
        context: Map::new(),
        inactivity: Some(1_000),
        inactivity_is_default: true,
        ends: Some(Timestamp::from_millis(5_000)),
        retention: None,
        trace: None,
        scopes: Vec::new(),
        depth: 0,
        at: Timestamp::from_millis(0),
    }
}
