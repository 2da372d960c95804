//! The file that steps write to, and what may be in it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::{ENTRIES, entry};

/// What the steps of one conversation have left.
pub(super) struct Book {
    path: PathBuf,
    /// How often each step may have been interrupted, by its key.
    interruptions: BTreeMap<String, usize>,
}

#[derive(Deserialize)]
struct Line {
    key: String,
    number: u32,
    entry: String,
}

impl Book {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, interruptions: BTreeMap::new() }
    }

    /// How many bytes there are.
    pub(super) fn length(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// Notes that the program was killed when the client knew that so many steps were over. If
    /// there is a trace of one more, it may have been interrupted: only then may it run again.
    pub(super) fn note_kill(&mut self, done: u32) {
        if let Some(last) = self.lines().last().filter(|line| line.number > done) {
            *self.interruptions.entry(last.key.clone()).or_default() += 1;
        }
    }

    /// How many kills may have fallen inside a step.
    pub(super) fn interrupted(&self) -> usize {
        self.interruptions.values().sum()
    }

    /// Checks what there is when the client knows that so many steps are over.
    pub(super) fn check(&self, done: u32) {
        let lines = self.lines();
        let mut seen: Vec<(&str, usize)> = Vec::new();
        for line in &lines {
            let place = line.number as usize;
            assert_eq!(line.entry, entry(line.number), "an entry is not what was answered");
            if place > seen.len() {
                assert_eq!(place, seen.len() + 1, "a step ran before the one ahead of it");
                let known = seen.iter().any(|(key, _)| *key == line.key);
                assert!(!known, "two steps have the key {}", line.key);
                seen.push((&line.key, 0));
            }
            assert_eq!(place, seen.len(), "a step ran again after the next one");
            let (key, times) = &mut seen[place - 1];
            assert_eq!(*key, line.key, "a step ran again under another key");
            *times += 1;
        }
        for (key, times) in &seen {
            let interruptions = self.interruptions.get(*key).copied().unwrap_or_default();
            let most = 1 + interruptions;
            assert!(*times <= most, "{key} ran {times} times, interrupted {interruptions} times");
        }
        assert!(seen.len() >= done as usize, "{done} steps are over, but {} have run", seen.len());
        assert!(seen.len() <= ENTRIES as usize, "more steps have run than there are");
    }

    fn lines(&self) -> Vec<Line> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("lines are whole")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the oracle lets pass: each case is numbers and keys of lines, how many of the kills
    /// came after which line, and how many steps the client knows to be over.
    #[test]
    fn only_an_interrupted_step_may_run_again() {
        check(&[], 0, Ok(()));
        check(&[Ran(1, "a"), Ran(2, "b")], 2, Ok(()));
        check(&[Ran(1, "a"), Killed(0), Ran(1, "a"), Ran(2, "b")], 2, Ok(()));
        check(&[Ran(1, "a"), Killed(1), Ran(1, "a")], 1, Err("ran 2 times"));
        check(&[Ran(1, "a"), Ran(1, "a")], 1, Err("ran 2 times"));
        check(&[Ran(1, "a"), Killed(0), Ran(1, "b")], 1, Err("under another key"));
        check(&[Ran(1, "a"), Ran(2, "a")], 2, Err("two steps have the key"));
        check(&[Ran(2, "a")], 0, Err("before the one ahead"));
        check(&[Ran(1, "a"), Killed(0), Ran(2, "b"), Ran(1, "a")], 2, Err("after the next one"));
        check(&[Ran(1, "a")], 2, Err("2 steps are over"));
    }

    enum Event {
        Ran(u32, &'static str),
        Killed(u32),
    }
    use Event::{Killed, Ran};

    fn check(events: &[Event], done: u32, expected: Result<(), &str>) {
        let folder = tempfile::tempdir().unwrap();
        let mut book = Book::new(folder.path().join("ledger"));
        let mut text = String::new();
        for event in events {
            match event {
                Killed(done) => book.note_kill(*done),
                Ran(number, key) => {
                    let line =
                        serde_json::json!({"key": key, "number": number, "entry": entry(*number)});
                    text += &format!("{line}\n");
                    std::fs::write(&book.path, &text).unwrap();
                }
            }
        }
        let checked = std::panic::catch_unwind(|| book.check(done));
        match (checked, expected) {
            (Ok(()), Ok(())) => {}
            (Err(panic), Err(message)) => {
                let text = panic.downcast_ref::<String>().unwrap();
                assert!(text.contains(message), "{text}");
            }
            (checked, expected) => panic!("{checked:?} is not {expected:?}"),
        }
    }
}
