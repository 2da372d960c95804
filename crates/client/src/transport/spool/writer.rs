//! One message, whose large content goes to files while it arrives.

use std::sync::Arc;

use super::text::TextWriter;
use super::{Spool, SpoolError, Spooled, token};

/// Writer of one message.
#[derive(Debug)]
pub struct SpoolWriter {
    spool: Arc<Spool>,
    limit: usize,
    /// The message with tokens in the places of large content.
    rest: Vec<u8>,
    /// Objects and arrays that are open.
    levels: Vec<Level>,
    string: Option<OpenString>,
    contents: Vec<(String, Spooled)>,
}

/// An object, with its present member, or an array.
#[derive(Debug, Default)]
struct Level {
    is_object: bool,
    /// True if a name of a member comes next.
    is_at_name: bool,
    /// The last name, cut off.
    member: Vec<u8>,
}

/// A string that has begun.
#[derive(Debug)]
struct OpenString {
    /// Position in the rest of the message at which it begins.
    start: usize,
    is_escaped: bool,
    is_name: bool,
    /// Set if its text is written to a file: from the start if it is content, once it is large.
    text: Option<TextWriter>,
    /// True if it is the text or the bytes of content.
    is_content: bool,
}

impl SpoolWriter {
    pub(super) fn new(spool: Arc<Spool>, limit: usize) -> Self {
        let (rest, levels, contents) = (Vec::new(), Vec::new(), Vec::new());
        Self { spool, limit, rest, levels, string: None, contents }
    }

