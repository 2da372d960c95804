//! Downloads of a call: concurrent, and saved completely or not at all.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;

use mcp_flow_testkit::scripted::{ScriptedRequest, http};
use mcp_flow_testkit::wait::{Deadline, end};
use serde_json::json;

use super::{PROGRAM, Server, run};

/// WT-049, MCP-079: a file truncated during its download is an error with the reason, and nothing
/// is saved.
#[test]
fn a_truncated_file_is_not_saved() {
    let (source, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(&["--store", "memory:", "--root", source.path().to_str().unwrap()]);
    let endpoint = |name: &str| server.endpoints[name].as_str().unwrap();
    let hash = ["--certificate-hash", endpoint("certificateHash")];
    for (url, options, received) in [
        (endpoint("webtransport"), &hash[..], "truncated: it ended after"),
        (endpoint("mcp"), &[], "failed"),
    ] {
        // Too large to read in time, and sparse on disk.
        let file = File::create(source.path().join("large.bin")).unwrap();
        file.set_len(1 << 40).unwrap();
        let mut child = Command::new(PROGRAM)
            .args(["call", url, "read_file", "path=large.bin", "--output"])
            .arg(folder.path())
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let _deadline = Deadline::of(&child);
        while size_within(folder.path()) == 0 && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        file.set_len(0).unwrap();
        let output = end(child);
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{url}: {err}");
        assert!(err.contains("large.bin") && err.contains(received), "{url}: {err}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{url}: nothing is left");
    }
}

/// The total size of the files in a folder.
fn size_within(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap();
    files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum()
}

/// PAT-024: linked files are downloaded concurrently: no link responds before all were requested.
#[test]
fn downloads_run_concurrently() {
    let all = Barrier::new(LINKS.len());
    let (names, err, code) = download(move |mut asked| {
        all.wait();
        let content = asked.line.clone();
        asked.content("200 OK", "text/plain", &content);
    });
    assert_eq!(code, 0, "{err}");
    assert_eq!(names, LINKS.map(|name| (name.to_owned(), format!("GET /{name}"))));
}

/// PAT-023: a failed download cancels the others, and no partial file is left.
#[test]
fn a_failed_download_cancels_the_others() {
    for (broken, received) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nsome", "failed"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nsome\r\n", "failed"),
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n\u{1b}[", "404"),
        (
            "HTTP/1.1 302 Found\r\nlocation: http://b.example/\r\ncontent-length: 0\r\n\r\n",
            "b.example",
        ),
    ] {
        let all = Barrier::new(LINKS.len());
        let (names, err, code) = download(move |mut asked| {
            all.wait();
            match asked.line.as_str() {
                "GET /two" => asked.write(broken),
                _ => {
                    asked.write("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nsome");
                    asked.until_closed();
                }
            }
        });
        assert!([3, 4].contains(&code) && err.contains(received), "{code}: {err}");
        assert!(!err.contains('\u{1b}'), "{err}");
        assert!(names.is_empty(), "{received}: {names:?}");
    }
}

/// A stalled download ends with the timeout.
#[test]
fn a_stalled_download_times_out() {
    let (names, err, code) = download(|mut asked| {
        asked.write("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nsome");
        asked.until_closed();
    });
    assert!(code == 3 && err.contains("no data within 3 s"), "{code}: {err}");
    assert!(names.is_empty(), "{names:?}");
}

/// Calls a tool that links to three files with content from the test. Returns the saved files,
/// standard error and the exit code.
fn download(
    content: impl Fn(ScriptedRequest) + Send + Sync + 'static,
) -> (Vec<(String, String)>, String, i32) {
    let address = http(move |mut asked: ScriptedRequest| {
        if asked.line.starts_with("GET ") {
            return content(asked);
        }
        let links = LINKS.map(|name| {
            json!({"type": "resource_link", "name": name, "uri": format!("http://{}/{name}", asked.host())})
        });
        match asked.method() {
            "server/discover" => asked.result(&json!({"supportedVersions": ["2026-07-28"]})),
            "tools/list" => {
                asked.result(&json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}));
            }
            _ => asked.result(&json!({"resultType": "complete", "content": links})),
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{address}/mcp");
    let into = folder.path().to_str().unwrap();
    let (_, err, code) = run(&["call", &url, "t", "--output", into, "--time-limit", "3"], "");
    (saved(folder.path()), err, code)
}

/// The files in a folder with their content, including hidden ones.
fn saved(folder: &Path) -> Vec<(String, String)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

const LINKS: [&str; 3] = ["one", "three", "two"];
