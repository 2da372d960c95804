//! `mcp-flow workflow`, the real program.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// A new file is good, is found where it was written, and problems are told as compilers do.
#[test]
fn a_new_workflow_is_written_checked_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let new = run(folder.path(), &["workflow", "new", "my-own"], "");
    assert!(new.status.success(), "{new:?}");
    let again = run(folder.path(), &["workflow", "new", "my-own"], "");
    assert_eq!(again.status.code(), Some(1), "a file that is there is left alone");
    assert_eq!(run(folder.path(), &["workflow", "new", "My Own"], "").status.code(), Some(2));
    let checked = run(folder.path(), &["workflow", "validate", "workflows/my-own.yaml"], "");
    assert!(checked.status.success() && text(&checked).contains("good"));
    let listed = run(folder.path(), &["workflow", "list", "--format", "json"], "");
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let found = listed["workflows"].as_array().unwrap().iter().find(|one| one["id"] == "my-own");
    assert_eq!(found.unwrap()["origin"], "project");
    let path = folder.path().join("workflows/my-own.yaml");
    let broken = std::fs::read_to_string(&path).unwrap().replace("guidance:", "guidence:");
    std::fs::write(&path, broken).unwrap();
    let checked = run(folder.path(), &["workflow", "validate", "workflows/my-own.yaml"], "");
    assert_eq!(checked.status.code(), Some(1));
    let told = "workflows/my-own.yaml:23:5: error: `guidence` is unknown; did you mean `guidance`?";
    assert!(text(&checked).contains(told), "{}", text(&checked));
    let shown = run(folder.path(), &["workflow", "show", "code-reveiw"], "");
    assert_eq!(shown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&shown.stderr).contains("did you mean code-review?"));
}

/// A person goes through a workflow; an output that does not do is asked for again.
#[test]
fn a_person_is_walked_through() {
    let folder = tempfile::tempdir().unwrap();
    let workflow = "id: two-steps\nname: Two\ndescription: Two steps\nversion: 1.0.0\nsteps:\n\
        - {id: one, title: One, prompt: First, validationCriteria: [{type: contains, value: done}]}\n\
        - {id: two, title: Two, prompt: 'Second {{word}}', requireConfirmation: true}\n";
    std::fs::write(folder.path().join("two.yaml"), workflow).unwrap();
    let arguments = ["workflow", "--workflows", ".", "run", "two-steps", "word=sesame"];
    let output = run(folder.path(), &arguments, "no\ndone\nwork\ny\n");
    assert!(output.status.success(), "{output:?}");
    let said = text(&output);
    assert!(said.contains("does not contain") && said.contains("Second sesame"), "{said}");
    // Whoever leaves is told how to come back.
    let left = run(folder.path(), &arguments, "done\n");
    assert_eq!(left.status.code(), Some(2));
    let told = String::from_utf8_lossy(&left.stderr).into_owned();
    let again = told.lines().find_map(|line| line.trim().strip_prefix("mcp-flow workflow resume "));
    let resume = ["workflow", "resume", again.unwrap()];
    let output = run(folder.path(), &resume, "work\nyes\n");
    assert!(output.status.success() && text(&output).contains("Done: One"), "{output:?}");
}

/// WFL-065: our own server keeps to the document, one that does not is found out.
#[test]
fn conformance_is_tried_from_outside() {
    let folder = tempfile::tempdir().unwrap();
    let strict = ["workflow", "conform", "--", PROGRAM, "stdio", "--profile", "workflowlookup"];
    let output = run(folder.path(), &strict, "");
    assert!(output.status.success(), "{}", text(&output));
    assert!(!text(&output).contains("BROKEN"));
    let lenient = ["workflow", "conform", "--", PROGRAM, "stdio", "--store", "memory:"];
    let output = run(folder.path(), &lenient, "");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("BROKEN  tools/list gives the four printed tools"));
    // One that says the same to everything, one that says nothing, and none at all.
    let parrot = r#"while read line; do echo '{"jsonrpc":"2.0","id":1,"result":{}}'; done"#;
    for wrong in [&["sh", "-c", parrot][..], &["true"], &["no-such-program"]] {
        let words = [&["workflow", "conform", "--"], wrong].concat();
        let output = run(folder.path(), &words, "");
        assert_eq!(output.status.code(), Some(1), "{wrong:?}: {output:?}");
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn run(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(PROGRAM)
        .args(arguments)
        .current_dir(folder)
        .env("XDG_CONFIG_HOME", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}