    /// Takes the next bytes of the message.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        // Little of what was received at once is copied before it is known to be content.
        bytes.chunks(BLOCK).try_for_each(|piece| self.write_piece(piece))
    }

    fn write_piece(&mut self, mut bytes: &[u8]) -> Result<(), SpoolError> {
        while let Some(&byte) = bytes.first() {
            let taken = match self.string.take() {
                Some(string) => self.write_string(string, bytes)?,
                None => {
                    self.write_structure(byte)?;
                    1
                }
            };
            bytes = &bytes[taken..];
            if self.rest.len() > self.limit {
                return Err(SpoolError::TooLong(self.limit));
            }
        }
        Ok(())
    }

    /// Returns the message with tokens for its large content, which can be taken from now on.
    pub fn finish(self) -> Result<Vec<u8>, SpoolError> {
        if self.string.is_some() || !self.levels.is_empty() {
            return Err(SpoolError::Invalid);
        }
        self.spool.keep(self.contents);
        Ok(self.rest)
    }

    fn write_structure(&mut self, byte: u8) -> Result<(), SpoolError> {
        self.rest.push(byte);
        match byte {
            b'{' | b'[' => {
                if self.levels.len() >= MAX_DEPTH {
                    return Err(SpoolError::Invalid);
                }
                let is_object = byte == b'{';
                self.levels.push(Level { is_object, is_at_name: is_object, ..Level::default() });
            }
            b'}' | b']' => drop(self.levels.pop()),
            b':' | b',' => {
                if let Some(level) = self.levels.last_mut() {
                    level.is_at_name = level.is_object && byte == b',';
                }
            }
            b'"' => {
                let is_name = self.levels.last().is_some_and(|level| level.is_at_name);
                let is_content = !is_name && self.is_content();
                let start = self.rest.len();
                let string =
                    OpenString { start, is_escaped: false, is_name, text: None, is_content };
                self.string = Some(string);
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes bytes of the open string. Returns their number.
    fn write_string(&mut self, mut string: OpenString, bytes: &[u8]) -> Result<usize, SpoolError> {
        let mut length = 0;
        let is_over = loop {
            if length == bytes.len() {
                break false;
            }
            if std::mem::take(&mut string.is_escaped) {
                length += 1;
                continue;
            }
            match memchr::memchr2(b'"', b'\\', &bytes[length..]) {
                None => length = bytes.len(),
                Some(plain) => {
                    length += plain;
                    if bytes[length] == b'"' {
                        break true;
                    }
                    string.is_escaped = true;
                    length += 1;
                }
            }
        };
        match &mut string.text {
            Some(text) => text.write(&bytes[..length])?,
            None => {
                self.rest.extend_from_slice(&bytes[..length]);
                if string.is_content && self.rest.len() - string.start > MIN_LENGTH {
                    self.begin_file(&mut string)?;
                }
            }
        }
        match is_over {
            true => {
                self.end_string(string)?;
                Ok(length + 1)
            }
            false => {
                self.string = Some(string);
                Ok(length)
            }
        }
    }

    fn begin_file(&mut self, string: &mut OpenString) -> Result<(), SpoolError> {
        if self.contents.len() >= MAX_FILES {
            return Ok(());
        }
        let member = self.levels.last().map(|level| level.member.as_slice());
        let is_base64 = matches!(member, Some(b"data" | b"blob"));
        let mut text = TextWriter::new(self.spool.create()?, is_base64);
        text.write(&self.rest[string.start..])?;
        self.rest.truncate(string.start);
        string.text = Some(text);
        Ok(())
    }

    fn end_string(&mut self, string: OpenString) -> Result<(), SpoolError> {
        if let Some(text) = string.text {
            let (token, content) = (token()?, text.finish()?);
            self.rest.extend_from_slice(token.as_bytes());
            self.contents.push((token, content));
        } else if string.is_name
            && let Some(level) = self.levels.last_mut()
        {
            let name = &self.rest[string.start..];
            level.member = name[..name.len().min(MAX_NAME)].to_vec();
        }
        self.rest.push(b'"');
        Ok(())
    }

    /// Returns whether the value that begins is the text or the bytes of content in a result.
    fn is_content(&self) -> bool {
        let mut path = [b"".as_slice(); 5];
        if self.levels.len() > path.len() {
            return false;
        }
        for (name, level) in path.iter_mut().zip(&self.levels) {
            *name = if level.is_object { &level.member } else { b"[" };
        }
        matches!(
            path,
            [b"result", b"content", b"[", b"text" | b"data", b""]
                | [b"result", b"content", b"[", b"resource", b"text" | b"blob"]
                | [b"result", b"contents", b"[", b"text" | b"blob", b""]
        )
    }
}

/// Bytes that are taken at once.
const BLOCK: usize = 64 * 1024;

/// Length up to which content stays in the message.
const MIN_LENGTH: usize = 256 * 1024;

/// Limit on the files of one message.
const MAX_FILES: usize = 64;

/// Limit on the depth of a message.
const MAX_DEPTH: usize = 128;

/// Length of the names that are told apart.
const MAX_NAME: usize = 16;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{MIN_LENGTH, SpoolError};
    use crate::transport::Spool;
    use serde_json::{Value, json};
    use tokio::io::AsyncReadExt;

    /// Writes a message in pieces of this size.
    fn spooled(spool: &Arc<Spool>, message: &str, size: usize) -> Result<Value, SpoolError> {
        let mut writer = spool.write(1 << 20);
        message.as_bytes().chunks(size).try_for_each(|piece| writer.write(piece))?;
        let rest = writer.finish()?;
        Ok(serde_json::from_slice(&rest).unwrap())
    }

    async fn taken(spool: &Spool, token: &Value) -> Vec<u8> {
        let content = spool.take(token.as_str().unwrap()).expect("the token is known");
        let (length, mut bytes) = (content.length(), Vec::new());
        content.into_reader().unwrap().read_to_end(&mut bytes).await.unwrap();
        assert_eq!(length, bytes.len() as u64);
        bytes
    }

    /// Large content is in files, however the bytes arrive, and everything else in the message.
    #[tokio::test]
    async fn large_content_is_replaced_by_tokens() {
        let text = "a\"\\\n\t\u{1}é😀/".repeat(MIN_LENGTH / 8);
        let bytes = "AQIDBA==";
        let long = format!("{}{bytes}", "AAAA".repeat(MIN_LENGTH / 3));
        let message = json!({
            "jsonrpc": "2.0", "id": 7, "other": {"text": "x"},
            "result": {
                "content": [
                    {"type": "text", "text": text}, {"type": "text", "text": "short"},
                    {"type": "image", "data": long, "mimeType": "image/png"},
                    {"type": "resource", "resource": {"uri": "x:/a", "blob": long}},
                    {"type": "resource", "resource": {"uri": "x:/a", "text": text}},
                ],
                "structuredContent": {"text": "kept".repeat(MIN_LENGTH / 8)},
            }
        });
        let spool = Spool::new(std::env::temp_dir(), 1 << 30);
        // With `\u` escapes for everything that can have them.
        let escaped = message.to_string().replace('é', "\\u00e9").replace('😀', "\\ud83d\\uDE00");
        for (form, size) in
            [(message.to_string(), 1 << 16), (escaped.clone(), 7), (escaped, 1 << 20)]
        {
            let found = spooled(&spool, &form, size).unwrap();
            let content = found["result"]["content"].as_array().unwrap();
            assert_eq!(taken(&spool, &content[0]["text"]).await, text.as_bytes());
            assert_eq!(content[1]["text"], "short");
            for item in [&content[2]["data"], &content[3]["resource"]["blob"]] {
                let decoded = taken(&spool, item).await;
                assert!(decoded.ends_with(&[0, 1, 2, 3, 4]) && decoded.len() > MIN_LENGTH / 2);
            }
            assert_eq!(taken(&spool, &content[4]["resource"]["text"]).await, text.as_bytes());
            assert_eq!(
                found["result"]["structuredContent"],
                message["result"]["structuredContent"]
            );
            assert_eq!((&found["id"], &found["other"]), (&message["id"], &message["other"]));
            assert!(spool.take(content[0]["text"].as_str().unwrap()).is_none(), "taken twice");
            assert_eq!(spool.state.lock().used, 0);
        }
    }

    #[tokio::test]
    async fn what_cannot_be_spooled_is_refused_and_leaves_nothing() {
        let spool = Spool::new(std::env::temp_dir(), 3 << 20);
        let content =
            |text: &str| format!("{{\"result\":{{\"content\":[{{\"text\":\"{text}\"}}]}}}}");
        let long = "x".repeat(2 << 20);
        for (message, is_expected) in [
            (
                content(&long.repeat(2)),
                (|error| matches!(error, SpoolError::Full(_))) as fn(&_) -> _,
            ),
            (format!("{{\"params\":\"{long}\"}}"), |error| matches!(error, SpoolError::TooLong(_))),
            (content(&format!("{long}\\x")), |error| matches!(error, SpoolError::Invalid)),
            (content(&format!("{long}\\ud800x")), |error| matches!(error, SpoolError::Invalid)),
            (content(&long).replace("text", "data") + "", |_| true),
            (content(&format!("{long}!")).replace("text", "data"), |error| {
                matches!(error, SpoolError::Invalid)
            }),
            ("[".repeat(1000), |error| matches!(error, SpoolError::Invalid)),
            (content(&long)[..long.len()].to_owned(), |error| matches!(error, SpoolError::Invalid)),
        ] {
            match spooled(&spool, &message, 1 << 16) {
                Err(error) => assert!(is_expected(&error), "{error:?}"),
                Ok(found) => drop(taken(&spool, &found["result"]["content"][0]["data"]).await),
            }
            assert_eq!(spool.state.lock().used, 0);
        }
    }
}
