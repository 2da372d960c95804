//! Interrupted sessions, and the printed hints for resuming them.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

use mcp_flow_testkit::scripted::{ScriptedRequest, http};
use mcp_flow_testkit::wait::{Deadline, LIMIT, end};
use serde_json::json;

use super::{PROGRAM, Server, run};

/// INT-098: leaving a session prints how to resume it if the server supports that, and otherwise
/// what happens to it.
#[test]
fn an_interrupted_session_is_resumed_where_possible() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("--store=redb:{}", folder.path().join("journal.redb").display());
    let stateless = Server::start(&["--stateless", "--store", "memory:"]);
    let foreign = format!("http://{}/mcp", http(foreign));
    for (server, received, can_resume) in [
        (&["--", PROGRAM, "stdio", &store][..], "waits for an answer; resume it", true),
        (&["--", PROGRAM, "stdio", "--store", "memory:"], "ends with its server", false),
        (&["--", PROGRAM, "stdio", "--stateless"], "keeps no sessions", false),
        (&[stateless.url()], "keeps no sessions", false),
        (&[&foreign], "waits at the server as s1", false),
    ] {
        let words = match server {
            [target] => vec!["call", target, "register"],
            command => [&["call", "register"], command].concat(),
        };
        let (_, err, code) = super::run_in(folder.path(), &words, "Ada\n");
        assert!(code == 2 && err.contains(received), "{server:?} {code}: {err}");
        let command = err.lines().find_map(|line| line.trim().strip_prefix("mcp-flow "));
        assert_eq!(command.is_some(), can_resume, "{server:?}: {err}");
        if let Some(command) = command {
            let words: Vec<_> = command.split(' ').chain(["ada@a.example"]).collect();
            let (out, err, code) = run(&words, "");
            assert!(code == 0 && out.contains("Ada is registered"), "{code}: {out}{err}");
        }
    }
}

/// INT-098: the printed command connects as the interrupted one did, once the token is filled in.
/// One from the environment applies to both. A stored session of a server that was started for the
/// command is not said to wait there.
#[test]
fn the_printed_command_has_what_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.txt");
    std::fs::write(&tokens, "ada:0123456789abcdef0123456789abcdef\n").unwrap();
    let server = Server::start(&["--store", "memory:", "--token-file", tokens.to_str().unwrap()]);
    let token = "0123456789abcdef0123456789abcdef";
    let call = ["call", server.url(), "register", "--token", token];
    let (_, err, _) = run(&call, "Ada\n");
    let command = err.lines().find_map(|line| line.trim().strip_prefix("mcp-flow ")).unwrap();
    assert!(!err.contains(token), "{err}");
    assert!(command.contains(" --token TOKEN "), "{command}");
    let command = command.replace("TOKEN", token);
    let words: Vec<_> = command.split(' ').chain(["ada@a.example"]).collect();
    let (out, err, code) = run(&words, "");
    assert!(code == 0 && out.contains("Ada is registered"), "{code}: {out}{err}");

    let config = folder.path().join("server.toml");
    let store = folder.path().join("journal.redb");
    std::fs::write(&config, format!("[offer]\nstore = \"redb:{}\"\n", store.display())).unwrap();
    let call = ["call", "register", "--", PROGRAM, "stdio", "--config", config.to_str().unwrap()];
    let (_, err, code) = run(&call, "Ada\n");
    assert!(code == 2 && err.contains("has stored the session as session_"), "{code}: {err}");
}

/// A server with session methods of its own.
fn foreign(mut asked: ScriptedRequest) {
    let features = json!({"statefulSessions": true, "sessionPersistence": true});
    let declared = json!({"interactive": true, "version": "0.1.0", "features": features});
    let prompt = json!({"type": "text", "message": "Well?", "validation": {"required": true}});
    match asked.method() {
        "server/discover" => asked.result(&json!({"supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "extensions": {"b.example/interaction": declared}}})),
        "tools/list" => asked.result(&json!({"tools":
            [{"name": "register", "inputSchema": {"type": "object"}}]})),
        "interaction.start" => {
            asked.result(&json!({"sessionId": "s1", "state": "idle", "initialPrompt": prompt}));
        }
        "interaction.respond" => asked.result(&json!({"accepted": true})),
        "interaction.getState" => {
            asked.result(
                &json!({"sessionId": "s1", "state": "waiting_user", "currentPrompt": prompt}),
            );
        }
        _ => asked.error(-32601, "Method not found"),
    }
}

/// MCP-094: SIGINT without a terminal prints whether the session keeps waiting or ends with its
/// server.
#[test]
fn a_signal_prints_how_to_resume_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("redb:{}", folder.path().join("journal.redb").display());
    for (store, received) in
        [(store.as_str(), "sessions answer"), ("memory:", "ends with its server")]
    {
        let mut child = Command::new(PROGRAM)
            .args(["call", "register", "--", PROGRAM, "stdio", "--store", store])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let _deadline = Deadline::of(&child);
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("Enter name") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it asks nothing");
        }
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
        assert!(rest.contains(received), "{store}: {rest}");
        for wrong in ["cancelled", "withdrawn"] {
            assert!(!rest.contains(wrong), "{store}: {rest}");
        }
    }
}

/// SIGINT during `sessions cancel` does not claim that the session keeps waiting.
#[test]
fn an_interrupted_cancellation_says_that_it_may_have_happened() {
    let (asking, asked) = channel();
    let address = http(move |mut asked: ScriptedRequest| match asked.method() {
        "interaction.cancel" => {
            asking.send(()).unwrap();
            asked.until_closed();
        }
        _ => foreign(asked),
    });
    let url = format!("http://{address}/mcp");
    let child = Command::new(PROGRAM)
        .args(["sessions", "cancel", "s1", "--url", &url])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    asked.recv_timeout(LIMIT).expect("the server is asked to cancel");
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = end(child);
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains("may have been cancelled") && !err.contains("waiting"), "{err}");
}
