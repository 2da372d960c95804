//! `--root` of the real program.

use mcp_flow::Revision;
use mcp_flow_testkit::Peer;
use mcp_flow_testkit::process::Program;
use mcp_flow_testkit::wait::output;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// The directory for journals.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

/// MCP-078, MCP-079, PAT-014, PAT-059: files of all roots are resources and can be read by
/// `read_file`; without a root there is neither.
#[tokio::test]
async fn files_are_served_where_there_is_a_root() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(one.path().join("a.txt"), "one").unwrap();
    std::fs::write(other.path().join("b.txt"), "other").unwrap();
    let roots = [one.path(), other.path()].map(|path| path.to_str().unwrap().to_owned());
    let (_program, mut peer) = start(&["stdio", "--root", &roots[0], "--root", &roots[1]]).await;
    for (path, expected) in [("a.txt", "one"), ("/b.txt", "other")] {
        let reply = peer.call_tool("read_file", json!({"path": path})).await;
        assert_eq!(reply["result"]["content"][0]["text"], expected);
    }
    let listed = peer.call("resources/list", json!({})).await["result"]["resources"].clone();
    let found = files(&listed);
    let uri = found[0]["uri"].as_str().unwrap().to_owned();
    assert_eq!(uri, format!("file://{}/a.txt", one.path().canonicalize().unwrap().display()));
    assert_eq!(found[1]["name"], "b.txt");
    peer.call("resources/subscribe", json!({"uri": uri})).await;
    std::fs::write(one.path().join("a.txt"), "new").unwrap();
    let told = peer.find(|message| message["method"] == "notifications/resources/updated").await;
    assert_eq!(told["params"]["uri"], uri);
    let read = peer.call("resources/read", json!({"uri": uri})).await;
    assert_eq!(read["result"]["contents"][0]["text"], "new");

    let (_program, mut bare) = start(&["stdio"]).await;
    let tools = bare.call("tools/list", json!({})).await["result"]["tools"].clone();
    assert!(tools.as_array().unwrap().iter().all(|tool| tool["name"] != "read_file"));
    let listed = bare.call("resources/list", json!({})).await["result"]["resources"].clone();
    assert!(files(&listed).is_empty(), "{listed}");
}

/// The file resources; workflows are listed too.
fn files(listed: &Value) -> Vec<&Value> {
    let is_file = |one: &&Value| one["uri"].as_str().unwrap().starts_with("file:");
    listed.as_array().unwrap().iter().filter(is_file).collect()
}

/// PAT-024: a pipe has no links; the tool and the resource reject files above the size limit of a
/// result, with the limit.
#[tokio::test]
async fn files_too_large_for_a_pipe_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(folder.path().join("large")).unwrap();
    file.set_len(17 * 1024 * 1024).unwrap();
    let (_program, mut peer) = start(&["stdio", "--root", folder.path().to_str().unwrap()]).await;
    let failed = peer.call_tool("read_file", json!({"path": "large"})).await["result"].clone();
    let text = failed["content"][0]["text"].as_str().unwrap();
    assert!(failed["isError"] == true && text.contains("at most 16777216 bytes"), "{text}");
    let uri = format!("file://{}/large", folder.path().canonicalize().unwrap().display());
    let refused = peer.call("resources/read", json!({"uri": uri})).await;
    let data: &Value = &refused["error"]["data"];
    assert_eq!((&data["name"], &data["limit"]), (&json!("PAYLOAD_TOO_LARGE"), &json!(16_777_216)));
}

/// PAT-017: binary files are sent as base64, and take no more memory than that.
#[tokio::test]
async fn binary_files_are_not_text() {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(folder.path().join("zeros")).unwrap();
    file.set_len(3 * 1024 * 1024).unwrap();
    let (_program, mut peer) = start(&["stdio", "--root", folder.path().to_str().unwrap()]).await;
    let uri = format!("file://{}/zeros", folder.path().canonicalize().unwrap().display());
    let read = peer.call("resources/read", json!({"uri": uri})).await;
    let blob = read["result"]["contents"][0]["blob"].as_str().unwrap();
    assert_eq!(blob.len(), 4 * 1024 * 1024);
    let read = peer.call_tool("read_file", json!({"path": "zeros"})).await;
    assert_eq!(read["result"]["content"][0]["resource"]["blob"], blob);
}

/// A missing root is reported before anything is served.
#[test]
fn a_missing_root_is_reported() {
    for command in ["stdio", "serve"] {
        let output = output(std::process::Command::new(PROGRAM).current_dir(FOLDER).args([
            command,
            "--root",
            "/nowhere/to/be/found",
        ]));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("/nowhere/to/be/found"), "{said}");
        assert_eq!(output.status.code(), Some(1));
    }
}

async fn start(arguments: &[&str]) -> (Program, Peer) {
    let (program, mut peer) = Program::start(PROGRAM, arguments);
    peer.initialize(Revision::V2025_11_25).await;
    (program, peer)
}
