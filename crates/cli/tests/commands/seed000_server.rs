//! Sessions with a server that implements seed 000 literally, without extensions of this project.

use mcp_flow_testkit::scripted::Script;
use serde_json::{Value, json};

use super::run;

/// Calls a tool of such a server. Returns standard output, standard error, the exit code and the
/// messages that the server received.
fn call(script: &Script, words: &[&str], input: &str) -> (String, String, i32, Vec<Value>) {
    let path = script.path().display().to_string();
    let words = [&["call"], words, &["--", "sh", &path]].concat();
    let (out, err, code) = run(&words, input);
    (out, err, code, script.received())
}

fn methods(received: &[Value]) -> Vec<&str> {
    received.iter().filter_map(|message| message["method"].as_str()).collect()
}

fn answers(received: &[Value]) -> Vec<&Value> {
    let responds = received.iter().filter(|message| message["method"] == "interaction.respond");
    responds.map(|message| &message["params"]["response"]["value"]).collect()
}

/// INT-092, INT-093, C-10: session support is read from the handshake, or requested by
/// `capabilities` before the first session; tools need no mark.
#[test]
fn capabilities_are_requested_once_before_a_session() {
    let features = json!({"statefulSessions": true, "validation": true});
    let whole = json!({"interactive": true, "version": "0.1.0", "features": features});
    for (declared, is_asked) in [(Some(whole), false), (Some(json!({})), true), (None, true)] {
        let script = Script::seed_000(declared.as_ref(), "");
        let (out, err, code, received) = call(&script, &["wizard"], "John\njohn@example.com\n");
        assert_eq!(code, 0, "{declared:?}: {out} {err}");
        assert!(out.contains("kept") && err.contains("Registered"), "{out} {err}");
        assert_eq!(answers(&received), ["John", "john@example.com"]);
        let methods = methods(&received);
        let start = methods.iter().position(|method| *method == "interaction.start").unwrap();
        let asked = methods[..start].iter().filter(|method| **method == "capabilities").count();
        assert_eq!(asked, usize::from(is_asked), "{methods:?}");
        assert!(!methods.contains(&"tools/call"), "{methods:?}");
    }
}

/// INT-087: a rejected answer is asked for once more, though the server also repeats its prompt,
/// and nothing is sent after `interaction.complete`.
#[test]
fn a_rejected_answer_is_asked_for_once_more() {
    let script = Script::seed_000(None, "");
    let (out, err, code, received) =
        call(&script, &["wizard"], "John\nbad\njohn@example.com\nother@example.com\n");
    assert_eq!(code, 0, "{out} {err}");
    assert_eq!(err.matches("Enter email").count(), 2, "{err}");
    assert_eq!(err.matches("Invalid format").count(), 1, "{err}");
    assert_eq!(answers(&received), ["John", "bad", "john@example.com"]);
}

/// INT-085, INT-099, C-44: a tool or server that rejects a session is called with all parameters.
#[test]
fn a_refused_start_becomes_a_call() {
    let refused = r#"
  *'"interaction.start"'*) reply error '{"code":-32601,"message":"Method not found"}' ;;
"#;
    let declared = json!({"interactive": true});
    for (branches, words) in
        [("", ["add", "a=2", "b=3"]), (refused, ["wizard", "name=John", "email=j@example.com"])]
    {
        let script = Script::seed_000(Some(&declared), branches);
        let (out, err, code, received) = call(&script, &words, "");
        assert_eq!((out.as_str(), code), ("called\n", 0), "{err}");
        assert_eq!(methods(&received)[3..], ["tools/list", "interaction.start", "tools/call"]);
        let (_, err, code, _) = call(&script, &words[..2], "");
        assert!(code == 2 && err.contains("missing"), "{code}: {err}");
    }
}

/// INT-088: a session that expired, known by the error code only, is started again. Answers to
/// prompts without a key are not parameters.
#[test]
fn an_expired_session_is_restarted() {
    let expired = r#"
  *'"interaction.respond"'*'"late@'*)
    reply error '{"code":-32002,"message":"Session timed out","data":{"sessionId":"session_abc123"}}' ;;
"#;
    let script = Script::seed_000(None, expired);
    let (out, err, code, received) =
        call(&script, &["wizard"], "John\nlate@example.com\nJohn\njohn@example.com\n");
    assert_eq!(code, 0, "{out} {err}");
    assert!(err.contains("has expired"), "{err}");
    let starts = received.iter().filter(|message| message["method"] == "interaction.start");
    let starts: Vec<_> = starts.map(|start| &start["params"]["initialParams"]).collect();
    assert_eq!(starts, [&json!({}), &json!({})]);
}

/// INT-098: leaving a session prints how to resume it only if the server supports that.
#[test]
fn no_resume_command_is_printed_without_session_support() {
    let script = Script::seed_000(None, "");
    let (_, err, code, _) = call(&script, &["wizard"], "John\n");
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("ends with its server") && !err.contains("sessions answer"), "{err}");
}
