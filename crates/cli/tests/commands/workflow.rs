//! `mcp-flow workflow`.

use serde_json::Value;

use super::{PROGRAM, run_in};

/// `workflow new` writes a valid file, `list` finds it, and `check` reports problems with file and
/// line.
#[test]
fn a_new_workflow_is_written_checked_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let workflow = |words: &[&str]| run_in(folder.path(), &[&["workflow"], words].concat(), "");
    let new = workflow(&["new", "my-own"]);
    assert_eq!(new.2, 0, "{new:?}");
    assert_eq!(workflow(&["new", "my-own"]).2, 1, "a file that is there is left alone");
    assert_eq!(workflow(&["new", "My Own"]).2, 2);
    let (out, _, code) = workflow(&["validate", "workflows/my-own.yaml"]);
    assert!(code == 0 && out.contains("valid"), "{out}");
    let (out, _, _) = workflow(&["list", "--format", "json"]);
    let listed: Value = serde_json::from_str(&out).unwrap();
    let found = listed["workflows"].as_array().unwrap().iter().find(|one| one["id"] == "my-own");
    assert_eq!(found.unwrap()["origin"], "project");
    let path = folder.path().join("workflows/my-own.yaml");
    let broken = std::fs::read_to_string(&path).unwrap().replace("guidance:", "guidence:");
    std::fs::write(&path, broken).unwrap();
    let (out, _, code) = workflow(&["validate", "workflows/my-own.yaml"]);
    assert_eq!(code, 1);
    let received =
        "workflows/my-own.yaml:23:5: error: `guidence` is unknown; did you mean `guidance`?";
    assert!(out.contains(received), "{out}");
    // A directory checks every file in it; a workflow that needs another server is listed as such.
    let (out, _, code) = workflow(&["validate", "workflows"]);
    assert!(code == 1 && out.contains(received), "{out}");
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let (out, _, code) = workflow(&["validate", "empty"]);
    assert!(code == 1 && out.contains("no workflow files"), "{out}");
    let newer = "id: the-newer\nname: N\ndescription: D\nversion: 1.0.0\n\
        minimumServerVersion: 99.0.0\nsteps: [{id: one, title: One, prompt: First}]\n";
    std::fs::write(folder.path().join("workflows/newer.yaml"), newer).unwrap();
    let (out, _, _) = workflow(&["list"]);
    assert!(out.contains("incompatible: the-newer requires server 99.0.0"), "{out}");
}

/// An error names the problem first, then what to do.
#[test]
fn an_unknown_workflow_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    for (words, received) in [
        (["show", "code-reveiw"], "no workflow named code-reveiw; did you mean code-review?"),
        (["run", "code-reveiw"], "no workflow named code-reveiw; did you mean code-review?"),
        (["show", "nope"], "no workflow named nope. `mcp-flow workflow list` lists all"),
        (["run", "nope"], "no workflow named nope. `mcp-flow workflow list` lists all"),
    ] {
        let (out, err, code) = run_in(folder.path(), &[&["workflow"], &words[..]].concat(), "");
        assert_eq!((out.as_str(), code), ("", 2), "{words:?}: {err}");
        assert!(err.starts_with(&format!("mcp-flow: {received}")), "{words:?}: {err}");
    }
}

/// A person runs a workflow; an output that fails validation is asked for again.
#[test]
fn a_workflow_runs_by_lines() {
    let folder = tempfile::tempdir().unwrap();
    let workflow = "id: two-steps\nname: Two\ndescription: Two steps\nversion: 1.0.0\n\
        preconditions: [The tea is ready]\nclarificationPrompts: [Which cup?]\nsteps:\n\
        - {id: one, title: One, prompt: First, validationCriteria: [{type: contains, value: done}]}\n\
        - {id: two, title: Two, prompt: 'Second {{word}}', requireConfirmation: true}\n";
    std::fs::write(folder.path().join("two.yaml"), workflow).unwrap();
    let arguments = ["workflow", "--workflows", ".", "run", "two-steps", "word=sesame"];
    let (said, err, code) = run_in(folder.path(), &arguments, "no\ndone\nwork\ny\n");
    assert_eq!(code, 0, "{err}");
    assert!(said.contains("- The tea is ready") && said.contains("- Which cup?"), "{said}");
    assert!(said.contains("does not contain") && said.contains("Second sesame"), "{said}");
    // An interrupted run prints how to resume it.
    let (_, received, code) = run_in(folder.path(), &arguments, "done\n");
    assert_eq!(code, 2);
    let again =
        received.lines().find_map(|line| line.trim().strip_prefix("mcp-flow workflow resume "));
    let resume = ["workflow", "resume", again.unwrap()];
    // The end of the input is no confirmation, and ends the command.
    let (said, received, code) = run_in(folder.path(), &resume, "work\n");
    assert!(
        code == 2 && !said.contains("is done") && received.contains("resume"),
        "{said} {received}"
    );
    let (said, err, code) = run_in(folder.path(), &resume, "yes\n");
    assert!(code == 0 && said.contains("Done: One"), "{said} {err}");
}

/// WFL-065: the conformance tests pass with this project's server, and find one that violates the
/// specification.
#[test]
fn conformance_tests_find_violations() {
    let folder = tempfile::tempdir().unwrap();
    let strict = ["workflow", "conform", "--", PROGRAM, "stdio", "--profile", "workflowlookup"];
    let (said, _, code) = run_in(folder.path(), &strict, "");
    assert!(code == 0 && !said.contains("FAIL"), "{said}");
    let lenient = ["workflow", "conform", "--", PROGRAM, "stdio", "--store", "memory:"];
    let (said, _, code) = run_in(folder.path(), &lenient, "");
    assert_eq!(code, 1);
    assert!(said.contains("FAIL  tools/list gives the four printed tools"), "{said}");
    // A server that always returns the same, a silent one, and none.
    let parrot = r#"while read line; do echo '{"jsonrpc":"2.0","id":1,"result":{}}'; done"#;
    for wrong in [&["sh", "-c", parrot][..], &["true"], &["no-such-program"]] {
        let words = [&["workflow", "conform", "--"], wrong].concat();
        let (said, err, code) = run_in(folder.path(), &words, "");
        assert_eq!(code, 1, "{wrong:?}: {said} {err}");
    }
}
