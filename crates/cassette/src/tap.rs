//! Cuts relayed bytes into messages, in bounded memory.

use ring::digest::{Context, SHA256};

/// A piece of traffic to be recorded.
#[derive(Debug)]
pub(crate) enum Piece {
    /// A whole message.
    Message(Vec<u8>),
    /// A message beyond the limit.
    Large {
        /// Its beginning and its end, to find its id.
        head: Vec<u8>,
        tail: Vec<u8>,
        bytes: u64,
        sha256: String,
    },
}

/// Collects one message.
#[derive(Default)]
pub(crate) struct Collector {
    kept: Vec<u8>,
    /// The rest, once the message is beyond the limit.
    rest: Option<Rest>,
}

struct Rest {
    digest: Context,
    length: u64,
    /// At least the last bytes.
    tail: Vec<u8>,
}

impl Rest {
    fn push(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.length += bytes.len() as u64;
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL)..]);
        if self.tail.len() > 4 * TAIL {
            self.tail.drain(..self.tail.len() - TAIL);
        }
    }
}

impl Collector {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if let Some(rest) = &mut self.rest {
            rest.push(bytes);
            return;
        }
        self.kept.extend_from_slice(bytes);
        if self.kept.len() > MAX_MESSAGE {
            let mut rest = Rest { digest: Context::new(&SHA256), length: 0, tail: Vec::new() };
            rest.push(&self.kept);
            self.rest = Some(rest);
            self.kept.truncate(HEAD);
            self.kept.shrink_to_fit();
        }
    }

    /// Takes the message; `None` if there is none.
    pub(crate) fn take(&mut self) -> Option<Piece> {
        let kept = std::mem::take(&mut self.kept);
        match self.rest.take() {
            Some(Rest { digest, length, tail }) => {
                let sha256 = hex(digest.finish().as_ref());
                Some(Piece::Large { head: kept, tail, bytes: length, sha256 })
            }
            None if kept.trim_ascii().is_empty() => None,
            None => Some(Piece::Message(kept)),
        }
    }
}

/// Cuts newline-delimited messages.
#[derive(Default)]
pub(crate) struct LineTap {
    collector: Collector,
}

impl LineTap {
    pub(crate) fn push(&mut self, mut bytes: &[u8], pieces: &mut Vec<Piece>) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.collector.push(&bytes[..end]);
            pieces.extend(self.collector.take());
            bytes = &bytes[end + 1..];
        }
        self.collector.push(bytes);
    }

    pub(crate) fn finish(&mut self) -> Option<Piece> {
        self.collector.take()
    }
}

/// Cuts the events of a server-sent event stream.
#[derive(Default)]
pub(crate) struct EventTap {
    line: LineStart,
    data: Collector,
    has_data: bool,
    kind: EventKind,
    /// The endpoint of the legacy transport, until it is taken.
    pub(crate) endpoint: Option<String>,
}

/// Kind of an event by its name.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum EventKind {
    #[default]
    Message,
    Endpoint,
    Other,
}

/// The part of a line that was seen.
#[derive(Debug, Default)]
struct LineStart {
    text: Vec<u8>,
    /// True once it is known that the line holds data.
    is_data: bool,
}

