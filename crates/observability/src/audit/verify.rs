//! Whether a log is as it was written.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use mcp_flow_seal::KeyRing;

use super::chain::{BEGINNING, Hash, LONGEST_LINE, Link, hex, sha256, unhex};

/// Reads one log, in one file or in several that follow each other, from its beginning to its end.
///
/// The error names the first line that is not as it was written.
pub fn verify(
    files: &[PathBuf],
    keys: Option<&KeyRing>,
    expected: &Expected,
) -> Result<Verified, VerifyError> {
    let bad = |text: &String| unhex(text).ok_or_else(|| VerifyError::NoHash(text.clone()));
    let after = expected.after.as_ref().map(bad).transpose()?;
    let holds = expected.holds.as_ref().map(bad).transpose()?;
    let mut walk = Walk { keys, after, last: None, entries: 0, mended: 0, wanted: holds };
    files.iter().try_for_each(|path| walk.file(path))?;
    if let Some(wanted) = walk.wanted {
        return Err(VerifyError::Missing(hex(&wanted)));
    }
    let last = walk.last.map(|(_, hash)| hex(&hash));
    Ok(Verified { entries: walk.entries, mended: walk.mended, last })
}

/// What is known of a log besides the log itself.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The hash of the line before the first, if that is in a file which is not here.
    pub after: Option<String>,
    /// The hash of a line that must be there, noted when it was the last.
    pub holds: Option<String>,
}

/// What is known of a good log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// How many lines it has.
    pub entries: u64,
    /// How often a killed process has left an unfinished line.
    pub mended: u64,
    /// The hash of the last line. Whoever notes it elsewhere will notice when it is cut off.
    pub last: Option<String>,
}

/// Why a log is not good.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A line is not as it was written.
    #[error("{}, line {line}: {broken}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// What is wrong with it.
        broken: Broken,
    },
    /// The end was cut off, or this is another log.
    #[error("no line has the hash {0}: the end was cut off, or this is another log")]
    Missing(String),
    /// What was expected is no hash.
    #[error("{0:?} is no hash: it has 64 hexadecimal digits, in small letters")]
    NoHash(String),
    /// A file cannot be read.
    #[error("{} cannot be read", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        error: io::Error,
    },
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Its hash is not that of its content.
    Changed,
    /// It is unfinished, and nothing follows.
    Unfinished,
    /// It does not follow the line before it.
    OutOfPlace {
        /// The number it has.
        found: u64,
        /// The number it should have.
        expected: u64,
    },
    /// It has the right number, and another line before it than there is.
    OtherPast,
    /// It is the first, and has lines before it.
    NoBeginning(u64),
    /// It says that an unfinished line is before it, and there is none.
    NothingTorn,
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed => formatter
                .write_str("the line was changed, or written with another key or without one"),
            Self::Unfinished => formatter.write_str(
                "the line is unfinished; a server that goes on with this log will mark it as such",
            ),
            Self::OutOfPlace { found, expected } => write!(
                formatter,
                "entry {found} is where entry {expected} should be; lines were taken out, put in \
                 or moved"
            ),
            Self::OtherPast => {
                formatter.write_str("the line belongs behind another one than the one before it")
            }
            Self::NoBeginning(found) => write!(
                formatter,
                "it begins with entry {found}; name the file with what is before it first, or \
                 give the hash of its last line with --after"
            ),
            Self::NothingTorn => {
                formatter.write_str("it marks an unfinished line that is not there any more")
            }
        }
    }
}

struct Walk<'a> {
    keys: Option<&'a KeyRing>,
    after: Option<Hash>,
    /// The number and hash of the last good line.
    last: Option<(u64, Hash)>,
    entries: u64,
    mended: u64,
    /// The hash that was not seen yet.
    wanted: Option<Hash>,
}

impl Walk<'_> {
    fn file(&mut self, path: &Path) -> Result<(), VerifyError> {
        let failed = |error| VerifyError::Io { path: path.to_owned(), error };
        let mut reader = BufReader::new(File::open(path).map_err(failed)?);
        let broken = |line, broken| VerifyError::Broken { path: path.to_owned(), line, broken };
        // The lines that are not good so far, from this one on; the next good one may explain them.
        let mut torn: Option<(u64, Vec<u8>)> = None;
        let (mut number, mut is_finished) = (0, true);
        let mut line = Vec::new();
        loop {
            line.clear();
            let limit = LONGEST_LINE as u64 + 1;
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
                if bytes.len() > 4 * LONGEST_LINE {
                    return Err(broken(*first, Broken::Changed));
                }
                continue;
            };
            match (torn.take(), link.torn) {
                (Some((_, bytes)), Some(hash)) if sha256(&bytes) == hash => self.mended += 1,
                (Some((first, _)), _) => return Err(broken(first, Broken::Changed)),
                (None, Some(_)) => return Err(broken(number, Broken::NothingTorn)),
                (None, None) => {}
            }
            self.follow(&link).map_err(|problem| broken(number, problem))?;
        }
        match torn {
            Some((first, _)) if first == number && !is_finished => {
                Err(broken(first, Broken::Unfinished))
            }
            Some((first, _)) => Err(broken(first, Broken::Changed)),
            None => Ok(()),
        }
    }

    /// Whether a line follows the last one.
    fn follow(&mut self, link: &Link) -> Result<(), Broken> {
        let found = link.sequence;
        match (self.last, self.after) {
            (Some((last, _)), _) if found != last + 1 => {
                return Err(Broken::OutOfPlace { found, expected: last + 1 });
            }
            (Some((_, hash)), _) if link.previous != hash => return Err(Broken::OtherPast),
            (None, Some(after)) if link.previous != after => return Err(Broken::OtherPast),
            (None, None) if found != 1 || link.previous != BEGINNING => {
                return Err(Broken::NoBeginning(found));
            }
            _ => {}
        }
        self.last = Some((found, link.hash));
        self.entries += 1;
        self.wanted = self.wanted.filter(|wanted| *wanted != link.hash);
        Ok(())
    }
}
