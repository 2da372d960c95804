//! Server-sent events: how a message is written as one.

use bytes::Bytes;

/// One event. JSON messages hold no line breaks, so its data is one line.
pub(crate) fn event(name: Option<&str>, id: Option<&str>, data: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(data.len() + 64);
    write(&mut text, name, id, data);
    text.into()
}

/// Messages that are ready together, one event each.
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

/// An event that holds nothing but an id, so that a client can come back even if nothing else
/// reaches it, and how long it should wait before it does.
pub(crate) fn prime(id: &str) -> Bytes {
    format!("id: {id}\nretry: {RETRY}\ndata: \n\n").into()
}

/// A comment, which shows that the stream is alive.
pub(crate) const KEEP_ALIVE: Bytes = Bytes::from_static(b":\n\n");

/// In milliseconds.
const RETRY: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::event;

    /// MCP-046: every line of the data has its prefix, and a blank line ends the event.
    #[test]
    fn an_event_is_framed_by_the_rules() {
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
