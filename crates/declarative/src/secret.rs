//! Secrets: references to environment variables and files, and masking of their values.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::io::{AsyncRead, ReadBuf};

/// Reference to a secret: `env:NAME` or `file:PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SecretSource {
    Environment(Box<str>),
    File(PathBuf),
}

impl SecretSource {
    /// Parses a reference. Relative paths are below `folder`.
    pub(crate) fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("env", name)) if !name.is_empty() && !name.contains(['=', '\0']) => {
                Ok(Self::Environment(name.into()))
            }
            Some(("file", path)) if !path.is_empty() && !path.contains('\0') => {
                Ok(Self::File(folder.join(path)))
            }
            _ => Err("a secret is env:NAME or file:PATH".to_owned()),
        }
    }

    /// Reads the secret. The error names it.
    pub(crate) fn read(&self) -> Result<Secret, String> {
        let value = match self {
            Self::Environment(name) => std::env::var(&**name).map_err(|error| match error {
                std::env::VarError::NotPresent => format!("the secret {self} is not set"),
                std::env::VarError::NotUnicode(_) => format!("the secret {self} is not UTF-8"),
            })?,
            Self::File(path) => {
                let unread =
                    |error: std::io::Error| format!("the secret {self} is missing: {error}");
                let metadata = path.metadata().map_err(unread)?;
                if !metadata.is_file() || metadata.len() > MAX_BYTES {
                    return Err(format!(
                        "the secret {self} is not a file of up to {MAX_BYTES} bytes"
                    ));
                }
                let text = std::fs::read_to_string(path).map_err(unread)?;
                text.trim_end_matches(['\r', '\n']).to_owned()
            }
        };
        match value {
            empty if empty.is_empty() => Err(format!("the secret {self} is empty")),
            nul if nul.contains('\0') => Err(format!("the secret {self} contains NUL")),
            value => Ok(Secret(value)),
        }
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(name) => write!(formatter, "env:{name}"),
            Self::File(path) => write!(formatter, "file:{}", path.display()),
        }
    }
}

/// Value of a secret, which is not printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(value: String) -> Self {
        Self(value)
    }

    /// Returns the credentials of a value of the `Authorization` header.
    pub(crate) fn without_scheme(&self) -> Self {
        Self(self.0.split_once(' ').map_or(&*self.0, |(_, rest)| rest).to_owned())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

/// Replaces secrets in output, also where they were encoded on the way.
#[derive(Clone, Default)]
pub(crate) struct Masker {
    /// Spellings of the secrets, longest first.
    spellings: Vec<Vec<u8>>,
}

impl Masker {
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut spellings: Vec<Vec<u8>> = Vec::new();
        for Secret(secret) in secrets {
            let json = serde_json::to_string(secret).unwrap_or_default();
            let encoded = utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string();
            for spelling in [
                secret.clone(),
                json.trim_matches('"').to_owned(),
                encoded,
                STANDARD.encode(secret),
            ] {
                if !spelling.is_empty() && !spellings.contains(&spelling.as_bytes().to_vec()) {
                    spellings.push(spelling.into_bytes());
                }
            }
        }
        spellings.sort_by_key(|spelling| std::cmp::Reverse(spelling.len()));
        Self { spellings }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.spellings.is_empty()
    }

    /// Masks a whole text.
    pub(crate) fn text(&self, text: &str) -> String {
        if self.is_empty() {
            return text.to_owned();
        }
        let mut stream = MaskingStream::new(self.clone());
        let mut masked = stream.push(text.as_bytes());
        masked.extend(stream.finish());
        // Secrets are whole texts, so what is left between them is UTF-8 as well; base64 and
        // encoded spellings are ASCII.
        String::from_utf8_lossy(&masked).into_owned()
    }
}

impl fmt::Debug for Masker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Masker")
    }
}

/// Masks a stream of bytes, in which secrets may be split between pieces.
#[derive(Debug)]
pub(crate) struct MaskingStream {
    masker: Masker,
    /// Bytes that may be the beginning of a secret.
    held: Vec<u8>,
    /// First bytes of the spellings.
    first: [bool; 256],
}

impl MaskingStream {
    pub(crate) fn new(masker: Masker) -> Self {
        let mut first = [false; 256];
        for spelling in &masker.spellings {
            first[usize::from(spelling[0])] = true;
        }
        Self { masker, held: Vec::new(), first }
    }

