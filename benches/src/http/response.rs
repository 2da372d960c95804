//! HTTP/1.1 response parser, as far as an MCP client needs it.
//!
//! Does no I/O. A complete response is borrowed from the input where it arrived in one piece.

use std::{borrow::Cow, str};

use anyhow::{Context, bail};
use memchr::memmem;

/// One complete response.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    pub(crate) status: u16,
    pub(crate) body: Cow<'a, [u8]>,
    /// Number of input bytes it takes up.
    pub(crate) length: usize,
    headers: &'a str,
}

impl<'a> Response<'a> {
    /// Returns the response at the start of `received`, if it is complete.
    pub(crate) fn decode(received: &'a [u8]) -> anyhow::Result<Option<Self>> {
        let Some(end) = memmem::find(received, b"\r\n\r\n") else { return Ok(None) };
        let head = str::from_utf8(&received[..end]).context("a response head is not text")?;
        let (status_line, headers) = head.split_once("\r\n").unwrap_or((head, ""));
        let status = status_line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
        let status = status.and_then(|status| status.parse().ok());
        let status = status.with_context(|| format!("{status_line:?} is not a status line"))?;

        let rest = &received[end + 4..];
        let body = match (find(headers, "content-length"), find(headers, "transfer-encoding")) {
            (Some(length), None) => {
                let length: usize = length.parse().context("a content length is not a number")?;
                rest.get(..length).map(|body| (Cow::Borrowed(body), length))
            }
            (None, Some("chunked")) => join_chunks(rest)?,
            _ => bail!("a response does not say how long it is"),
        };
        Ok(body.map(|(body, length)| Self { status, body, headers, length: end + 4 + length }))
    }

    /// Returns the value of a header, named in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&'a str> {
        find(self.headers, name)
    }

    /// Returns the JSON of a response: its body, or the last event of an event stream.
    pub(crate) fn message(&self) -> anyhow::Result<&[u8]> {
        // Parameters, such as a charset, may follow.
        match self.header("content-type").map(|kind| kind.split(';').next().unwrap_or(kind)) {
            Some("text/event-stream") => {
                let lines = self.body.split(|&byte| byte == b'\n').rev();
                let mut data = lines.filter_map(|line| line.strip_prefix(b"data:"));
                data.next().map(<[u8]>::trim_ascii).context("an event stream has no data")
            }
            Some("application/json") => Ok(&self.body),
            other => bail!("a response is neither JSON nor an event stream but {other:?}"),
        }
    }
}

fn find<'a>(headers: &'a str, name: &str) -> Option<&'a str> {
    headers.split("\r\n").find_map(|header| {
        let (found, value) = header.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Joins the chunks of a body. Also returns their encoded length.
fn join_chunks(bytes: &[u8]) -> anyhow::Result<Option<(Cow<'_, [u8]>, usize)>> {
    let mut body = Vec::new();
    let mut position = 0;
    loop {
        let Some(end) = memmem::find(&bytes[position..], b"\r\n") else { return Ok(None) };
        let size = str::from_utf8(&bytes[position..position + end])?;
        let size = usize::from_str_radix(size, 16).context("a chunk has no size")?;
        let start = position + end + 2;
        let Some(chunk) = bytes.get(start..start + size + 2) else { return Ok(None) };
        body.extend_from_slice(&chunk[..size]);
        position = start + size + 2;
        if size == 0 {
            return Ok(Some((body.into(), position)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";

    #[test]
    fn a_response_is_complete_when_its_length_is_reached() {
        check(&format!("{JSON}content-length: 2\r\n\r\n{{}}"), "{}");
        check(
            &format!("{JSON}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n1\r\n}}\r\n0\r\n\r\n"),
            "{}",
        );
    }

    #[test]
    fn the_message_of_an_event_stream_is_the_last_thing_said() {
        let events = "id: 0\ndata:\n\nid: 1\ndata: {}\n\n";
        let length = events.len();
        check(&format!("{EVENTS}content-length: {length}\r\n\r\n{events}"), "{}");
        check(
            &format!(
                "{EVENTS}transfer-encoding: chunked\r\n\r\n{length:x}\r\n{events}\r\n0\r\n\r\n"
            ),
            "{}",
        );
    }

    #[test]
    fn a_response_without_a_length_is_refused() {
        assert!(Response::decode(JSON.replace("\r\nC", "\r\n\r\nC").as_bytes()).is_err());
        assert!(Response::decode(b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n").is_err());
    }

    fn check(text: &str, expected: &str) {
        for end in 0..text.len() {
            assert!(Response::decode(&text.as_bytes()[..end]).unwrap().is_none(), "at {end}");
        }
        let more = format!("{text}HTTP/1.1 ");
        let response = Response::decode(more.as_bytes()).unwrap().unwrap();
        assert_eq!((response.status, response.length), (200, text.len()));
        assert_eq!(response.message().unwrap(), expected.as_bytes());
    }
}
