//! `mcp-flow workflow`.

use serde_json::Value;

use super::{PROGRAM, run_in};

/// A new file is good, is found where it was written, and problems are told as compilers do.
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
    let told = "workflows/my-own.yaml:23:5: error: `guidence` is unknown; did you mean `guidance`?";
    assert!(out.contains(told), "{out}");
    // A directory stands for all in it; what needs another server is listed as such.
    let (out, _, code) = workflow(&["validate", "workflows"]);
    assert!(code == 1 && out.contains(told), "{out}");
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    let (out, _, code) = workflow(&["validate", "empty"]);
    assert!(code == 1 && out.contains("no workflow files"), "{out}");
    let newer = "id: the-newer\nname: N\ndescription: D\nversion: 1.0.0\n\
        minimumServerVersion: 99.0.0\nsteps: [{id: one, title: One, prompt: First}]\n";
    std::fs::write(folder.path().join("workflows/newer.yaml"), newer).unwrap();
    let (out, _, _) = workflow(&["list"]);
    assert!(out.contains("incompatible: the-newer requires server 99.0.0"), "{out}");
}

/// What is wrong is said before what to do about it.
#[test]
fn an_unknown_workflow_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    for (words, told) in [
        (["show", "code-reveiw"], "no workflow named code-reveiw; did you mean code-review?"),
        (["run", "code-reveiw"], "no workflow named code-reveiw; did you mean code-review?"),
        (["show", "nope"], "no workflow named nope. `mcp-flow workflow list` lists all"),
        (["run", "nope"], "no workflow named nope. `mcp-flow workflow list` lists all"),
    ] {
        let (out, err, code) = run_in(folder.path(), &[&["workflow"], &words[..]].concat(), "");
        assert_eq!((out.as_str(), code), ("", 2), "{words:?}: {err}");
        assert!(err.starts_with(&format!("mcp-flow: {told}")), "{words:?}: {err}");
    }
}

/// A person goes through a workflow; an output that does not do is asked for again.
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
    // Whoever leaves is told how to come back.
    let (_, told, code) = run_in(folder.path(), &arguments, "done\n");
    assert_eq!(code, 2);
    let again = told.lines().find_map(|line| line.trim().strip_prefix("mcp-flow workflow resume "));
    let resume = ["workflow", "resume", again.unwrap()];
    // Silence is no agreement, and does not go on for ever.
    let (said, told, code) = run_in(folder.path(), &resume, "work\n");
    assert!(code == 2 && !said.contains("is done") && told.contains("resume"), "{said} {told}");
    let (said, err, code) = run_in(folder.path(), &resume, "yes\n");
    assert!(code == 0 && said.contains("Done: One"), "{said} {err}");
}

/// WFL-065: our own server keeps to the document, one that does not is found out.
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
    // One that says the same to everything, one that says nothing, and none at all.
    let parrot = r#"while read line; do echo '{"jsonrpc":"2.0","id":1,"result":{}}'; done"#;
    for wrong in [&["sh", "-c", parrot][..], &["true"], &["no-such-program"]] {
        let words = [&["workflow", "conform", "--"], wrong].concat();
        let (said, err, code) = run_in(folder.path(), &words, "");
        assert_eq!(code, 1, "{wrong:?}: {said} {err}");
    }
}
