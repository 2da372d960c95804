//! Large texts and bytes of results, in temporary files.
//!
//! A message that is longer than a connection keeps in memory is read while it arrives: the texts and
//! bytes of content in a result go to files, and a token stands in their places. What is left is the
//! message that the client gets. Whoever knows the token takes the file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, ReadBuf};

mod text;
mod writer;

pub use writer::SpoolWriter;

/// Temporary files of the connections to one server, limited in their total size.
///
/// Files have no names, so that they end with the process.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    limit: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes of all files.
    used: u64,
    /// Contents that nobody has taken yet, by token.
    contents: HashMap<String, (Spooled, Instant)>,
}

/// Content in a temporary file. Its space is free once this is dropped.
#[derive(Debug)]
pub struct Spooled {
    file: File,
    length: u64,
    spool: Arc<Spool>,
}

/// Failure to spool a message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    /// The rest of the message is too long.
    #[error("the message has more than {0} bytes besides its large content")]
    TooLong(usize),
    /// The files would be larger than allowed.
    #[error("large results of the server exceed the limit of {0} bytes on temporary files")]
    Full(u64),
    /// The message is no JSON, or its bytes no base64.
    #[error("the message is invalid")]
    Invalid,
    /// A file cannot be written.
    #[error("a temporary file cannot be written")]
    Io(#[from] io::Error),
}

impl Spool {
    /// Keeps files in a folder, up to this many bytes together.
    pub fn new(folder: impl Into<PathBuf>, limit: u64) -> Arc<Self> {
        Arc::new(Self { folder: folder.into(), limit, state: Mutex::default() })
    }

    /// Begins a message, of which up to `limit` bytes may be left.
    pub fn write(self: &Arc<Self>, limit: usize) -> SpoolWriter {
        SpoolWriter::new(self.clone(), limit)
    }

    /// Takes the content that a token stands for.
    pub fn take(&self, token: &str) -> Option<Spooled> {
        if token.len() != TOKEN_LENGTH || !token.starts_with(TOKEN_PREFIX) {
            return None;
        }
        let (content, _) = self.state.lock().contents.remove(token)?;
        Some(content)
    }

    fn create(self: &Arc<Self>) -> Result<Spooled, SpoolError> {
        let file = tempfile::tempfile_in(&self.folder)?;
        Ok(Spooled { file, length: 0, spool: self.clone() })
    }

    fn reserve(&self, bytes: u64) -> Result<(), SpoolError> {
        // Dropped after the lock is released, which they need.
        let mut expired = Vec::new();
        let mut state = self.state.lock();
        if state.used + bytes > self.limit {
            expired.extend(state.contents.extract_if(|_, (_, at)| at.elapsed() > RETENTION));
        }
        let freed: u64 = expired.iter().map(|(_, (content, _))| content.length).sum();
        let is_free = state.used - freed + bytes <= self.limit;
        if is_free {
            state.used += bytes;
        }
        drop(state);
        if is_free { Ok(()) } else { Err(SpoolError::Full(self.limit)) }
    }

    fn keep(&self, contents: Vec<(String, Spooled)>) {
        let now = Instant::now();
        let contents = contents.into_iter().map(|(token, content)| (token, (content, now)));
        self.state.lock().contents.extend(contents);
    }
}

impl Spooled {
    fn write(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        self.spool.reserve(bytes.len() as u64)?;
        self.length += bytes.len() as u64;
        io::Write::write_all(&mut self.file, bytes)?;
        Ok(())
    }

    /// Number of bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Reads the content from its beginning.
    pub fn into_reader(mut self) -> io::Result<impl AsyncRead + Send + Unpin + 'static> {
        self.file.rewind()?;
        let file = tokio::fs::File::from_std(self.file.try_clone()?);
        Ok(SpooledReader { file, _space: self })
    }
}

/// Reader of content, whose space is free when it is dropped.
struct SpooledReader {
    file: tokio::fs::File,
    _space: Spooled,
}

impl AsyncRead for SpooledReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.file).poll_read(context, buffer)
    }
}

impl Drop for Spooled {
    fn drop(&mut self) {
        self.spool.state.lock().used -= self.length;
    }
}

/// A token that nobody guesses, of characters that base64 has.
fn token() -> io::Result<String> {
    let mut random = [0; 25];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let digits = random.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Ok(format!("{TOKEN_PREFIX}{digits}"))
}

const TOKEN_PREFIX: &str = "mcpflowspooled";

/// A multiple of four, as the length of base64 is.
const TOKEN_LENGTH: usize = 64;

/// Time after which content that nobody has taken gives way.
const RETENTION: Duration = Duration::from_secs(600);
