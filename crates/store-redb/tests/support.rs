//! Simulated disk: crashes, runs full or panics.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use mcp_flow_seal::{Key, KeyRing};
use redb::StorageBackend;

/// Key ring with a key of this byte.
pub(crate) fn keys(number: u8) -> KeyRing {
    KeyRing::new(Key::from_bytes([number; 32]))
}

/// Disk in memory. Writes that were not synced before a crash may be lost, all or in part.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Durable content.
    synced: Vec<u8>,
    /// Content as the running process sees it.
    seen: Vec<u8>,
    /// Writes since the last sync, by offset.
    unsynced: Vec<(usize, Vec<u8>)>,
    /// Number of writes and syncs that still succeed.
    left: Option<usize>,
    /// Capacity in bytes.
    room: Option<usize>,
    /// Number of crashes: handles opened before the last one fail.
    plugged: u64,
    /// Set if operations panic, as redb does on a file that breaks its invariants.
    panics: bool,
}

impl Disk {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Lets this many more operations succeed.
    pub(crate) fn stop_after(&self, operations: usize) {
        self.0.lock().unwrap().left = Some(operations);
    }

    /// Sets the capacity in bytes; unlimited if None.
    pub(crate) fn room(&self, bytes: Option<usize>) {
        self.0.lock().unwrap().room = bytes;
    }

    /// Makes every operation panic, or none.
    pub(crate) fn panics(&self, panics: bool) {
        self.0.lock().unwrap().panics = panics;
    }

    pub(crate) fn size(&self) -> usize {
        self.0.lock().unwrap().seen.len()
    }

    /// Returns the content of the disk.
    pub(crate) fn content(&self) -> Vec<u8> {
        self.0.lock().unwrap().seen.clone()
    }

    /// Crashes. Of the unsynced writes every other one is kept if `torn`, else none.
    pub(crate) fn crash(&self, torn: bool) {
        let mut state = self.0.lock().unwrap();
        let unsynced = std::mem::take(&mut state.unsynced);
        let mut kept = state.synced.clone();
        if torn {
            for (offset, data) in unsynced.into_iter().step_by(2) {
                let end = offset + data.len();
                if kept.len() < end {
                    kept.resize(end, 0);
                }
                kept[offset..end].copy_from_slice(&data);
            }
        }
        state.seen.clone_from(&kept);
        state.synced = kept;
        state.left = None;
        state.plugged += 1;
    }

    /// Opens a handle.
    pub(crate) fn plug(&self) -> Plug {
        Plug { disk: self.clone(), number: self.0.lock().unwrap().plugged }
    }
}

/// Handle to a disk, valid until it crashes.
#[derive(Debug)]
pub(crate) struct Plug {
    disk: Disk,
    number: u64,
}

impl Plug {
    fn operate<T>(&self, counts: bool, work: impl FnOnce(&mut State) -> T) -> io::Result<T> {
        let mut state = self.disk.0.lock().unwrap();
        if state.panics {
            drop(state);
            // A second panic during unwinding would abort the process.
            if std::thread::panicking() {
                return Err(io::Error::other("panicking"));
            }
            panic!("an assertion failed");
        }
        if state.plugged != self.number || state.left == Some(0) {
            return Err(io::Error::other("unplugged"));
        }
        if counts && let Some(left) = &mut state.left {
            *left -= 1;
        }
        Ok(work(&mut state))
    }
}

impl StorageBackend for Plug {
    fn len(&self) -> io::Result<u64> {
        self.operate(false, |state| state.seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        self.operate(false, |state| match state.seen.get(offset..offset + out.len()) {
            Some(found) => {
                out.copy_from_slice(found);
                Ok(())
            }
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        })?
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).unwrap();
        self.operate(true, |state| {
            if state.room.is_some_and(|room| len > room) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            state.seen.resize(len, 0);
            Ok(())
        })?
    }

    fn sync_data(&self) -> io::Result<()> {
        self.operate(true, |state| {
            state.synced.clone_from(&state.seen);
            state.unsynced.clear();
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        self.operate(true, |state| {
            let end = offset + data.len();
            if state.seen.len() < end {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            state.seen[offset..end].copy_from_slice(data);
            state.unsynced.push((offset, data.to_vec()));
            Ok(())
        })?
    }
}

/// Counts the occurrences of words in the content of a disk.
pub(crate) fn occurrences(content: &[u8], words: &[&str]) -> BTreeMap<String, usize> {
    words
        .iter()
        .map(|word| {
            let count = content.windows(word.len()).filter(|part| *part == word.as_bytes()).count();
            ((*word).to_owned(), count)
        })
        .collect()
}
