//! Commands that use a server: call, list, read, watch.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use mcp_flow_testkit::scripted::Script;
use mcp_flow_testkit::wait::{Deadline, output};
use serde_json::{Value, json};

use super::{PROGRAM, Server, local, run};

/// MCP-032, MCP-036, MCP-039: results are written to standard output, errors to standard error,
/// each outcome with its exit code.
#[test]
fn exit_codes_tell_the_outcome_of_a_call() {
    for (words, code, part) in [
        (&["calculator.add", "a=2", "b=3"][..], 0, "5"),
        (&["calculator.add", "--json", r#"{"a": 2, "b": 3}"#], 0, "5"),
        (&["calculator_add", "a=2", "b=3"], 0, "5"),
        (&["echo", "text=7"], 0, "7"),
        (&["calculator.divide", "a=1", "b=0"], 1, "zero"),
        (&["fail"], 1, "always fails"),
        (&["panic"], 1, "internal error"),
        (&["calculator.add", "a=2"], 2, "missing argument b; add b=VALUE"),
        (&["calculator.add", "a=two", "b=3"], 2, "a: enter a number"),
        (&["calculator.add", "a=2", "b=3", "c=4"], 2, "unknown argument c"),
        (&["calculator.ad", "a=2"], 2, "calculator.add"),
        (&[], 2, "no tool given"),
    ] {
        let (out, err, ended) = run(&local("call", words), "");
        let said = if code == 0 { &out } else { &err };
        assert_eq!(ended, code, "{words:?}: {out} {err}");
        assert!(said.contains(part), "{words:?}: {said}");
    }
}

/// MCP-035, MCP-054: unreachable servers, servers that do not speak MCP and servers that exit: each
/// has its exit code and a message that says what to do.
#[test]
fn unusable_servers_have_their_own_exit_codes() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let unreachable = format!("http://127.0.0.1:{port}/mcp");
    for (arguments, codes, part) in [
        (&["ping", &unreachable][..], &[3][..], "cannot connect"),
        (&["ping", "--", "/nowhere/at/all"], &[3], "/nowhere/at/all"),
        (&["ping", "--", "false"], &[3], "false"),
        (&["ping", "--time-limit", "2", "--", "yes"], &[4], "invalid message"),
        (&["ping", "nobody-has-this-name"], &[2], "nobody-has-this-name"),
        (&["ping"], &[2], "http://127.0.0.1:4433/mcp"),
        (&["ping", &unreachable, "more"], &[2], "more"),
    ] {
        let (out, err, code) = run(arguments, "");
        assert!(codes.contains(&code) && out.is_empty(), "{arguments:?} ended with {code}: {err}");
        assert!(err.contains(part), "{arguments:?}: {err}");
    }
}

/// INT-087, INT-099: without a terminal, prompts and answers are lines; an invalid answer is asked
/// for again; answers may come from a file; missing answers are named.
#[test]
fn a_flow_can_be_answered_by_lines_and_by_a_file() {
    let (out, err, code) = run(&local("call", &["register"]), "Ada\nnowhere\nada@a.example\n");
    assert_eq!(code, 0, "{err}");
    assert_eq!(err.matches("Enter email").count(), 2, "{err}");
    assert!(err.contains("does not match the expected format"), "{err}");
    assert!(out.contains("ada@a.example"), "{out}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("answers.json");
    std::fs::write(&file, r#"{"name": "Ada", "email": "ada@a.example"}"#).unwrap();
    let answers = ["register", "--format", "json", "--answers", file.to_str().unwrap()];
    let (out, err, code) = run(&local("call", &answers), "");
    assert_eq!(code, 0, "{err}");
    let end: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(end["result"]["data"], json!({"name": "Ada", "email": "ada@a.example"}));

    std::fs::write(&file, r#"{"name": "Ada", "email": 7}"#).unwrap();
    let (_, err, code) = run(&local("call", &answers), "");
    assert!(code == 2 && err.contains("`email`"), "{code}: {err}");
    let (_, err, code) = run(&local("call", &["register", "name=Ada"]), "");
    assert!(code == 2 && err.contains("email=VALUE"), "{code}: {err}");
}

/// INT-099: without session support on the server, a flow is called with all parameters.
#[test]
fn a_flow_is_called_with_all_parameters_without_session_support() {
    let words = ["register", "name=Ada", "email=ada@a.example"];
    let mut arguments = local("call", &words);
    arguments.push("--no-interaction");
    let (out, err, code) = run(&arguments, "");
    assert!(code == 0 && out.contains("ada@a.example"), "{code}: {out} {err}");
}

/// MCP-031, MCP-033, MCP-037: lists of tools, resources and prompts, over every transport, as
/// tables and JSON.
#[test]
fn everything_a_server_offers_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "one\u{1b}[31m").unwrap();
    let server = Server::start(&["--store", "memory:", "--root", folder.path().to_str().unwrap()]);
    let hash = server.endpoints["certificateHash"].as_str().unwrap();
    // A host without a path is enough.
    let host = server.endpoints["http"].as_str().unwrap().trim_end_matches('/').to_owned();
    for endpoint in ["mcp", "sse", "websocket", "webtransport", "host"] {
        let target = server.endpoints[endpoint].as_str().unwrap_or(&host);
        let run =
            |words: &[&str], input| run(&[words, &["--certificate-hash", hash]].concat(), input);
        let (out, err, code) = run(&["tools", target, "--format", "json"], "");
        assert_eq!(code, 0, "{endpoint}: {err}");
        let listed: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(listed["tools"][0]["name"], "calculator.add", "{endpoint}");
        let (out, _, _) = run(&["tools", target], "");
        assert!(out.lines().any(|line| line.starts_with("calculator.add")), "{endpoint}: {out}");
        let (out, _, _) = run(&["prompts", "--format=plain", target], "");
        assert!(out.contains("analyze_data\tdata\t"), "{out}");
        let (out, _, _) = run(&["prompt", target, "analyze_data", "data=1 2 3"], "");
        assert_eq!(out, "user: Analyze this data: 1 2 3\n");
        let (_, err, code) = run(&["prompt", target, "analyze_data"], "");
        assert!(code == 2 && err.contains("data=VALUE"), "{err}");
        let (out, _, _) = run(&["resources", target, "--format=plain"], "");
        let mut uris = out.lines().filter_map(|line| line.split('\t').next());
        let uri = uris.find(|uri| uri.starts_with("file:")).unwrap();
        assert!(uri.ends_with("/notes.txt"), "{out}");
        let (out, _, _) = run(&["read", target, uri], "");
        assert_eq!(out, "one␛[31m\n");
        let (out, _, _) = run(&["read", target, uri, "--raw"], "");
        assert_eq!(out, "one\u{1b}[31m");
        let (out, _, code) = run(&["ping", target], "");
        assert!(code == 0 && out.starts_with("mcp-flow "), "{out}");
    }
}

/// PAT-024, C-59: large results are downloaded under their own name, complete or not at all.
#[test]
fn large_results_are_downloaded() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    std::fs::write(folder.path().join("large.bin"), &bytes).unwrap();
    let server = Server::start(&["--store", "memory:", "--root", folder.path().to_str().unwrap()]);
    let hash = server.endpoints["certificateHash"].as_str().unwrap();
    for endpoint in ["mcp", "webtransport"] {
        let target = server.endpoints[endpoint].as_str().unwrap();
        let saved = tempfile::tempdir().unwrap();
        let into = saved.path().to_str().unwrap();
        let uri = format!("file://{}/large.bin", folder.path().canonicalize().unwrap().display());
        for arguments in [
            &["call", target, "read_file", "path=large.bin", "--output", into][..],
            &["read", target, &uri, "--output", into],
        ] {
            let (_, err, code) = run(&[arguments, &["--certificate-hash", hash]].concat(), "");
            assert!(code == 0 && err.contains("saved "), "{endpoint} {code}: {err}");
        }
        let mut names: Vec<_> =
            std::fs::read_dir(into).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["large-2.bin", "large.bin"], "{endpoint}");
        for name in names {
            assert!(std::fs::read(saved.path().join(name)).unwrap() == bytes);
        }
        let words = ["read", target, &uri, "--raw", "--certificate-hash", hash];
        let raw = output(Command::new(PROGRAM).args(words));
        assert!(raw.stdout == bytes, "{endpoint}: {}", String::from_utf8_lossy(&raw.stderr));
    }
}

