//! Message signing between the real program and itself, through a tampering proxy (MCP-073).

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use crate::support::configured_server::{ConfiguredServer, command};
use mcp_flow_testkit::wait::output;
use tempfile::TempDir;

/// Request and response values with digits that occur nowhere else.
const ASKED: &str = "4141414";
const ANSWERED: &str = "4141415";

/// MCP-073: with signing on, a changed byte is rejected in both directions and over several
/// transports; an unchanged message is accepted.
#[test]
fn changed_messages_are_rejected() {
    let folder = folder();
    let served = ConfiguredServer::start(folder.path(), &[]);
    for changed in [None, Some((ASKED, "4141424")), Some((ANSWERED, "4141416"))] {
        for place in ["tcp", "mcp", "websocket", "sse"] {
            if place == "websocket" && changed.is_some_and(|(before, _)| before == ASKED) {
                // WebSocket clients mask what they send.
                continue;
            }
            let url = served.through(place, changed);
            let output = call(folder.path(), &url, &["--signing-key-file", "key"], &[]);
            let (out, received) = texts(&output);
            if changed.is_none() {
                assert_eq!(output.status.code(), Some(0), "{url}: {received}");
                assert!(out.contains(ANSWERED), "{out}");
                continue;
            }
            assert_eq!(output.status.code(), Some(5), "{url} {changed:?}: {out}{received}");
            assert!(received.contains("modified in transit"), "{url} {changed:?}: {received}");
            assert!(!out.contains("41414"), "{out}");
        }
    }
    served.end();
}

/// MCP-073: signing is off by default; unsigned messages and other keys are rejected with what to
/// do.
#[test]
fn unsigned_messages_are_rejected() {
    let folder = folder();
    key(folder.path(), "other");
    let served = ConfiguredServer::start(folder.path(), &[]);
    let secret = std::fs::read_to_string(folder.path().join("key")).unwrap();
    for place in ["tcp", "mcp", "websocket", "sse"] {
        let url = served.endpoints[place].as_str().unwrap();
        let url = if place == "tcp" { format!("tcp://{url}") } else { url.to_owned() };
        let unsigned = call(folder.path(), &url, &[], &[]);
        let (_, received) = texts(&unsigned);
        assert_eq!(unsigned.status.code(), Some(5), "{received}");
        assert!(received.contains("--signing-key-file"), "{received}");
        let strange = call(folder.path(), &url, &["--signing-key-file", "other"], &[]);
        let (_, received) = texts(&strange);
        assert_eq!(strange.status.code(), Some(5), "{received}");
        assert!(received.contains("same key"), "{received}");
        let by_variable = call(folder.path(), &url, &[], &[("MCP_FLOW_SIGNING_KEY", &secret)]);
        assert_eq!(by_variable.status.code(), Some(0), "{}", texts(&by_variable).1);
    }
    served.end();
}

/// MCP-073: SIGHUP rotates the keys as soon as the server is ready.
#[test]
fn signing_keys_rotate_while_running() {
    let folder = folder();
    let mut served = ConfiguredServer::start(folder.path(), &[]);
    let url = served.endpoints["mcp"].as_str().unwrap().to_owned();
    let old = std::fs::read_to_string(folder.path().join("key")).unwrap();
    let new = key(folder.path(), "new");
    let try_with =
        |name: &str| call(folder.path(), &url, &["--signing-key-file", name], &[]).status.code();
    write_key(&folder.path().join("old"), &old);
    write_key(&folder.path().join("key"), &format!("{new}{old}"));
    served.reload("configuration reloaded");
    // The old key still signs for a client that has both; the server signs with the new one.
    assert_eq!((try_with("key"), try_with("new"), try_with("old")), (Some(0), Some(0), Some(5)));
    write_key(&folder.path().join("key"), "nothing\n");
    served.reload("not reloaded");
    let unsigned = SETTINGS.split("[signing]").next().unwrap();
    std::fs::write(folder.path().join("flow.toml"), unsigned).unwrap();
    served.reload("not reloaded");
    assert_eq!(try_with("new"), Some(0));
    served.end();
}

/// MCP-073: key files readable by others and invalid keys are reported before a server starts.
#[test]
fn invalid_signing_keys_are_reported() {
    let folder = folder();
    for (settings, received) in [
        ("key_file = \"absent\"", "absent"),
        ("key_file = \"open\"", "chmod 600"),
        ("key_env = \"NOT_THERE\"", "NOT_THERE"),
        ("key_file = \"key\"\nkey_env = \"KEY\"", "mutually exclusive"),
        ("key = \"secret\"", "unknown key `key`"),
        ("key_file = \"key\"\nwindow_seconds = 0", "window_seconds"),
    ] {
        key(folder.path(), "open");
        let mode = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(folder.path().join("open"), mode).unwrap();
        std::fs::write(folder.path().join("bad.toml"), format!("[signing]\n{settings}\n")).unwrap();
        let output = output(&mut command(folder.path(), &["config", "check", "bad.toml"]));
        let (_, error) = texts(&output);
        assert!(!output.status.success() && error.contains(received), "{settings}: {error}");
    }
}

const SETTINGS: &str = "[log]\nlevel = \"info\"\n[offer]\nstore = \"memory:\"\n\
                        [serve]\ntcp = \"127.0.0.1:0\"\n[signing]\nkey_file = \"key\"\n";

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    key(folder.path(), "key");
    std::fs::write(folder.path().join("flow.toml"), SETTINGS).unwrap();
    folder
}

/// Creates a key file with this name.
fn key(folder: &Path, name: &str) -> String {
    let made = output(&mut command(folder, &["config", "key"]));
    let key = String::from_utf8(made.stdout).unwrap();
    write_key(&folder.join(name), &key);
    key
}

fn write_key(path: &Path, keys: &str) {
    std::fs::write(path, keys).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn call(folder: &Path, url: &str, options: &[&str], environment: &[(&str, &str)]) -> Output {
    let sum = format!("a={ASKED}");
    let mut command = command(folder, &["call", url, "calculator.add", &sum, "b=1"]);
    output(command.args(options).envs(environment.iter().copied()))
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

impl ConfiguredServer {
    /// The URL of a proxy that forwards everything, and replaces these bytes.
    fn through(&self, place: &str, changed: Option<(&'static str, &'static str)>) -> String {
        let url = self.endpoints[place].as_str().unwrap();
        let url = if place == "tcp" { format!("tcp://{url}") } else { url.to_owned() };
        let (scheme, rest) = url.split_once("://").unwrap();
        let (host, path) = rest.find('/').map_or((rest, ""), |place| rest.split_at(place));
        format!("{scheme}://{}{path}", between(host.to_owned(), changed))
    }
}

/// Starts a proxy that forwards both directions.
fn between(host: String, changed: Option<(&'static str, &'static str)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(&host)) else { return };
            let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || pass_on(client, server, changed));
            std::thread::spawn(move || pass_on(back.0, back.1, changed));
        }
    });
    address
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, changed: Option<(&str, &str)>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let bytes = &mut buffer[..read];
        if let Some((before, after)) = changed {
            let found = bytes.windows(before.len()).position(|part| part == before.as_bytes());
            if let Some(place) = found {
                bytes[place..place + before.len()].copy_from_slice(after.as_bytes());
            }
        }
        if to.write_all(bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