impl EventTap {
    pub(crate) fn push(&mut self, bytes: &[u8], pieces: &mut Vec<Piece>) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n');
            let (part, next) = match end {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None => (rest, &rest[rest.len()..]),
            };
            self.push_part(part);
            if end.is_some() {
                self.end_line(pieces);
            }
            rest = next;
        }
    }

    fn push_part(&mut self, part: &[u8]) {
        if self.line.is_data {
            self.data.push(part);
            return;
        }
        self.line.text.extend_from_slice(part);
        let text = &self.line.text;
        if text.len() >= 6 && text.starts_with(b"data:") {
            let start = if text[5] == b' ' { 6 } else { 5 };
            if self.has_data {
                self.data.push(b"\n");
            }
            let first = text[start..].to_vec();
            self.data.push(&first);
            (self.has_data, self.line.is_data) = (true, true);
            self.line.text.clear();
        } else if text.len() > MAX_FIELD {
            self.line.text.truncate(MAX_FIELD);
        }
    }

    fn end_line(&mut self, pieces: &mut Vec<Piece>) {
        let is_data = std::mem::take(&mut self.line.is_data);
        let text = std::mem::take(&mut self.line.text);
        let text = text.trim_ascii();
        if is_data {
            return;
        }
        if let Some(name) = text.strip_prefix(b"event:") {
            self.kind = match name.trim_ascii() {
                b"message" => EventKind::Message,
                b"endpoint" => EventKind::Endpoint,
                _ => EventKind::Other,
            };
        } else if text.is_empty() {
            let piece = self.data.take();
            let has_data = std::mem::take(&mut self.has_data);
            match (std::mem::take(&mut self.kind), piece) {
                (EventKind::Message, Some(piece)) if has_data => pieces.push(piece),
                (EventKind::Endpoint, Some(Piece::Message(data))) => {
                    self.endpoint = String::from_utf8(data).ok().map(|text| text.trim().to_owned());
                }
                _ => {}
            }
        }
    }
}

/// Cuts the text messages of one direction of a WebSocket.
#[derive(Default)]
pub(crate) struct FrameTap {
    header: Vec<u8>,
    payload: u64,
    mask: Option<[u8; 4]>,
    position: usize,
    is_final: bool,
    is_control: bool,
    in_payload: bool,
    message: Collector,
}

impl FrameTap {
    pub(crate) fn push(&mut self, mut bytes: &[u8], pieces: &mut Vec<Piece>) {
        while !bytes.is_empty() {
            if !self.in_payload {
                self.header.push(bytes[0]);
                bytes = &bytes[1..];
                self.read_header();
            } else {
                let taken = usize::try_from(self.payload).unwrap_or(usize::MAX).min(bytes.len());
                if !self.is_control {
                    let mut part = bytes[..taken].to_vec();
                    if let Some(mask) = self.mask {
                        for (at, byte) in part.iter_mut().enumerate() {
                            *byte ^= mask[(self.position + at) % 4];
                        }
                    }
                    self.message.push(&part);
                }
                self.position += taken;
                self.payload -= taken as u64;
                bytes = &bytes[taken..];
            }
            if self.in_payload && self.payload == 0 {
                self.in_payload = false;
                if self.is_final && !self.is_control {
                    pieces.extend(self.message.take());
                }
            }
        }
    }

    fn read_header(&mut self) {
        let header = &self.header;
        let Some(second) = header.get(1) else { return };
        let extended = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let masked = if second & 0x80 != 0 { 4 } else { 0 };
        if header.len() < 2 + extended + masked {
            return;
        }
        let number =
            header[2..2 + extended].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        self.payload = if extended == 0 { u64::from(second & 0x7f) } else { number };
        self.mask = header[2 + extended..].try_into().ok().filter(|_| masked == 4);
        self.is_final = header[0] & 0x80 != 0;
        self.is_control = header[0] & 0x08 != 0;
        self.position = 0;
        self.in_payload = true;
        self.header.clear();
    }
}

/// Returns whether a message is kept whole. Parsed, a message takes memory by its values rather than by its
/// bytes, up to a hundred times as much.
pub(crate) fn is_kept(message: &[u8]) -> bool {
    if message.len() <= ALWAYS_KEPT || message.len() > MAX_MESSAGE {
        return message.len() <= MAX_MESSAGE;
    }
    let (mut weight, mut in_text, mut is_escaped) = (0, false, false);
    for byte in message {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' => weight += OBJECT_WEIGHT,
            b'[' | b',' => weight += VALUE_WEIGHT,
            _ => {}
        }
    }
    weight <= MAX_WEIGHT
}

/// Digest of bytes, in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(ring::digest::digest(&SHA256, bytes).as_ref())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Limit on a message that is kept whole, in bytes.
pub(crate) const MAX_MESSAGE: usize = 1024 * 1024;

