//! Which calls have been answered, and that each was answered once and rightly.

use std::borrow::Cow;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Keeps account of calls numbered from zero, and accepts one reply to each.
///
/// A server that drops, repeats or miscalculates replies would win every comparison, so a reply
/// that is not right is an error here rather than a statistic.
pub(crate) struct Ledger {
    answered: Vec<bool>,
    open: usize,
}

impl Ledger {
    pub(crate) fn new(calls: usize) -> Self {
        Self { answered: vec![false; calls], open: calls }
    }

    /// How many calls are still unanswered, sent or not.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Enters one line from a server, and checks the text of the result with `is_right`.
    ///
    /// Returns false if the line was a notification, which answers nothing.
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
        let reply: Reply<'_> = serde_json::from_slice(line).context("a line is not a reply")?;
        if reply.method.is_some() && reply.id.is_none() {
            return Ok(false);
        }
        ensure!(reply.error.is_none(), "a call was answered with an error");
        let (Some(id), Some(result)) = (reply.id, reply.result) else {
            bail!("a reply lacks its id or its result")
        };
        ensure!(!result.is_error, "a call failed in its tool");
        let answered = self.answered.get_mut(id).context("a call was answered but never made")?;
        ensure!(!*answered, "a call was answered twice");
        let [content] = result.content.as_slice() else { bail!("a result is not one text") };
        ensure!(is_right(id, &content.text), "a result is wrong");
        *answered = true;
        self.open -= 1;
        Ok(true)
    }
}

#[derive(Deserialize)]
struct Reply<'a> {
    id: Option<usize>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<CallResult<'a>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResult<'a> {
    #[serde(borrow)]
    content: Vec<Content<'a>>,
    #[serde(default)]
    is_error: bool,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

/// Enough of a line to recognise it by; a whole one may be 64 KB.
fn excerpt(line: &[u8]) -> String {
    String::from_utf8_lossy(line).chars().take(300).collect()
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