/// PAT-060: a watched resource is shown again when it changes.
#[test]
fn a_watched_resource_is_shown_when_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "old").unwrap();
    let server = Server::start(&["--store", "memory:", "--root", folder.path().to_str().unwrap()]);
    let hash = server.endpoints["certificateHash"].as_str().unwrap();
    let uri = format!("file://{}/notes.txt", folder.path().canonicalize().unwrap().display());
    for (endpoint, [old, new]) in [("mcp", ["old", "new"]), ("webtransport", ["new", "newest"])] {
        let target = server.endpoints[endpoint].as_str().unwrap();
        let mut watching = Command::new(PROGRAM)
            .args(["watch", target, &uri, "--count", "1", "--certificate-hash", hash])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let _deadline = Deadline::of(&watching);
        let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), old, "{endpoint}");
        std::fs::write(&path, new).unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), new, "{endpoint}");
        assert_eq!(watching.wait().unwrap().code(), Some(0));
    }
}

/// PAT-060: watching survives a file that is briefly missing.
#[test]
fn a_watched_file_may_be_renamed_for_a_moment() {
    let folder = tempfile::tempdir().unwrap();
    let [path, away] = ["notes.txt", "away.txt"].map(|name| folder.path().join(name));
    std::fs::write(&path, "old").unwrap();
    let server = Server::start(&["--store", "memory:", "--root", folder.path().to_str().unwrap()]);
    let uri = format!("file://{}/notes.txt", folder.path().canonicalize().unwrap().display());
    let mut watching = Command::new(PROGRAM)
        .args(["watch", server.url(), &uri])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _deadline = Deadline::of(&watching);
    let mut shown = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut received = BufReader::new(watching.stderr.take().unwrap()).lines();
    assert_eq!(shown.next().unwrap().unwrap(), "old");
    std::fs::rename(&path, &away).unwrap();
    let line = received.next().unwrap().unwrap();
    assert!(line.contains("Waiting for the next change"), "{line}");
    std::fs::write(&away, "new").unwrap();
    std::fs::rename(&away, &path).unwrap();
    assert_eq!(shown.next().unwrap().unwrap(), "new");
    watching.kill().unwrap();
    watching.wait().unwrap();
}