    /// Returns the masked bytes of a piece, as far as they are decided.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        if self.masker.is_empty() {
            return piece.to_vec();
        }
        self.held.extend_from_slice(piece);
        self.take(false)
    }

    /// Returns the rest.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.take(true)
    }

    fn take(&mut self, is_last: bool) -> Vec<u8> {
        let bytes = std::mem::take(&mut self.held);
        let mut masked = Vec::with_capacity(bytes.len());
        let mut position = 0;
        while position < bytes.len() {
            let rest = &bytes[position..];
            if !self.first[usize::from(rest[0])] {
                masked.push(rest[0]);
                position += 1;
                continue;
            }
            let spellings = &self.masker.spellings;
            // A longer spelling that may still follow comes before a shorter one that is there.
            let is_open = |spelling: &Vec<u8>| {
                !is_last && spelling.len() > rest.len() && spelling.starts_with(rest)
            };
            if spellings.iter().any(is_open) {
                self.held = rest.to_vec();
                return masked;
            }
            match spellings.iter().find(|spelling| rest.starts_with(spelling)) {
                Some(spelling) => {
                    masked.extend_from_slice(MASK);
                    position += spelling.len();
                }
                None => {
                    masked.push(rest[0]);
                    position += 1;
                }
            }
        }
        masked
    }
}

/// Reader whose bytes have secrets masked.
pub(crate) struct MaskedReader<R> {
    inner: R,
    stream: MaskingStream,
    buffer: Vec<u8>,
    /// Masked bytes, of which some were taken.
    ready: Vec<u8>,
    taken: usize,
    is_finished: bool,
}

impl<R> MaskedReader<R> {
    pub(crate) fn new(inner: R, masker: Masker) -> Self {
        let buffer = if masker.is_empty() { Vec::new() } else { vec![0; CHUNK] };
        let stream = MaskingStream::new(masker);
        Self { inner, stream, buffer, ready: Vec::new(), taken: 0, is_finished: false }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for MaskedReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.stream.masker.is_empty() {
            return Pin::new(&mut this.inner).poll_read(context, buffer);
        }
        loop {
            if this.taken < this.ready.len() {
                let rest = &this.ready[this.taken..];
                let length = rest.len().min(buffer.remaining());
                buffer.put_slice(&rest[..length]);
                this.taken += length;
                return Poll::Ready(Ok(()));
            }
            if this.is_finished {
                return Poll::Ready(Ok(()));
            }
            let mut read = ReadBuf::new(&mut this.buffer);
            ready!(Pin::new(&mut this.inner).poll_read(context, &mut read))?;
            this.taken = 0;
            this.ready = match read.filled() {
                [] => {
                    this.is_finished = true;
                    this.stream.finish()
                }
                filled => this.stream.push(filled),
            };
        }
    }
}

/// Bytes masked at once.
const CHUNK: usize = 64 * 1024;

const MASK: &[u8] = b"***";

/// Limit on the size of a secret in a file.
const MAX_BYTES: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::{Masker, MaskingStream, Secret, SecretSource};
    use std::path::Path;

    #[test]
    fn secrets_are_masked_however_they_are_split_and_encoded() {
        let secrets = [Secret("s3cr\"et".to_owned()), Secret("s3".to_owned())];
        let masker = Masker::new(&secrets);
        for (text, masked) in [
            ("nothing", "nothing"),
            ("s3cr\"et", "***"),
            ("as3b s3cr\\\"et.", "a***b ***."),
            ("%73 s3cr%22et", "%73 ***"),
            ("czNjciJldA==", "***"),
            ("s3cr", "***cr"),
            ("é s3cr\"et é", "é *** é"),
        ] {
            assert_eq!(masker.text(text), masked, "{text}");
            let mut stream = MaskingStream::new(masker.clone());
            let mut bytes: Vec<u8> = text.bytes().flat_map(|byte| stream.push(&[byte])).collect();
            bytes.extend(stream.finish());
            assert_eq!(String::from_utf8(bytes).unwrap(), masked, "{text} byte by byte");
        }
    }

    #[test]
    fn missing_secrets_are_named() {
        let folder = Path::new("/nowhere");
        let error = |text: &str| SecretSource::parse(text, folder).unwrap().read().unwrap_err();
        assert!(error("env:MCP_FLOW_NO_SUCH_SECRET").contains("env:MCP_FLOW_NO_SUCH_SECRET"));
        assert!(error("file:key").contains("file:/nowhere/key"));
        for bad in ["", "env:", "TOKEN", "vault:x", "file:"] {
            assert!(SecretSource::parse(bad, folder).is_err(), "{bad}");
        }
    }
}
