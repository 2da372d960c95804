//! Effects of steps: the file they append to, and which contents are allowed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::{ENTRIES, entry};

/// Effects of one session's steps.
pub(super) struct Effects {
    path: PathBuf,
    /// Possible interruptions of each step, by its key.
    interruptions: BTreeMap<String, usize>,
}

#[derive(Deserialize)]
struct Line {
    key: String,
    number: u32,
    entry: String,
}

impl Effects {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, interruptions: BTreeMap::new() }
    }

    /// Length of the file in bytes.
    pub(super) fn length(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// Records a kill at a time when the client knew that `done` steps were completed. If there is
    /// an effect of one more, that step may have been interrupted: only then may it run again.
    pub(super) fn record_kill(&mut self, done: u32) {
        if let Some(last) = self.lines().last().filter(|line| line.number > done) {
            *self.interruptions.entry(last.key.clone()).or_default() += 1;
        }
    }

    /// Number of kills that may have interrupted a step.
    pub(super) fn interrupted(&self) -> usize {
        self.interruptions.values().sum()
    }

    /// Checks the effects when the client knows that `done` steps are completed.
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

    /// Contents the check accepts. Each case has the numbers and keys of lines, after which lines
    /// kills came, and how many steps the client knows to be completed.
    #[test]
    fn only_an_interrupted_step_may_run_twice() {
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
        let mut effects = Effects::new(folder.path().join("ledger"));
        let mut text = String::new();
        for event in events {
            match event {
                Killed(done) => effects.record_kill(*done),
                Ran(number, key) => {
                    let line =
                        serde_json::json!({"key": key, "number": number, "entry": entry(*number)});
                    text += &format!("{line}\n");
                    std::fs::write(&effects.path, &text).unwrap();
                }
            }
        }
        let checked = std::panic::catch_unwind(|| effects.check(done));
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
