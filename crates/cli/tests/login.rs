//! `mcp-flow login` and `logout`, for people and scripts.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::test_server::{CLIENT_SECRET, CODE, Reply, TestServer};
use mcp_flow_testkit::wait::{Deadline, end};
use serde_json::Value;
use url::Url;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// MCP-089, MCP-090: log in with a browser, use the server, log out; the login file is private to
/// the user, and no secret is printed or logged at any level.
#[test]
fn a_login_is_used_by_all_commands() {
    let test_server = TestServer::new();
    let folder = tempfile::tempdir().unwrap();
    let server = test_server.url();
    let (out, err, code) = run(folder.path(), &["tools", &server], "");
    assert_eq!(code, 5, "{out} {err}");
    assert!(err.contains(&format!("mcp-flow login {server}")), "{err}");

    let words = ["login", &server, "--no-browser", "--log-level", "trace", "--format", "json"];
    let mut login = spawn(folder.path(), &words);
    let _deadline = Deadline::of(&login);
    let mut received = BufReader::new(login.stderr.take().unwrap());
    let (page, before) = page(&mut received);
    let answer = get(&get_location(&page));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("close this page"), "{answer}");
    let (mut out, mut err) = (String::new(), before);
    login.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    received.read_to_string(&mut err).unwrap();
    assert_eq!(login.wait().unwrap().code(), Some(0), "{err}");
    let said: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&said["server"], &said["isRenewed"]), (&server.as_str().into(), &true.into()));

    test_server.state().valid_tokens.clear();
    let listed = run(folder.path(), &["tools", &server, "--log-level", "trace"], "");
    assert!(listed.2 == 0 && listed.0.contains("greet"), "{listed:?}");
    assert_eq!(test_server.grants("refresh_token").len(), 1);
    for text in [&out, &err, &listed.0, &listed.1] {
        for secret in ["t0ken-", "r3fresh-", CODE, CLIENT_SECRET] {
            assert!(!text.contains(secret), "{secret} is in {text}");
        }
    }

    let file = folder.path().join("mcp-flow").join("logins.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(&file).unwrap().contains("t0ken-2"));
    let (out, _, code) = run(folder.path(), &["logout", &server], "");
    assert!(code == 0 && out.contains("logged out"), "{out}");
    assert!(!std::fs::read_to_string(&file).unwrap().contains("t0ken"));
    assert_eq!(run(folder.path(), &["logout", &server], "").2, 0);
    assert_eq!(run(folder.path(), &["tools", &server], "").2, 5);
}

/// Without a browser on this machine, the redirect URL is pasted; anything else is asked for again.
#[test]
fn a_login_can_be_pasted() {
    let test_server = TestServer::new();
    let folder = tempfile::tempdir().unwrap();
    let mut login = spawn(folder.path(), &["login", &test_server.url(), "--no-browser"]);
    let _deadline = Deadline::of(&login);
    let mut received = BufReader::new(login.stderr.take().unwrap());
    let (page, _) = page(&mut received);
    let place = get_location(&page);
    let mut stdin = login.stdin.take().unwrap();
    writeln!(stdin, "\nhm?\n{place}").unwrap();
    let mut err = String::new();
    received.read_to_string(&mut err).unwrap();
    assert_eq!(login.wait().unwrap().code(), Some(0), "{err}");
    assert!(err.contains("paste all of it"), "{err}");
    assert_eq!(run(folder.path(), &["ping", &test_server.url()], "").2, 0);
}

