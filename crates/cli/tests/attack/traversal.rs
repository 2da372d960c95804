//! Path traversal out of the served folder, in every encoding (PAT-019, PAT-021, PAT-022, PAT-058).

use mcp_flow_testkit::http::Connection;
use serde_json::json;

use crate::attack::connection::{Received, TestConnection, Transport};
use crate::attack::report::TableReport;
use crate::attack::target::{SECRET, Target};

/// PAT-019, PAT-021, PAT-058: no encoding of a URI reads or subscribes to a file outside of the
/// root, and existing files look like missing ones.
#[tokio::test]
async fn no_uri_leaves_the_roots() {
    let target = Target::open("", &[]).await;
    let (root, mut report) = (target.root().display().to_string(), TableReport::default());
    let parent = root.strip_suffix("/files").unwrap();
    for transport in Transport::ALL {
        let mut connection = TestConnection::open(&target, transport).await;
        let absent = format!("file://{root}/absent.txt");
        let expected = connection.call("resources/read", json!({"uri": absent})).await.code();
        assert!(expected.is_some(), "{transport:?}");
        for uri in URIS {
            let uri = uri.replace("{root}", &root).replace("{parent}", parent);
            let received = connection.call("resources/read", json!({"uri": uri})).await;
            report.compare(format!("{transport:?} {uri}"), received.code(), expected);
            report.check(format!("{transport:?} {uri}"), !leaks_secret(&received), "it tells");
            if transport != Transport::Stateless {
                let received = connection.call("resources/subscribe", json!({"uri": uri})).await;
                report.compare(format!("{transport:?} watching {uri}"), received.code(), expected);
            }
        }
        for path in PATHS {
            let call = json!({"name": "read_file", "arguments": {"path": path}});
            let received = connection.call("tools/call", call).await;
            let is_refused = received.messages[0]["result"]["isError"] == true;
            let row = format!("{transport:?} read_file {path:?}");
            report.check(row, is_refused && !leaks_secret(&received), format_args!("{received:?}"));
        }
        connection.finish().await;
    }
    report.finish(1000);
    target.assert_recovered(64).await;
}

/// PAT-021: no path of the console, of downloads or of another endpoint reads a file.
#[tokio::test]
async fn no_http_path_leaves_the_roots() {
    let target = Target::open("", &[]).await;
    let mut report = TableReport::default();
    for (path, status) in ADDRESSES {
        for method in ["GET", "HEAD", "POST"] {
            let head = format!(
                "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                 content-length: 0\r\n\r\n"
            );
            let mut connection = Connection::open(target.address).await;
            connection.write(head.as_bytes()).await;
            let mut answer = connection.response().await;
            let row = format!("{method} {path}");
            report.compare(&row, answer.status, *status);
            if method != "HEAD" {
                let body = String::from_utf8_lossy(&answer.bytes().await).into_owned();
                let tells =
                    body.contains(SECRET) || body.contains("root:") || body.contains("[offer");
                report.check(&row, !tells, body);
            }
        }
    }
    report.finish(100);
    target.assert_recovered(64).await;
}

/// Returns whether a response reveals content from outside the root.
fn leaks_secret(received: &Received) -> bool {
    let text = format!("{:?}", received.messages);
    text.contains(SECRET) || text.contains("root:x:")
}

