//! Encoding of server-sent events.

use bytes::Bytes;

/// Encodes one event. JSON messages contain no line breaks, so their data is one line.
pub(crate) fn event(name: Option<&str>, id: Option<&str>, data: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(data.len() + 64);
    write(&mut text, name, id, data);
    text.into()
}

/// Encodes several messages, one event each.
pub(crate) fn messages<'a>(messages: impl Iterator<Item = &'a [u8]>) -> Bytes {
    let mut text = Vec::new();
    messages.for_each(|message| write(&mut text, Some("message"), None, message));
    text.into()
}

fn write(text: &mut Vec<u8>, name: Option<&str>, id: Option<&str>, data: &[u8]) {
    for (field, value) in [("event", name), ("id", id)] {
        if let Some(value) = value {
            text.extend_from_slice(field.as_bytes());
            text.extend_from_slice(b": ");
            text.extend_from_slice(value.as_bytes());
            text.push(b'\n');
        }
    }
    for line in data.split(|byte| *byte == b'\n') {
        text.extend_from_slice(b"data: ");
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    text.push(b'\n');
}

/// Encodes a priming event: an id and a retry time without data, so that a client can resume even if
/// it receives nothing else.
pub(crate) fn prime(id: &str) -> Bytes {
    format!("id: {id}\nretry: {RETRY}\ndata: \n\n").into()
}

/// Keep-alive comment.
pub(crate) const KEEP_ALIVE: Bytes = Bytes::from_static(b":\n\n");

/// Reconnection time in milliseconds.
const RETRY: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::event;

    /// MCP-046: every line of the data has its prefix, and a blank line ends the event.
    #[test]
    fn events_are_encoded_line_by_line() {
        for (name, id, data, expected) in [
            (None, None, "{}", "data: {}\n\n"),
            (Some("message"), None, "{}", "event: message\ndata: {}\n\n"),
            (Some("message"), Some("1-2"), "", "event: message\nid: 1-2\ndata: \n\n"),
            (None, None, "a\nb", "data: a\ndata: b\n\n"),
        ] {
            assert_eq!(event(name, id, data.as_bytes()), expected.as_bytes());
        }
    }
}