/// Length up to which a message is kept, whatever is in it.
const ALWAYS_KEPT: usize = 64 * 1024;

/// Memory that a parsed object and another value take, in bytes, and the limit on that of a message.
const OBJECT_WEIGHT: usize = 560;
const VALUE_WEIGHT: usize = 110;
const MAX_WEIGHT: usize = 12 * 1024 * 1024;

/// Parts of a larger message that are kept to find its id.
pub(crate) const HEAD: usize = 4096;
pub(crate) const TAIL: usize = 4096;

/// Part of other fields of an event that is kept.
const MAX_FIELD: usize = 64;

#[cfg(test)]
mod tests {
    use super::{EventTap, FrameTap, LineTap, MAX_MESSAGE, Piece, is_kept, sha256};

    fn texts(pieces: Vec<Piece>) -> Vec<String> {
        let text = |piece| match piece {
            Piece::Message(bytes) => String::from_utf8(bytes).unwrap(),
            Piece::Large { bytes, sha256, .. } => format!("{bytes} {sha256}"),
        };
        pieces.into_iter().map(text).collect()
    }

    #[test]
    fn messages_do_not_depend_on_how_bytes_arrive() {
        let large = "x".repeat(MAX_MESSAGE + 5);
        let digest = format!("{} {}", large.len(), sha256(large.as_bytes()));
        let lines = format!("{{}}\n\n[1]\r\n{large}\nend");
        let events = format!(
            ": hello\n\nid: 1\ndata: {{}}\n\nevent: endpoint\ndata: /x\n\nevent: message\r\ndata:a\n\
             data: b\n\ndata: {large}\n\n"
        );
        for size in [1, 3, 4096, usize::MAX] {
            let (mut tap, mut pieces) = (LineTap::default(), Vec::new());
            lines
                .as_bytes()
                .chunks(size.min(lines.len()))
                .for_each(|part| tap.push(part, &mut pieces));
            pieces.extend(tap.finish());
            assert_eq!(texts(pieces), ["{}", "[1]\r", &digest, "end"], "{size}");
            let (mut tap, mut pieces) = (EventTap::default(), Vec::new());
            let chunks = events.as_bytes().chunks(size.min(events.len()));
            chunks.for_each(|part| tap.push(part, &mut pieces));
            assert_eq!(texts(pieces), ["{}", "a\nb", &digest], "{size}");
            assert_eq!(tap.endpoint.as_deref(), Some("/x"), "{size}");
        }
    }

    #[test]
    fn messages_are_cut_from_frames() {
        // "Hi" masked, a ping, and "there" in two frames.
        let frames = [
            &[0x81, 0x82, 1, 2, 3, 4, b'H' ^ 1, b'i' ^ 2][..],
            &[0x89, 0x00],
            &[0x01, 0x02, b't', b'h', 0x80, 0x03, b'e', b'r', b'e'],
        ]
        .concat();
        for size in [1, 2, 100] {
            let (mut tap, mut pieces) = (FrameTap::default(), Vec::new());
            frames.chunks(size).for_each(|part| tap.push(part, &mut pieces));
            assert_eq!(texts(pieces), ["Hi", "there"], "{size}");
        }
    }

    #[test]
    fn messages_of_very_many_values_are_not_kept() {
        for (part, is_light) in [
            ("{\"a\":0},", false),
            ("1,", false),
            ("[],", false),
            ("\"[[[,,,{{{ \\\" \\\\\",", true),
            ("\"a text as long as most of them are, with an end\",", true),
        ] {
            let message = |bytes: usize| format!("[{}0]", part.repeat(bytes / part.len()));
            assert_eq!(is_kept(message(1_000_000).as_bytes()), is_light, "{part}");
            assert!(is_kept(message(60_000).as_bytes()), "{part}");
            assert!(!is_kept(message(1_100_000).as_bytes()), "{part}");
        }
    }
}
