//! Secrets: references to environment variables and files, and masking of their values.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::io::{AsyncRead, ReadBuf};
use url::form_urlencoded::byte_serialize;

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
            spellings.extend(spellings_of(secret).into_iter().map(String::into_bytes));
        }
        spellings.retain(|spelling| !spelling.is_empty());
        spellings.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        spellings.dedup();
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

/// Returns a secret as it is and as JSON, URLs, forms and base64 have it.
fn spellings_of(secret: &str) -> Vec<String> {
    let json = serde_json::to_string(secret).unwrap_or_default();
    let json = json.trim_matches('"').to_owned();
    // Some encoders escape slashes as well.
    let mut spellings = vec![secret.to_owned(), json.replace('/', "\\/"), json];
    for encoded in [
        utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string(),
        utf8_percent_encode(secret, COMPONENT).to_string(),
        byte_serialize(secret.as_bytes()).collect(),
    ] {
        spellings.extend([lowercase_escapes(&encoded), encoded]);
    }
    let base64 = STANDARD.encode(secret);
    let mut base64 = vec![base64.trim_end_matches('=').to_owned(), base64];
    base64.extend((0..3).filter_map(|before| base64_core(secret, before)));
    for encoded in base64 {
        spellings.extend([encoded.replace('+', "-").replace('/', "_"), encoded]);
    }
    spellings
}

/// Writes the digits of percent escapes in lowercase.
fn lowercase_escapes(encoded: &str) -> String {
    let mut digits = 0;
    let lower = encoded.chars().map(|character| {
        digits = if character == '%' { 3_usize } else { digits.saturating_sub(1) };
        if digits > 0 { character.to_ascii_lowercase() } else { character }
    });
    lower.collect()
}

/// Returns the base64 characters of a secret that depend on nothing else, behind so many other bytes
/// of a group of three; `None` if there are so few that other texts have them as well.
fn base64_core(secret: &str, before: usize) -> Option<String> {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(secret.as_bytes());
    let encoded = STANDARD.encode(&bytes);
    let core = &encoded[(before * 8).div_ceil(6)..bytes.len() * 8 / 6];
    (core.len() >= MIN_CORE).then(|| core.to_owned())
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

/// Everything but the unreserved characters of RFC 3986.
pub(crate) const COMPONENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Characters of a secret within other base64 that are masked at least.
const MIN_CORE: usize = 8;

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

    /// Keys as services make them: what they look like in a URL, a form, JSON, and base64 of other
    /// bytes around them.
    #[test]
    fn keys_are_masked_within_other_encodings() {
        use base64::Engine as _;
        use base64::engine::general_purpose::{STANDARD, URL_SAFE};
        let key = "AbC-1_2/x+y~z==";
        let masker = Masker::new(&[Secret(key.to_owned())]);
        for text in [
            "AbC-1_2%2Fx%2By%7Ez%3D%3D",
            "AbC-1_2%2fx%2by%7ez%3d%3d",
            "AbC-1_2%2Fx%2By~z%3D%3D",
            "AbC%2D1%5F2%2Fx%2By%7Ez%3D%3D",
            "AbC-1_2\\/x+y~z==",
        ] {
            assert_eq!(masker.text(&format!("?key={text}&a")), "?key=***&a", "{text}");
        }
        for before in ["", "u", "u:", "u: "] {
            for after in ["", "\n", "ab", "abc"] {
                for alphabet in [STANDARD, URL_SAFE] {
                    let encoded = alphabet.encode(format!("{before}{key}{after}"));
                    let masked = masker.text(&encoded);
                    let shown = masked.replace("***", "");
                    let around = before.len() + after.len();
                    assert!(masked.contains("***"), "{before:?} {after:?}: {masked}");
                    // Whole groups of what is around it, and those shared with it.
                    assert!(shown.len() <= around * 4 / 3 + 8, "{before:?} {after:?}: {masked}");
                }
            }
        }
        // Too short to be told from other texts.
        assert_eq!(Masker::new(&[Secret("s3".to_owned())]).text("Y3M x czN"), "Y3M x czN");
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