const URIS: &[&str] = &[
    "file://{root}/../secret.txt",
    "file://{root}/%2e%2e/secret.txt",
    "file://{root}/%2E%2E/secret.txt",
    "file://{root}/.%2e/secret.txt",
    "file://{root}/%2e./secret.txt",
    "file://{root}/..%2fsecret.txt",
    "file://{root}/..%5csecret.txt",
    "file://{root}/..\\secret.txt",
    "file://{root}\\..\\secret.txt",
    "file://{root}/%2e%2e%2fsecret.txt",
    "file://{root}/%252e%252e/secret.txt",
    "file://{root}/%252e%252e%252fsecret.txt",
    "file://{root}/%25252e%25252e/secret.txt",
    "file://{root}/%c0%ae%c0%ae/secret.txt",
    "file://{root}/%c0%ae%c0%ae%c0%afsecret.txt",
    "file://{root}/%e0%80%ae%e0%80%ae/secret.txt",
    "file://{root}/%f0%80%80%ae%f0%80%80%ae/secret.txt",
    "file://{root}/..%c0%afsecret.txt",
    "file://{root}/..%c1%9csecret.txt",
    "file://{root}/..;/secret.txt",
    "file://{root}/sub/../../secret.txt",
    "file://{root}/./../secret.txt",
    "file://{root}//../secret.txt",
    "file://{root}/a.txt/../../secret.txt",
    "file://{root}/sub/%2e%2e/%2e%2e/secret.txt",
    "file://{root}/\u{ff0e}\u{ff0e}/secret.txt",
    "file://{root}/\u{2025}/secret.txt",
    "file://{root}/%E2%80%A5/secret.txt",
    "file://{root}/%uff0e%uff0e/secret.txt",
    "file://{root}/..%00/secret.txt",
    "file://{root}/a.txt%00",
    "file://{root}/a.txt%00.png",
    "file://{root}/a.txt\0",
    "file://{root}/a.txt%",
    "file://{root}/a.txt%2",
    "file://{root}/a.txt%zz",
    "file://{root}/out",
    "file://{root}/up/secret.txt",
    "file://{root}/up/files/a.txt",
    "file://{root}/absolute",
    "file://{root}/.hidden",
    "file://{root}/%2ehidden",
    "file://{root}/",
    "file://{root}",
    "file://{root}/sub",
    "file://{root}-beside/secret.txt",
    "file://{parent}/secret.txt",
    "file://{parent}/flow.toml",
    "file:///etc/passwd",
    "file:/etc/passwd",
    "file:etc/passwd",
    "FILE:///etc/passwd",
    "file://localhost/etc/passwd",
    "file://evil.example{root}/a.txt",
    "file://user@{root}/a.txt",
    "file:////etc/passwd",
    "file:///proc/self/environ",
    "file:///dev/zero",
    "file:///dev/stdin",
    "/etc/passwd",
    "{root}/a.txt",
    "../secret.txt",
    "\\\\evil.example\\share\\a.txt",
    "http://127.0.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "gopher://127.0.0.1:6379/_INFO",
    "data:text/plain,x",
    "javascript:alert(1)",
    "",
];

const PATHS: &[&str] = &[
    "../secret.txt",
    "/../secret.txt",
    "./../secret.txt",
    "sub/../../secret.txt",
    "sub//..//../secret.txt",
    "../files-beside/secret.txt",
    "/etc/passwd",
    "//etc/passwd",
    "out",
    "/out",
    "up/secret.txt",
    "up/files/a.txt",
    "absolute",
    ".hidden",
    "a.txt\0",
    "a.txt\0.png",
    "a.txt/",
    "a.txt/../../secret.txt",
    "..\\secret.txt",
    "%2e%2e/secret.txt",
    "..%2fsecret.txt",
    "file:///etc/passwd",
    "\u{ff0e}\u{ff0e}/secret.txt",
    "~/secret.txt",
    "$HOME",
    "",
    ".",
    "..",
    "/",
    "sub",
];

/// Paths, and their status.
const ADDRESSES: &[(&str, u16)] = &[
    ("/../../etc/passwd", 404),
    ("/../flow.toml", 404),
    ("/flow.toml", 404),
    ("/.git/config", 404),
    ("/.mcp-flow/journal.db", 404),
    ("/%2e%2e/flow.toml", 404),
    ("/%2e%2e%2fflow.toml", 404),
    ("/..%2fflow.toml", 404),
    ("/..%5cflow.toml", 404),
    ("/%252e%252e/flow.toml", 404),
    ("/%c0%ae%c0%ae/flow.toml", 404),
    ("/%00", 404),
    ("/index.html%00", 404),
    ("//etc/passwd", 404),
    ("//flow.toml", 404),
    ("/..;/flow.toml", 404),
    ("/mcp/", 404),
    ("/mcp/../metrics", 404),
    ("/mcp/..;/metrics", 404),
    ("/%6detrics", 404),
    ("/./metrics", 404),
    ("//metrics", 404),
    ("/metrics/", 404),
    ("/METRICS", 404),
    ("/files/a.txt", 404),
    ("/..\\flow.toml", 404),
    ("/console/../flow.toml", 404),
    ("/assets/../../flow.toml", 404),
];

/// Paths below the downloads: only created links can be fetched.
#[tokio::test]
async fn no_download_leaves_the_roots() {
    let target = Target::open("", &[]).await;
    let mut report = TableReport::default();
    for token in [
        "",
        "/",
        "x",
        ".",
        "..",
        "../flow.toml",
        "../../etc/passwd",
        "%2e%2e%2fflow.toml",
        "..%2fflow.toml",
        "..%5cflow.toml",
        "%00",
        "a.txt",
        "files/a.txt",
        "file:///etc/passwd",
        "00000000000000000000000000000000",
        "' OR 1=1 --",
    ] {
        for method in ["GET", "HEAD"] {
            let path = format!("/download/{}", token.replace(' ', "%20"));
            let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
            let mut connection = Connection::open(target.address).await;
            connection.write(head.as_bytes()).await;
            report.compare(format!("{method} {path}"), connection.response().await.status, 404);
        }
    }
    report.finish(32);
    target.assert_recovered(64).await;
}
