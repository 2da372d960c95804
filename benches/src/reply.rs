//! Parser of the reply to one call.

use std::borrow::Cow;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The reply to one call.
pub(crate) struct Reply<'a> {
    pub(crate) id: usize,
    pub(crate) text: Cow<'a, str>,
}

impl<'a> Reply<'a> {
    /// Reads one message from a server. Returns `None` for a notification; any failure is an error.
    pub(crate) fn decode(message: &'a [u8]) -> anyhow::Result<Option<Self>> {
        let reply: Message<'_> =
            serde_json::from_slice(message).context("a line is not a reply")?;
        if reply.method.is_some() && reply.id.is_none() {
            return Ok(None);
        }
        ensure!(reply.error.is_none(), "a call was answered with an error");
        let (Some(id), Some(result)) = (reply.id, reply.result) else {
            bail!("a reply lacks its id or its result")
        };
        ensure!(!result.is_error, "a call failed in its tool");
        let Ok([content]) = <[Content<'_>; 1]>::try_from(result.content) else {
            bail!("a result is not one text")
        };
        Ok(Some(Self { id, text: content.text }))
    }
}

/// Returns the beginning of a message; a whole one may be 64 KB.
pub(crate) fn excerpt(message: &[u8]) -> String {
    String::from_utf8_lossy(message).chars().take(300).collect()
}

#[derive(Deserialize)]
struct Message<'a> {
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
