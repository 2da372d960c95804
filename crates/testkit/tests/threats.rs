//! Table of threats in `docs/security.md`: every file and test it names exists.

use std::path::{Path, PathBuf};

/// Every row names at least one file with tests, and every test it names is in one of its files.
#[test]
fn threats_name_existing_tests() {
    let text = std::fs::read_to_string(root().join("docs/security.md")).unwrap();
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 30, "{} threats are left", rows.len());
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").collect();
        let [threat, _defence, held_by] = cells[..] else { panic!("three columns: {row}") };
        let words = held_by.split('`').skip(1).step_by(2);
        let (files, tests): (Vec<&str>, Vec<&str>) = words.partition(|word| word.contains('/'));
        let sources: Vec<_> = files.iter().map(|file| source(threat, file)).collect();
        assert!(!sources.is_empty(), "nothing holds {threat}");
        for test in tests {
            let head = format!("fn {test}(");
            let is_there = sources.iter().any(|source| source.contains(&head));
            assert!(is_there, "{threat}: there is no {test} in {files:?}");
        }
    }
}

/// Reads a file that a row names, under `crates`. It must contain a test, or scenarios.
fn source(threat: &str, file: &str) -> String {
    let path = root().join("crates").join(file);
    let source = std::fs::read_to_string(&path);
    let source = source.unwrap_or_else(|error| panic!("{threat}: {file}: {error}"));
    let is_tested = source.contains("#[test]") || source.contains("#[tokio::test");
    let is_scenario = file.starts_with("testkit-scenarios/src/");
    assert!(is_tested || is_scenario, "{threat}: {file} has no tests");
    source
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
