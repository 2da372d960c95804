//! Files of a call: fetched at the same time, and all of them, whole, or none.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;

use mcp_flow_testkit::scripted::{ScriptedRequest, http};
use mcp_flow_testkit::wait::{Deadline, end};
use serde_json::json;

use super::{PROGRAM, Server, run};

/// WT-049, MCP-079: a file that is truncated while it is downloaded is an error with the reason, and
/// nothing of it is saved.
#[test]
fn a_truncated_file_is_not_saved() {
    let (source, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(&["--store", "memory:", "--root", source.path().to_str().unwrap()]);
    let place = |name: &str| server.places[name].as_str().unwrap();
    let hash = ["--certificate-hash", place("certificateHash")];
    for (url, options, told) in [
        (place("webtransport"), &hash[..], "truncated: it ended after"),
        (place("mcp"), &[], "failed"),
    ] {
        // Nothing reads as much in time, and next to nothing of it is on the disk.
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
        assert!(err.contains("large.bin") && err.contains(told), "{url}: {err}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{url}: nothing is left");
    }
}

/// How many bytes the files in a folder have.
fn size_within(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap();
    files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum()
}

/// PAT-024: what is linked to is fetched at the same time: no link here leads to anything before all
/// of them were followed.
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

/// PAT-023: when one breaks off, the others are given up, and nothing half is in the folder.
#[test]
fn a_failed_download_cancels_the_others() {
    for (broken, told) in [
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
        assert!([3, 4].contains(&code) && err.contains(told), "{code}: {err}");
        assert!(!err.contains('\u{1b}'), "{err}");
        assert!(names.is_empty(), "{told}: {names:?}");
    }
}

/// A download that stands still is given up within the time limit.
#[test]
fn a_stalled_download_times_out() {
    let (names, err, code) = download(|mut asked| {
        asked.write("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nsome");
        asked.until_closed();
    });
    assert!(code == 3 && err.contains("no data within 3 s"), "{code}: {err}");
    assert!(names.is_empty(), "{names:?}");
}

/// Calls a tool that links to three files, whose content is up to the test: what was saved, what was
/// said, and the exit code.
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

/// The files in a folder, hidden ones too, with their content.
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