/// Watching ends when access to the resource is denied.
#[test]
fn watching_ends_when_access_is_denied() {
    let script = Script::new(
        r#"
  *'"resources/subscribe"'*) reply result '{}' ;;
  *'"resources/read"'*)
    case $read in
    '')
      read=once
      reply result '{"contents":[{"uri":"x:/a","text":"once"}]}'
      echo '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:/a"}}' ;;
    *) reply error '{"code":-32001,"message":"No","data":{"name":"ACCESS_DENIED"}}' ;;
    esac ;;
"#,
        "",
    );
    let path = script.path().display().to_string();
    let (out, err, code) = run(&["watch", "x:/a", "--", "sh", &path], "");
    assert_eq!((out.as_str(), code), ("once\n", 5), "{err}");
    assert!(err.contains("--token"), "{err}");
}

/// MCP-088: tools are listed by category.
#[test]
fn tools_are_listed_by_category() {
    let names = |options: &[&str]| {
        let (out, err, code) = run(&local("tools", &[options, &["--format=json"]].concat()), "");
        assert_eq!(code, 0, "{err}");
        let listed: Value = serde_json::from_str(&out).unwrap();
        let tools = listed["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(names(&[]).len() > 8);
    assert_eq!(names(&["--category", "diagnostics"]), ["echo", "sleep", "fail", "panic"]);
    assert!(names(&["--category", "none-of-them"]).is_empty());
}

/// MCP-039: code and data of a server's error are shown.
#[test]
fn the_data_of_an_error_is_shown() {
    let (_, err, code) = run(&local("read", &["file:///nowhere"]), "");
    assert_eq!(code, 4, "{err}");
    let data = r#"data: {"domain":"mcp","name":"RESOURCE_NOT_FOUND","uri":"file:///nowhere"}"#;
    assert!(err.contains("-32602") && err.contains(data), "{err}");
}

/// INT-087, INT-098: a session over WebTransport is finished, or interrupted and resumed; the
/// server is trusted by its certificate fingerprint.
#[test]
fn a_flow_runs_over_webtransport() {
    let server = Server::start(&["--store", "memory:"]);
    let target = server.endpoints["webtransport"].as_str().unwrap();
    let hash = server.endpoints["certificateHash"].as_str().unwrap();
    let trust = ["--certificate-hash", hash];
    let call = [&trust[..], &["--format=json"]].concat();
    let (out, err, code) =
        run(&[&["call", target, "register"], &call[..]].concat(), "Ada\nada@a.example\n");
    assert_eq!(code, 0, "{err}");
    let end: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(end["result"]["data"], json!({"name": "Ada", "email": "ada@a.example"}));

    let (_, err, _) = run(&[&["call", target, "register"], &call[..]].concat(), "Ada\n");
    let left = err.lines().find(|line| line.contains("sessions answer")).unwrap_or(&err);
    assert!(left.contains(hash), "{err}");
    let sessions = [&["sessions", "--url", target][..], &call].concat();
    let (out, err, code) = run(&[&sessions[..], &["list"]].concat(), "");
    assert_eq!(code, 0, "{err}");
    let listed: Value = serde_json::from_str(&out).unwrap();
    let id = listed["sessions"].as_array().unwrap().iter().find_map(|session| {
        (session["state"] == "waiting_user").then(|| session["sessionId"].as_str().unwrap())
    });
    let id = id.unwrap_or_else(|| panic!("{listed}"));
    let (out, _, _) = run(&[&sessions[..], &["answer", id, "ada@a.example"]].concat(), "");
    assert!(out.contains("\"success\": true") || out.contains("\"success\":true"), "{out}");

    let wrong = "00".repeat(32);
    for (trust, exit, part) in
        [(&["--certificate-hash", &wrong][..], 3, "--certificate-hash"), (&[], 3, "--ca-file")]
    {
        let (_, err, code) = run(&[&["ping", target], trust].concat(), "");
        assert!(code == exit && err.contains(part), "{code}: {err}");
    }
    let (_, err, code) = run(&["ping", target, "--certificate-hash", "none"], "");
    assert!(code == 2 && err.contains("64 hexadecimal digits"), "{code}: {err}");
}

/// C-53: a missing token is reported, and a valid one grants access.
#[test]
fn a_token_grants_access() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    std::fs::write(&file, "ada:0123456789abcdef0123\n").unwrap();
    let server = Server::start(&["--store", "memory:", "--token-file", file.to_str().unwrap()]);
    let target = server.endpoints["mcp"].as_str().unwrap();
    let webtransport = server.endpoints["webtransport"].as_str().unwrap();
    let hash = server.endpoints["certificateHash"].as_str().unwrap();
    for command in [
        &["ping", target][..],
        &["sessions", "list", "--url", target],
        &["ping", "--certificate-hash", hash, webtransport],
    ] {
        let (_, err, code) = run(command, "");
        assert!(code == 5 && err.contains("--token"), "{code}: {err}");
        let with = [command, &["--token", "0123456789abcdef0123"]].concat();
        let (_, err, code) = run(&with, "");
        assert_eq!(code, 0, "{err}");
    }
}

/// A token in a custom header grants access over every transport with headers.
#[test]
fn a_header_is_sent_along() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    std::fs::write(&file, "ada:0123456789abcdef0123\n").unwrap();
    let server = Server::start(&["--token-file", file.to_str().unwrap()]);
    let hash = server.endpoints["certificateHash"].as_str().unwrap();
    for endpoint in ["mcp", "sse", "websocket", "webtransport"] {
        let target = server.endpoints[endpoint].as_str().unwrap();
        for (token, expected) in [("0123456789abcdef0123", 0), ("wrong", 5)] {
            let header = format!("Authorization: Bearer {token}");
            let words = ["ping", target, "--certificate-hash", hash, "--header", &header];
            let (_, err, code) = run(&words, "");
            assert_eq!(code, expected, "{endpoint}: {err}");
        }
    }
}

