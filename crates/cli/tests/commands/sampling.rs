//! Sampling requests of a server, reviewed by the person.

use std::path::{Path, PathBuf};

use mcp_flow_testkit::scripted::Script;

use super::run;

/// PAT-049, PAT-051: a request is shown with its limit and preferences, and can be edited before it
/// is sent to the model; so can the response before it is sent to the server.
#[test]
fn requests_and_answers_are_edited_before_they_are_approved() {
    let folder = tempfile::tempdir().unwrap();
    let (config, seen) = parrot(folder.path());
    for (typed, sent, received) in [
        ("yes\nyes\n", ["Be polite", "What does it say?", ":100"], "pieces of eight"),
        (
            "edit\nBe brief\n\n50\ny\ne\nnine pieces\ny\n",
            ["Be brief", "What does it say?", ":50"],
            "nine pieces",
        ),
    ] {
        let script = Script::new(ASKING, "");
        let path = script.path().display().to_string();
        let (out, err, code) = run(&["call", "ask", "--config", &config, "--", "sh", &path], typed);
        assert_eq!((out.as_str(), code), ("thanks\n", 0), "{err}");
        for shown in
            ["Be polite", "What does it say?", "maxTokens: 100", "claude", "costPriority 0.3"]
        {
            assert!(err.contains(shown), "{shown}: {err}");
        }
        let read = std::fs::read_to_string(&seen).unwrap();
        assert!(sent.iter().all(|part| read.contains(part)), "{read}");
        let answer = script.received().into_iter().find(|message| message["id"] == "s1").unwrap();
        assert_eq!(answer["result"]["content"]["text"], received);
    }
    // Editing and then declining is declining.
    let script = Script::new(ASKING, "");
    let path = script.path().display().to_string();
    let (_, err, _) =
        run(&["call", "ask", "--config", &config, "--", "sh", &path], "edit\n\n\n\nno\n");
    let answer = script.received().into_iter().find(|message| message["id"] == "s1").unwrap();
    assert_eq!(answer["error"]["code"], -1, "{err}");
}

/// A configuration with a model that always returns the same text, and the file that records its
/// input.
pub(crate) fn parrot(folder: &Path) -> (String, PathBuf) {
    let (file, seen) = (folder.join("config.toml"), folder.join("seen"));
    let command = format!("cat > '{}'; printf 'pieces of eight'", seen.display());
    let model = format!("[models.parrot]\ncommand = \"sh\"\nargs = [\"-c\", {command:?}]\n");
    std::fs::write(&file, model).unwrap();
    (file.display().to_string(), seen)
}

/// A server whose tool sends a sampling request.
pub(crate) const ASKING: &str = r#"
  *'"tools/list"'*) reply result '{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}' ;;
  *'"tools/call"'*)
    call=$id
    printf '{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":%s}\n' \
      '{"systemPrompt":"Be polite","maxTokens":100,"modelPreferences":{"hints":[{"name":"claude"}],"costPriority":0.3},"messages":[{"role":"user","content":{"type":"text","text":"What does it say?"}}]}' ;;
  *'"id":"s1"'*) id=$call; reply result '{"content":[{"type":"text","text":"thanks"}]}' ;;
"#;
