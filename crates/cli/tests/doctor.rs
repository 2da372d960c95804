//! `mcp-flow doctor`: finds what keeps a server from starting.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use mcp_flow_testkit::wait::output;
use serde_json::Value;

use crate::support::configured_server::ConfiguredServer;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.current_dir(folder).args(arguments).env("XDG_CONFIG_HOME", folder);
    command.env_remove("MCP_FLOW_CONFIG").env_remove("MCP_FLOW_LOG");
    output(command.env_remove("MCP_FLOW_STORE_KEY"))
}

/// Runs the checks on a configuration, and returns their results by name and the exit code.
fn examine(folder: &Path, text: &str) -> (Vec<(String, String)>, Option<i32>) {
    std::fs::write(folder.join("flow.toml"), text).unwrap();
    let output = run(folder, &["doctor", "--config", "flow.toml", "--format", "json"]);
    let found: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let of = |finding: &Value, name: &str| finding[name].as_str().unwrap().to_owned();
    for finding in &found {
        let is_good = finding["status"] == "ok";
        assert_eq!(finding["advice"].is_null(), is_good, "{finding}");
    }
    let found = found.iter().map(|finding| (of(finding, "check"), of(finding, "status")));
    (found.collect(), output.status.code())
}

fn certificate(folder: &Path, begins: i32, ends: i32) {
    let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    parameters.not_before = rcgen::date_time_ymd(begins, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(ends, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let made = parameters.self_signed(&key).unwrap();
    std::fs::write(folder.join("chain.pem"), made.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
}

const HERE: &str = "[serve]\nlisten = \"127.0.0.1:0\"\n";

/// Each problem is a finding that says how to fix it.
#[test]
fn problems_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let tls = "tls_certificate = \"chain.pem\"\ntls_key = \"key.pem\"\n";
    std::fs::create_dir(folder.join("flows")).unwrap();
    std::fs::write(folder.join("flows/bad.yaml"), "id: [").unwrap();
    for (text, check, status) in [
        (HERE.to_owned(), "store", "ok"),
        ("[serv]".to_owned(), "configuration", "fail"),
        (format!("[serve]\nlisten = \"{taken}\"\nwebtransport = false"), "port", "fail"),
        ("[serve]\nlisten = \"203.0.113.1:0\"\ninsecure = true".to_owned(), "port", "fail"),
        ("[serve]\nlisten = \"0.0.0.0:0\"".to_owned(), "exposure", "fail"),
        (format!("{HERE}{tls}"), "tls", "fail"),
        (format!("{HERE}[offer]\nstore = \"memory:\""), "store", "warn"),
        (format!("{HERE}[offer]\nstore = \"redb:/dev/null/x\""), "store", "fail"),
        (format!("{HERE}[offer]\nroots = [\"nowhere\"]"), "roots", "fail"),
        (format!("{HERE}[offer]\nworkflows = [\"nowhere\"]"), "workflows", "fail"),
        (format!("{HERE}[offer]\nworkflows = [\"flows\"]"), "workflows", "warn"),
        (format!("{HERE}[audit]\nfile = \"/dev/null/audit\""), "audit", "fail"),
        (
            format!("{HERE}[[identity.tokens]]\nname = \"a\"\ntoken_file = \"nowhere\""),
            "identity",
            "fail",
        ),
    ] {
        let (found, code) = examine(folder, &text);
        let expected = (check.to_owned(), status.to_owned());
        assert!(found.contains(&expected), "{text}\n{found:?}");
        let fails = found.iter().any(|(_, status)| status == "fail");
        assert_eq!(code, Some(i32::from(fails)), "{text}\n{found:?}");
        assert_eq!(fails, status == "fail", "{text}\n{found:?}");
    }
}

/// Certificates are checked for their expiry.
#[test]
fn certificates_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{HERE}tls_certificate = \"chain.pem\"\ntls_key = \"key.pem\"\n");
    for (begins, ends, status) in [(2020, 2999, "ok"), (2020, 2021, "fail"), (2998, 2999, "fail")] {
        certificate(folder.path(), begins, ends);
        let (found, _) = examine(folder.path(), &text);
        assert!(found.contains(&("tls".to_owned(), status.to_owned())), "{ends}: {found:?}");
    }
}

/// An existing store is opened and written to, and its key file must be private.
#[test]
fn the_store_and_its_key_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let text = format!("{HERE}[offer]\nstore = \"redb:journal.redb\"\n");
    let (before, _) = examine(folder, &text);
    assert!(!folder.join("journal.redb").exists() && !folder.join("journal.key").exists());
    assert!(before.contains(&("store".to_owned(), "ok".to_owned())), "{before:?}");
    // A server whose input ends creates the store and exits.
    let mut command = Command::new(PROGRAM);
    let made = output(command.current_dir(folder).args(["stdio", "--config", "flow.toml"]));
    assert!(made.status.success());
    let (found, code) = examine(folder, &text);
    assert_eq!(code, Some(0), "{found:?}");
    assert!(found.contains(&("key".to_owned(), "ok".to_owned())), "{found:?}");
    let key = folder.join("journal.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (found, code) = examine(folder, &text);
    assert!(found.contains(&("key".to_owned(), "fail".to_owned())), "{found:?}");
    assert_eq!(code, Some(1));
    let people = run(folder, &["doctor", "--config", "flow.toml"]);
    let output = String::from_utf8(people.stdout).unwrap();
    assert!(output.contains("FAIL") && output.contains("chmod 600"), "{output}");
}

/// Ports and stores of a running server are reported as in use.
#[test]
fn resources_of_a_running_server_are_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("flow.toml"), "").unwrap();
    let served = ConfiguredServer::start(folder, &["--store", "redb:journal.redb"]);
    let address = served.endpoints["http"].as_str().unwrap();
    let address = address.trim_start_matches("http://").trim_end_matches('/');
    let store = "[offer]\nstore = \"redb:journal.redb\"";
    let (found, code) = examine(folder, &format!("[serve]\nlisten = \"{address}\"\n{store}"));
    let in_use = |check: &str| found.contains(&(check.to_owned(), "fail".to_owned()));
    assert!(in_use("port") && in_use("store"), "{found:?}");
    assert_eq!(code, Some(1));
    let people = run(folder, &["doctor", "--config", "flow.toml"]);
    let output = String::from_utf8(people.stdout).unwrap();
    assert!(output.contains("already running there; stop that program"), "{output}");
    served.end();
}