/// Server names are resolved from the user's configuration and from those of other hosts.
#[test]
fn a_server_is_found_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mcp.json");
    let servers = json!({"mcpServers": {"mine": {"command": PROGRAM,
        "args": ["stdio", "--store", "memory:"]}}});
    std::fs::write(&file, servers.to_string()).unwrap();
    let config = ["--config", file.to_str().unwrap()];
    let (out, err, code) =
        run(&[&["call", "mine", "calculator.add", "a=1", "b=1"], &config[..]].concat(), "");
    assert_eq!((out.as_str(), code), ("2\n", 0), "{err}");
    let (_, err, code) = run(&[&["tools", "yours"], &config[..]].concat(), "");
    assert!(code == 2 && err.contains("mine"), "{err}");
}

/// There are completions for every shell, and man pages of every command.
#[test]
fn shells_and_man_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (out, _, code) = run(&["completions", shell], "");
        assert_eq!(code, 0);
        assert!(out.contains("mcp-flow") && out.contains("COMPLETE"), "{shell}: {out}");
    }
    let (out, _, _) = run(&["man"], "");
    assert!(out.starts_with(".") && out.contains("130"), "{out}");
    let folder = tempfile::tempdir().unwrap();
    run(&["man", "--output", folder.path().to_str().unwrap()], "");
    assert!(folder.path().join("mcp-flow-call.1").exists());
}
