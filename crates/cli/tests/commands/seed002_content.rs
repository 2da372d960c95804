//! Content types of seed 002.

use std::path::Path;

use mcp_flow_testkit::scripted::{ScriptedRequest, http};
use serde_json::json;

use super::{PROGRAM, run};

fn saved(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// MCP-059, MCP-060, MCP-061, C-25, C-26: an image by URL, a resource by URI and an embedded
/// resource are shown, and saved with `--output`: fetched, read, or copied from the result.
#[test]
fn every_form_of_seed_002_is_shown_and_saved() {
    let address = http(|mut asked: ScriptedRequest| {
        let host = asked.host().to_owned();
        match asked.method() {
            "server/discover" => asked.result(&json!({"supportedVersions": ["2026-07-28"]})),
            "tools/list" => asked.result(&json!({"tools":
                [{"name": "all", "inputSchema": {"type": "object"}}]})),
            "tools/call" => asked.result(&json!({"resultType": "complete", "content": [
                {"type": "image", "url": format!("http://{host}/picture.png")},
                {"type": "resource", "uri": "resource://example"},
                {"type": "embedded", "mimeType": "application/json", "data": "e30="}]})),
            "resources/read" => asked.result(&json!({"resultType": "complete", "contents":
                [{"uri": asked.message["params"]["uri"], "text": "followed"}]})),
            _ if asked.line == "GET /picture.png" => asked.content("200 OK", "image/png", "pixels"),
            _ => asked.error(-32601, "Method not found"),
        }
    });
    let url = format!("http://{address}/mcp");
    let (out, err, code) = run(&["call", &url, "all"], "");
    assert_eq!(code, 0, "{err}");
    let lines: Vec<_> = out.lines().collect();
    let image = format!("[image: http://{address}/picture.png]");
    let expected = [&*image, "[example: resource://example]", "[embedded: application/json, 2 B]"];
    assert_eq!(lines, expected);
    let folder = tempfile::tempdir().unwrap();
    let (_, err, code) =
        run(&["call", &url, "all", "--output", folder.path().to_str().unwrap()], "");
    assert_eq!(code, 0, "{err}");
    let file = |name: &str, content: &str| (name.to_owned(), content.as_bytes().to_vec());
    let expected =
        [file("embedded-3.json", "{}"), file("example", "followed"), file("picture.png", "pixels")];
    assert_eq!(saved(folder.path()), expected);
}

/// C-25: an image by the URL of another origin is named and not fetched; the rest is saved.
#[test]
fn links_to_other_origins_are_not_followed() {
    let address = http(|mut asked: ScriptedRequest| match asked.method() {
        "server/discover" => asked.result(&json!({"supportedVersions": ["2026-07-28"]})),
        "tools/list" => asked.result(&json!({"tools":
            [{"name": "all", "inputSchema": {"type": "object"}}]})),
        "tools/call" => asked.result(&json!({"resultType": "complete", "content": [
            {"type": "image", "url": "https://pictures.example/a.png"},
            {"type": "embedded", "mimeType": "application/json", "data": "e30="}]})),
        _ => asked.error(-32601, "Method not found"),
    });
    let url = format!("http://{address}/mcp");
    let folder = tempfile::tempdir().unwrap();
    let (_, err, code) =
        run(&["call", &url, "all", "--output", folder.path().to_str().unwrap()], "");
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("does not serve it: https://pictures.example/a.png"), "{err}");
    assert_eq!(saved(folder.path()), [("embedded-2.json".to_owned(), b"{}".to_vec())]);
}

/// C-26: the same with `mcp-flow serve --content seed002`.
#[test]
fn seed_002_content_of_our_server_is_read() {
    let (folder, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = [0, 159, 146, 150];
    std::fs::write(folder.path().join("raw.bin"), bytes).unwrap();
    let root = folder.path().to_str().unwrap();
    let server =
        ["--", PROGRAM, "stdio", "--store", "memory:", "--content", "seed002", "--root", root];
    let call = ["call", "read_file", "path=raw.bin", "--output", into.path().to_str().unwrap()];
    let (out, err, code) = run(&[&call[..], &server].concat(), "");
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("[embedded: application/octet-stream, 4 B]"), "{out}");
    let [(name, content)] = &saved(into.path())[..] else { panic!("{err}") };
    assert_eq!((name.as_str(), &content[..]), ("embedded-1", &bytes[..]));
}