/// Failed logins are explained, each with its exit code.
#[test]
fn failed_logins_are_explained() {
    let test_server = TestServer::new();
    let open = TestServer::with_rule(|_, request| match request.path() {
        "/mcp" => Some(Reply::json(200, &serde_json::json!({}))),
        _ => Some(Reply::json(404, &serde_json::json!({}))),
    });
    let folder = tempfile::tempdir().unwrap();
    let server = test_server.url();
    let wrong = "http://127.0.0.1:1/callback?code=x&state=wrong\n";
    for (words, input, expected, part) in [
        (&["login", &server, "--time-limit", "1"][..], "", 3, "no login within"),
        (&["login", &server], wrong, 5, "another login"),
        (&["login", &open.url()], "", 4, "requires no login"),
        (&["login", "http://mcp.example/mcp"], "", 5, "https"),
        (&["login", "tcp://127.0.0.1:1"], "", 2, "wss"),
        (&["login", "nobody-has-this-name"], "", 2, "nobody-has-this-name"),
        (&["login"], "", 2, "TARGET"),
        (&["login", &server, "--client-credentials"], "", 2, "--client-id"),
        (
            &["login", &server, "--client-id", "me", "--client-secret-file", "/nowhere"],
            "",
            1,
            "/nowhere",
        ),
    ] {
        let words = [words, &["--no-browser"]].concat();
        let (out, err, code) = run(folder.path(), &words, input);
        assert_eq!(code, expected, "{words:?}: {out} {err}");
        assert!(err.contains(part) && out.is_empty(), "{words:?}: {err}");
    }
}

/// MCP-090: a program logs in without a person, with a client secret from a file; a token given by
/// option precedes the stored one.
#[test]
fn a_program_logs_in_by_a_secret_in_a_file() {
    let test_server = TestServer::new();
    let folder = tempfile::tempdir().unwrap();
    let (file, kept) = (folder.path().join("secret"), folder.path().join("kept.json"));
    std::fs::write(&file, "s3cret\n").unwrap();
    let server = test_server.url();
    let kept = ["--logins", kept.to_str().unwrap()];
    let login = ["login", &server, "--client-credentials", "--client-id", "robot"];
    let secret = ["--client-secret-file", file.to_str().unwrap()];
    let (out, err, code) = run(folder.path(), &[&login[..], &secret, &kept].concat(), "");
    assert!(code == 0 && out.contains("logged in to") && !out.contains("s3cret"), "{out} {err}");
    let grants = test_server.grants("client_credentials");
    assert_eq!(grants[0].field("client_secret").as_deref(), Some("s3cret"));
    assert_eq!(run(folder.path(), &[&["ping", &server][..], &kept].concat(), "").2, 0);
    assert_eq!(run(folder.path(), &["ping", &server], "").2, 5);
    let given = [&["ping", &server, "--token", "other"][..], &kept].concat();
    let (_, err, code) = run(folder.path(), &given, "");
    assert!(code == 5 && !err.contains("other"), "{err}");
}

fn command(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(words).env("XDG_DATA_HOME", home).env("XDG_CONFIG_HOME", home).current_dir(home);
    for name in ["BROWSER", "DISPLAY", "MCP_FLOW_TOKEN", "MCP_FLOW_LOGINS", "MCP_FLOW_CONFIG"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn spawn(home: &Path, words: &[&str]) -> Child {
    command(home, words).spawn().unwrap()
}

fn run(home: &Path, words: &[&str], input: &str) -> (String, String, i32) {
    let mut child = spawn(home, words);
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let ended = end(child);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(ended.stdout), text(ended.stderr), ended.status.code().unwrap())
}

/// The authorization URL that a login prints, and the text before it.
fn page(received: &mut impl BufRead) -> (Url, String) {
    let mut before = String::new();
    loop {
        let mut line = String::new();
        assert_ne!(received.read_line(&mut line).unwrap(), 0, "no page: {before}");
        if line.starts_with("  http") {
            return (Url::parse(line.trim()).unwrap(), before);
        }
        before += &line;
    }
}

/// The redirect target of a page.
fn get_location(page: &Url) -> Url {
    let answer = get(page);
    let line = answer.lines().find_map(|line| line.strip_prefix("Location: "));
    Url::parse(line.unwrap_or_else(|| panic!("{answer}"))).unwrap()
}

fn get(url: &Url) -> String {
    let host = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    let mut stream = TcpStream::connect(&host).unwrap();
    let target = &url[url::Position::BeforePath..];
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
