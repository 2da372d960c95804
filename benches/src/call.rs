//! The small call that servers are compared by: `calculator.add`, whose sum follows from the id.

use std::io::{self, Write};

/// Appends the request with this id, whose params also contain `extra`: nothing, or
/// `,"name":value`.
pub(crate) fn write(request: &mut Vec<u8>, id: usize, extra: &str) -> io::Result<()> {
    let (a, b) = addends(id);
    let arguments = format_args!(r#"{{"a":{a},"b":{b}}}"#);
    let params = format_args!(r#"{{"name":"calculator.add","arguments":{arguments}{extra}}}"#);
    write!(request, r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
}

/// Returns whether a text is the expected sum for this id.
pub(crate) fn is_sum(id: usize, text: &str) -> bool {
    let (a, b) = addends(id);
    text.parse() == Ok((a + b) as f64)
}

/// Neighbouring calls have different sums, so a reply with the wrong id is detected. Recordings of a
/// hundred thousand calls have as many different requests.
fn addends(id: usize) -> (usize, usize) {
    (id % 100_000, 3)
}
