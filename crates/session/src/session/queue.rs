//! Questions behind the open one, asked by concurrent branches of a flow.
//!
//! One question is open at a time; the others wait in the order they were asked. A queued question
//! can be answered ahead of its turn, but the flow gets every answer in turn. So clients that know
//! only the open question see the same sequence of turns, whoever answers the others.

use super::{AnsweredTurn, Session, State};
use crate::InvalidAnswer;
use crate::event::{QuestionAnswered, QuestionAsked};

/// A question behind the open one.
#[derive(Clone, Debug, PartialEq)]
pub struct QueuedQuestion {
    /// Number of the question, counted from 0 among all questions of the session.
    pub number: u32,
    /// The question.
    pub asked: QuestionAsked,
    /// Violation by the last answer to it.
    pub violation: Option<InvalidAnswer>,
    /// Digests of the invalid answers to it.
    pub wrong: Vec<Option<String>>,
    /// Answer that was given ahead of its turn.
    pub answered: Option<QuestionAnswered>,
}

impl QueuedQuestion {
    pub(super) fn new(number: u32, asked: QuestionAsked) -> Self {
        let violation = asked.violation.clone();
        Self { number, asked, violation, wrong: Vec::new(), answered: None }
    }

    /// Returns the number of invalid answers to it.
    pub fn attempts(&self) -> u32 {
        u32::try_from(self.wrong.len()).unwrap_or(u32::MAX)
    }
}

impl Session {
    /// Returns a queued question that waits for an answer.
    pub fn unanswered(&self, number: u32) -> Option<&QueuedQuestion> {
        self.queued.iter().find(|queued| queued.number == number && queued.answered.is_none())
    }

    /// Returns whether another question can be asked now.
    pub fn can_ask(&self) -> bool {
        self.open.is_none() || self.queued.len() < MAX_QUEUED
    }

    /// Returns whether this is the open question.
    pub fn is_open(&self, number: u32) -> bool {
        self.open.is_some() && self.number == number
    }

    /// Returns whether the flow can drop this question. It may drop an answered one, too, before
    /// it gets the answer.
    pub(super) fn can_withdraw(&self, number: u32) -> bool {
        !self.state.is_final() && number < self.prompts
    }

    pub(super) fn queued_mut(&mut self, number: u32) -> Option<&mut QueuedQuestion> {
        self.queued.iter_mut().find(|queued| queued.number == number)
    }

    /// Counts one more question, and returns its number.
    pub(super) fn take_number(&mut self) -> u32 {
        let number = self.prompts;
        self.prompts = self.prompts.saturating_add(1);
        number
    }

    pub(super) fn open(&mut self, question: QueuedQuestion) {
        self.state = State::WaitingUser;
        self.number = question.number;
        self.wrong = question.wrong;
        self.violation = question.violation;
        self.open = Some(question.asked);
    }

    /// Opens the next queued question. Those answered ahead of their turn have had it.
    pub(super) fn open_next(&mut self) {
        self.state = State::Processing;
        self.violation = None;
        self.wrong.clear();
        while let Some(mut next) = self.queued.pop_front() {
            let Some(answered) = next.answered.take() else {
                return self.open(next);
            };
            let (turn, number) = (self.turn(), next.number);
            self.history.push(AnsweredTurn { turn, number, asked: next.asked, answered });
        }
    }
}

/// Most questions behind the open one. A flow that asks more waits until there is room.
pub const MAX_QUEUED: usize = 31;
