//! A minimal correct server: parse, add, print.
//!
//! One thread, blocking reads, one write per read. It has one tool and no sessions, limits,
//! cancellation or second client. The difference to MCP Flow is the cost of those.

use std::io::{self, Write};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lines::Lines;

#[expect(clippy::disallowed_methods, reason = "here stdout is the transport")]
pub(crate) fn serve() -> io::Result<()> {
    let mut lines = Lines::new(io::stdin().lock());
    let mut output = io::stdout().lock();
    let mut replies = Vec::new();
    while lines.read_batch(|line| answer(line, &mut replies))? {
        output.write_all(&replies)?;
        output.flush()?;
        replies.clear();
    }
    Ok(())
}

/// Appends the reply to one line; none for a notification.
fn answer(line: &[u8], replies: &mut Vec<u8>) -> io::Result<()> {
    let Ok(request) = serde_json::from_slice::<Request<'_>>(line) else {
        return write_error(replies, "null", -32700, "parse error");
    };
    let Some(id) = request.id.map(RawValue::get) else { return Ok(()) };
    match (request.method, request.params) {
        ("tools/call", Some(Params { name: Some("calculator.add"), arguments: Some(addends) })) => {
            write_sum(replies, id, addends.a + addends.b)
        }
        ("tools/call", _) => write_error(replies, id, -32602, "invalid params"),
        ("initialize", _) => write_result(replies, id, INITIALIZE_RESULT),
        _ => write_error(replies, id, -32601, "method not found"),
    }
}

/// The members of a request that matter here, parsed in one pass and borrowed from the line.
#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: &'a str,
    #[serde(borrow)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    name: Option<&'a str>,
    arguments: Option<Addends>,
}

#[derive(Deserialize)]
struct Addends {
    a: f64,
    b: f64,
}

// This reply is measured, so its constant parts are copied, not formatted.
fn write_sum(replies: &mut Vec<u8>, id: &str, sum: f64) -> io::Result<()> {
    replies.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    replies.extend_from_slice(id.as_bytes());
    replies.extend_from_slice(br#","result":{"content":[{"type":"text","text":""#);
    write!(replies, "{sum}")?;
    replies.extend_from_slice(br#""}],"isError":false}}"#);
    replies.push(b'\n');
    Ok(())
}

fn write_result(replies: &mut Vec<u8>, id: &str, result: &str) -> io::Result<()> {
    writeln!(replies, r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn write_error(replies: &mut Vec<u8>, id: &str, code: i32, message: &str) -> io::Result<()> {
    let error = format_args!(r#"{{"code":{code},"message":"{message}"}}"#);
    writeln!(replies, r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

const INITIALIZE_RESULT: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bare-loop","version":"0.1.0"}}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gets_one_reply_and_a_notification_none() {
        check(
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"calculator.add","arguments":{"a":2,"b":3}}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"5"}],"isError":false}}"#,
        );
        check(
            r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"other"}}"#,
            r#"{"jsonrpc":"2.0","id":"x","error":{"code":-32602,"message":"invalid params"}}"#,
        );
        check(
            "{",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}"#,
        );
        check(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "");
    }

    fn check(line: &str, expected: &str) {
        let mut replies = Vec::new();
        answer(line.as_bytes(), &mut replies).unwrap();
        assert_eq!(String::from_utf8(replies).unwrap().trim_end(), expected);
    }
}
