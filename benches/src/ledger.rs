//! Ledger of calls: each must be answered once and correctly.

use anyhow::{Context, ensure};

use crate::reply::{Reply, excerpt};

/// Tracks calls numbered from zero and accepts one reply to each.
///
/// A server that drops, repeats or miscalculates replies would win every comparison, so a wrong
/// reply is an error, not a statistic.
pub(crate) struct Ledger {
    answered: Vec<bool>,
    open: usize,
}

impl Ledger {
    pub(crate) fn new(calls: usize) -> Self {
        Self { answered: vec![false; calls], open: calls }
    }

    /// Returns the number of unanswered calls, sent or not.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Records one line from a server and checks the text of its result with `is_right`.
    ///
    /// Returns false for a notification.
    pub(crate) fn enter(
        &mut self,
        line: &[u8],
        is_right: impl FnOnce(usize, &str) -> bool,
    ) -> anyhow::Result<bool> {
        self.settle(line, is_right).with_context(|| {
            format!("after {} right replies: {}", self.answered.len() - self.open, excerpt(line))
        })
    }

    fn settle(
        &mut self,
        line: &[u8],
        is_right: impl FnOnce(usize, &str) -> bool,
    ) -> anyhow::Result<bool> {
        let Some(Reply { id, text }) = Reply::decode(line)? else { return Ok(false) };
        let answered = self.answered.get_mut(id).context("a call was answered but never made")?;
        ensure!(!*answered, "a call was answered twice");
        ensure!(is_right(id, &text), "a result is wrong");
        *answered = true;
        self.open -= 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_answered_once_and_rightly_or_not_at_all() {
        let right = r#"{"id":0,"result":{"content":[{"type":"text","text":"5"}]}}"#;
        check(&[right], Ok(1));
        check(&[right, r#"{"method":"notifications/message"}"#], Ok(1));
        check(&[right, right], Err("a call was answered twice"));
        check(&[&right.replace('5', "6")], Err("a result is wrong"));
        check(&[&right.replace(":0", ":2")], Err("a call was answered but never made"));
        check(&[r#"{"id":0,"error":{"code":1}}"#], Err("a call was answered with an error"));
        check(
            &[r#"{"id":0,"result":{"content":[],"isError":true}}"#],
            Err("a call failed in its tool"),
        );
        check(&["{"], Err("a line is not a reply"));
    }

    fn check(lines: &[&str], expected: Result<usize, &str>) {
        let mut ledger = Ledger::new(2);
        let outcome = lines
            .iter()
            .try_for_each(|line| ledger.enter(line.as_bytes(), |_, text| text == "5").map(drop));
        match (outcome, expected) {
            (Ok(()), Ok(open)) => assert_eq!(ledger.open(), open),
            (Err(error), Err(message)) => assert!(format!("{error:?}").contains(message)),
            (outcome, expected) => panic!("{outcome:?} is not {expected:?}"),
        }
    }
}
