//! `--skills` and `mcp-flow skills` of the real program.

use std::path::Path;
use std::process::Command;

use mcp_flow_testkit::wait::output;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// Runs `mcp-flow skills` with a stdio server.
fn skills(words: &[&str], directory: &Path) -> (String, String, Option<i32>) {
    let mut command = Command::new(PROGRAM);
    command.current_dir(directory).env("XDG_CONFIG_HOME", directory).arg("skills").args(words);
    command.args(["--", PROGRAM, "stdio", "--store", "memory:", "--skills"]).arg(directory);
    let output = output(&mut command);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code())
}

#[test]
fn skills_are_listed_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("acme/refunds");
    std::fs::create_dir_all(skill.join("references")).unwrap();
    let text = "---\nname: refunds\ndescription: Handles refunds\n---\nRead the policy.\u{1b}[2J\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    std::fs::write(skill.join("references/POLICY.md"), "Within 30 days.\n").unwrap();
    std::fs::create_dir(folder.path().join("broken")).unwrap();
    std::fs::write(folder.path().join("broken/SKILL.md"), "nothing").unwrap();

    let (listed, said, code) = skills(&["--format", "json"], folder.path());
    assert_eq!(code, Some(0), "{said}");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let uris: Vec<_> = listed["skills"].as_array().unwrap().iter().map(|one| &one["uri"]).collect();
    for uri in ["skill://acme/refunds/SKILL.md", "skill://workflows/code-review/SKILL.md"] {
        assert!(uris.iter().any(|other| *other == uri), "{uris:?}");
    }

    let uri = "skill://acme/refunds/SKILL.md";
    for (words, code, shown, told) in [
        (&[uri][..], 0, "Read the policy.", ""),
        (&[uri, "references/POLICY.md"], 0, "Within 30 days.", ""),
        (&[uri, "../refunds/SKILL.md"], 4, "", "not in the manifest"),
        (&[uri, "missing.md"], 4, "", "not in the manifest"),
        (&["skill://broken/SKILL.md"], 4, "", "skills/list"),
        (&[uri, "a", "b"], 2, "", "b"),
    ] {
        let (text, said, ended) = skills(words, folder.path());
        assert_eq!(ended, Some(code), "{words:?}: {said}");
        assert!(text.contains(shown) && said.contains(told), "{words:?}: {text} {said}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
}

#[test]
fn skipped_skills_are_logged() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("broken")).unwrap();
    std::fs::write(folder.path().join("broken/SKILL.md"), "nothing").unwrap();
    let mut program = Command::new(PROGRAM);
    program.current_dir(folder.path()).stdin(std::process::Stdio::null());
    let output = output(program.args(["stdio", "--store", "memory:", "--skills", "."]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("broken") && said.contains("frontmatter"), "{said}");
}

#[test]
fn a_missing_directory_is_reported() {
    for command in ["stdio", "serve"] {
        let mut program = Command::new(PROGRAM);
        program.current_dir(env!("CARGO_TARGET_TMPDIR"));
        let output = output(program.args([command, "--skills", "/nowhere/to/be/found"]));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("/nowhere/to/be/found"), "{said}");
        assert_eq!(output.status.code(), Some(1));
    }
}
