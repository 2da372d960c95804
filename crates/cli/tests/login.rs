//! `mcp-flow login` and `logout`, for people and scripts.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use crate::support::test_server::{CLIENT_SECRET, CODE, Received, Reply, TestServer};
use mcp_flow_testkit::signer::Signer;
use mcp_flow_testkit::wait::{Deadline, end};
use serde_json::{Value, json};
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
        "/mcp" => Some(Reply::json(200, &json!({}))),
        _ => Some(Reply::json(404, &json!({}))),
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

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// Starts a server whose authorization server accepts assertions, and nothing else.
fn asserting() -> Arc<TestServer> {
    TestServer::with_rule(|server, request| {
        let token = json!({"access_token": "t0ken-a", "token_type": "Bearer", "expires_in": 3600});
        match (request.path(), request.field("grant_type").as_deref()) {
            ("/token", Some(JWT_BEARER)) => {
                server.state().valid_tokens = vec!["t0ken-a".to_owned()];
                Some(Reply::json(200, &token))
            }
            ("/token", _) => Some(Reply::json(400, &json!({"error": "unsupported_grant_type"}))),
            _ => None,
        }
    })
}

/// MCP-090: a workload logs in with the token of its platform, from a file.
#[test]
fn a_workload_logs_in_with_its_token() {
    let server = asserting();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let token = Signer::ed25519("w").sign(&json!({"aud": format!("{}/as", server.base())}));
    std::fs::write(&file, format!("{token}\n")).unwrap();
    let url = server.url();
    let login = ["login", &url, "--client-id", "robot", "--workload-token-file"];
    let (out, err, code) =
        run(folder.path(), &[&login[..], &[file.to_str().unwrap()]].concat(), "");
    assert!(code == 0 && !format!("{out}{err}").contains(&token), "{out} {err}");
    assert_eq!(run(folder.path(), &["ping", &url], "").2, 0);
    let grants = server.grants(JWT_BEARER);
    assert_eq!(grants[0].field("assertion"), Some(token));
    assert_eq!(grants[0].field("client_id").as_deref(), Some("robot"));
    let both = [&login[..], &["x", "--client-credentials"]].concat();
    assert_eq!(run(folder.path(), &both, "").2, 2);
}

/// MCP-090: the identity provider of an enterprise grants access for an ID token from a file, at the
/// token endpoint of its metadata or of an option.
#[test]
fn an_identity_provider_grants_access() {
    let provider = TestServer::with_rule(|provider, request| {
        let base = provider.base();
        let id_jag = "urn:ietf:params:oauth:token-type:id-jag";
        Some(match request.path() {
            "/.well-known/openid-configuration" => Reply::json(
                200,
                &json!({"issuer": base, "token_endpoint": format!("{base}/named")}),
            ),
            "/named" | "/given" => Reply::json(
                200,
                &json!({"access_token": "gr4nt", "issued_token_type": id_jag, "token_type": "N_A"}),
            ),
            _ => Reply::json(404, &json!({})),
        })
    });
    let folder = tempfile::tempdir().unwrap();
    let (id_token, secret) = (folder.path().join("id"), folder.path().join("secret"));
    std::fs::write(&id_token, "1d-token\n").unwrap();
    std::fs::write(&secret, "s3cret-there\n").unwrap();
    let (base, given) = (provider.base(), format!("{}/given", provider.base()));
    for (endpoint, path) in [(&[][..], "/named"), (&["--idp-token-endpoint", &given][..], "/given")]
    {
        let server = asserting();
        let url = server.url();
        let login = ["login", &url, "--client-id", "robot", "--idp", &base];
        let there = ["--idp-client-id", "me-there", "--idp-client-secret-file"];
        let secret = [secret.to_str().unwrap(), "--id-token-file", id_token.to_str().unwrap()];
        let words = [&login[..], &there, &secret, endpoint].concat();
        let (out, err, code) = run(folder.path(), &words, "");
        let text = format!("{out}{err}");
        let is_secret = |secret: &&str| text.contains(secret);
        assert!(code == 0 && !["1d-token", "s3cret", "gr4nt"].iter().any(is_secret), "{text}");
        assert_eq!(run(folder.path(), &["ping", &url], "").2, 0);
        let exchange = provider.requests().into_iter().rfind(|request| request.is("POST", path));
        let exchange = exchange.unwrap();
        assert_eq!(exchange.field("subject_token").as_deref(), Some("1d-token"));
        // The credentials there, `me-there:s3cret-there`.
        let credentials = Some("Basic bWUtdGhlcmU6czNjcmV0LXRoZXJl");
        assert_eq!(exchange.authorization.as_deref(), credentials);
        let grants = server.grants(JWT_BEARER);
        assert_eq!(grants[0].field("assertion").as_deref(), Some("gr4nt"));
    }
    let (_, err, code) = run(folder.path(), &["login", "x", "--idp-client-id", "me"], "");
    assert!(code == 2 && err.contains("--idp"), "{err}");
}

/// MCP-090: `--dpop` binds tokens to a key of the client, or does not, whatever the server offers.
#[test]
fn tokens_are_bound_to_a_key_on_request() {
    for (style, is_offered, code, is_bound) in [
        ("auto", true, 0, true),
        ("auto", false, 0, false),
        ("off", true, 0, false),
        ("required", true, 0, true),
        ("required", false, 5, false),
    ] {
        let server = TestServer::with_rule(move |server, request| match request.path() {
            "/.well-known/oauth-authorization-server/as" => {
                let mut metadata = server.metadata();
                if is_offered {
                    metadata["dpop_signing_alg_values_supported"] = json!(["ES256"]);
                }
                Some(Reply::json(200, &metadata))
            }
            "/token" if is_offered && request.proof.is_some() => {
                let Reply::Response { status, headers, body } = server.reply(request) else {
                    return None;
                };
                let body = body.replace("Bearer", "DPoP");
                Some(Reply::Response { status, headers, body })
            }
            "/mcp" if is_offered && request.authorization.is_none() => {
                let base = server.base();
                let metadata = format!("{base}/.well-known/oauth-protected-resource/mcp");
                let challenge = format!("DPoP resource_metadata=\"{metadata}\"");
                let reply = Reply::json(401, &json!({})).with("WWW-Authenticate", &challenge);
                let challenge = format!("Bearer resource_metadata=\"{metadata}\"");
                Some(reply.with("WWW-Authenticate", &challenge))
            }
            "/mcp" => {
                let token = request.authorization.as_deref().unwrap_or_default();
                let authorization = Some(token.replace("DPoP ", "Bearer "));
                Some(server.reply(&Received { authorization, ..request.clone() }))
            }
            _ => None,
        });
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "s3cret").unwrap();
        let url = server.url();
        let login = ["login", &url, "--client-credentials", "--client-id", "robot", "--dpop"];
        let words = [&login[..], &[style, "--client-secret-file", secret.to_str().unwrap()]];
        let (out, err, ended) = run(folder.path(), &words.concat(), "");
        assert_eq!(ended, code, "{style} {is_offered}: {out} {err}");
        if code == 0 {
            assert_eq!(run(folder.path(), &["ping", &url], "").2, 0, "{style} {is_offered}");
        }
        let requests = server.requests();
        let mut proven = requests.iter().filter(|request| request.proof.is_some());
        assert_eq!(
            proven.any(|request| request.path() == "/mcp"),
            is_bound,
            "{style} {is_offered}"
        );
    }
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
pub(crate) fn get_location(page: &Url) -> Url {
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
