//! Verification of an audit log.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use mcp_flow_seal::KeyRing;

use super::chain::{BEGINNING, Hash, Link, MAX_LINE_LENGTH, hex, sha256, unhex};

/// Verifies one log, in one file or in several that follow each other, from start to end.
///
/// The error names the first invalid line.
pub fn verify(
    files: &[PathBuf],
    keys: Option<&KeyRing>,
    expected: &Expected,
) -> Result<Verified, VerifyError> {
    let bad = |text: &String| unhex(text).ok_or_else(|| VerifyError::NoHash(text.clone()));
    let after = expected.after.as_ref().map(bad).transpose()?;
    let holds = expected.holds.as_ref().map(bad).transpose()?;
    let mut reader = ChainReader { keys, after, last: None, entries: 0, mended: 0, wanted: holds };
    files.iter().try_for_each(|path| reader.file(path))?;
    if let Some(wanted) = reader.wanted {
        return Err(VerifyError::Missing(hex(&wanted)));
    }
    let last = reader.last.map(|(_, hash)| hex(&hash));
    Ok(Verified { entries: reader.entries, mended: reader.mended, last })
}

/// Facts about a log known from elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The hash of the line before the first, if that is in a file not given.
    pub after: Option<String>,
    /// The hash of a line that must exist, recorded when it was the last.
    pub holds: Option<String>,
}

/// The result of a successful verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The number of lines.
    pub entries: u64,
    /// The number of incomplete lines left by killed processes.
    pub mended: u64,
    /// The hash of the last line. Recorded elsewhere, it reveals later truncation.
    pub last: Option<String>,
}

/// Error while verifying a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A line is invalid.
    #[error("{}, line {line}: {broken}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The reason.
        broken: ChainError,
    },
    /// The log was truncated, or is another log.
    #[error("no line has the hash {0}: the log was truncated, or is another one")]
    Missing(String),
    /// An expected hash is malformed.
    #[error("{0:?} is not a hash: enter 64 lowercase hexadecimal digits")]
    NoHash(String),
    /// A file cannot be read.
    #[error("{} cannot be read", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
}

/// The reason a line is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainError {
    /// Its hash does not match its content.
    Changed,
    /// It is incomplete, and nothing follows.
    Unfinished,
    /// Its sequence number does not follow the line before it.
    OutOfPlace {
        /// The number found.
        found: u64,
        /// The number expected.
        expected: u64,
    },
    /// Its sequence number is right, but it follows another line.
    OtherPast,
    /// It is the first, but not the start of the chain.
    NoBeginning(u64),
    /// It marks an incomplete line before it, which is missing.
    NothingTorn,
}

impl fmt::Display for ChainError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed => formatter
                .write_str("the line was changed, or written with another key or without one"),
            Self::Unfinished => formatter
                .write_str("the line is incomplete; a server that continues this log will mark it"),
            Self::OutOfPlace { found, expected } => write!(
                formatter,
                "entry {found} is where entry {expected} should be; lines were removed, \
                 inserted or moved"
            ),
            Self::OtherPast => {
                formatter.write_str("the line follows another line than the one before it")
            }
            Self::NoBeginning(found) => write!(
                formatter,
                "the log starts with entry {found}; give the file before it first, or \
                 the hash of its last line with --previous-hash"
            ),
            Self::NothingTorn => formatter.write_str("it marks an incomplete line that is missing"),
        }
    }
}

struct ChainReader<'a> {
    keys: Option<&'a KeyRing>,
    after: Option<Hash>,
    /// The sequence number and hash of the last valid line.
    last: Option<(u64, Hash)>,
    entries: u64,
    mended: u64,
    /// An expected hash not seen yet.
    wanted: Option<Hash>,
}

impl ChainReader<'_> {
    fn file(&mut self, path: &Path) -> Result<(), VerifyError> {
        let failed = |error| VerifyError::Io { path: path.to_owned(), error };
        let mut reader = BufReader::new(File::open(path).map_err(failed)?);
        let broken = |line, broken| VerifyError::Broken { path: path.to_owned(), line, broken };
        // Invalid lines so far, from this one on; the next valid line may explain them.
        let mut torn: Option<(u64, Vec<u8>)> = None;
        let (mut number, mut is_finished) = (0, true);
        let mut line = Vec::new();
        loop {
            line.clear();
            let limit = MAX_LINE_LENGTH as u64 + 1;
            let read = io::Read::take(&mut reader, limit).read_until(b'\n', &mut line);
            if read.map_err(failed)? == 0 {
                break;
            }
            number += 1;
            is_finished = line.pop_if(|last| *last == b'\n').is_some();
            let Some(link) = Link::read(&line, self.keys).filter(|_| is_finished) else {
                let (first, bytes) = torn.get_or_insert_with(|| (number, Vec::new()));
                if *first != number {
                    bytes.push(b'\n');
                }
                bytes.extend_from_slice(&line);
                // More than a killed process can leave.
                if bytes.len() > 4 * MAX_LINE_LENGTH {
                    return Err(broken(*first, ChainError::Changed));
                }
                continue;
            };
            match (torn.take(), link.torn) {
                (Some((_, bytes)), Some(hash)) if sha256(&bytes) == hash => self.mended += 1,
                (Some((first, _)), _) => return Err(broken(first, ChainError::Changed)),
                (None, Some(_)) => return Err(broken(number, ChainError::NothingTorn)),
                (None, None) => {}
            }
            self.follow(&link).map_err(|reason| broken(number, reason))?;
        }
        match torn {
            Some((first, _)) if first == number && !is_finished => {
                Err(broken(first, ChainError::Unfinished))
            }
            Some((first, _)) => Err(broken(first, ChainError::Changed)),
            None => Ok(()),
        }
    }

    /// Checks that a line follows the last one.
    fn follow(&mut self, link: &Link) -> Result<(), ChainError> {
        let found = link.sequence;
        match (self.last, self.after) {
            (Some((last, _)), _) if found != last + 1 => {
                return Err(ChainError::OutOfPlace { found, expected: last + 1 });
            }
            (Some((_, hash)), _) if link.previous != hash => return Err(ChainError::OtherPast),
            (None, Some(after)) if link.previous != after => return Err(ChainError::OtherPast),
            (None, None) if found != 1 || link.previous != BEGINNING => {
                return Err(ChainError::NoBeginning(found));
            }
            _ => {}
        }
        self.last = Some((found, link.hash));
        self.entries += 1;
        self.wanted = self.wanted.filter(|wanted| *wanted != link.hash);
        Ok(())
    }
}
