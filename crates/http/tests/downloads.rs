//! Downloads of bulk content.

use std::path::Path;
use std::time::Duration;

use crate::support::{
    Running, call, in_session, start, start_with, start_with_options, stateless_post,
};
use mcp_flow_files::{Roots, ServeFiles};
use mcp_flow_http::Options;
use mcp_flow_server::{Bulk, Context, Server, Tool};
use mcp_flow_testkit::http::{Connection, Request, Response};
use mcp_flow_testkit::{sse, streamable, websocket};
use serde_json::{Value, json};

const SIZE: usize = 3 * 1024 * 1024 + 5;

/// C-50: the encodings and `ref/stream` of WebTransport have no effect over HTTP.
#[tokio::test]
async fn webtransport_features_have_no_effect() {
    let large = Tool::builder("large")
        .handler(async |_: Context, _: Value| Bulk::bytes("large", "x".repeat(SIZE)));
    let server = Server::builder("bulky", "1.0.0").tools(large).build().unwrap();
    let running = start(&server).await;
    let (address, end) = (running.address, std::future::ready);
    for mut peer in [
        streamable::connect(address, end(())),
        sse::connect(address, end(())).await,
        websocket::connect(address, end(())).await,
    ] {
        let transport = json!({"type": "mcp-flow", "version": "0.1", "encodings": ["cbor"]});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}, "transport": transport});
        let opened = peer.call("initialize", params).await["result"].clone();
        assert_eq!(
            (&opened["protocolVersion"], opened.get("transport")),
            (&"2025-11-25".into(), None)
        );
        peer.notify("notifications/initialized", json!({}));
        let content = peer.call_tool("large", json!({})).await["result"]["content"].clone();
        assert_eq!(content[0]["type"], "resource_link", "{content}");
    }
}

/// MCP-079: a large resource is downloaded by a link, whole or by range, repeatedly.
#[tokio::test]
async fn a_large_resource_is_downloaded() {
    let (folder, server) = files();
    let running = start(&server).await;
    let uri = format!("file://{}/large.bin", folder.path().canonicalize().unwrap().display());
    let params = json!({"uri": uri});
    let contents =
        running.send(stateless_post("resources/read", params)).await.json().await["result"]["contents"]
            .clone();
    let entry = &contents[0];
    assert_eq!((&entry["uri"], &entry["mimeType"]), (&json!(uri), &json!("text/uri-list")));
    let download = &entry["_meta"]["mcp-flow/download"];
    assert_eq!(download["size"], SIZE);
    assert_eq!(download["mimeType"], "application/octet-stream");
    let url = download["url"].as_str().unwrap();
    let lines: Vec<_> = entry["text"].as_str().unwrap().split("\r\n").collect();
    assert!(lines[0].starts_with("# ") && lines[1] == url, "{lines:?}");
    let path = path_of(url);

    for _ in 0..2 {
        let mut whole = running.send(Request::new("GET", &path)).await;
        assert_eq!(whole.status, 200);
        for (name, value) in [
            ("content-length", SIZE.to_string().as_str()),
            ("content-type", "application/octet-stream"),
            ("accept-ranges", "bytes"),
            ("x-content-type-options", "nosniff"),
            ("content-disposition", "attachment; filename*=UTF-8''large.bin"),
        ] {
            assert_eq!(whole.header(name), Some(value), "{name}");
        }
        assert!(whole.bytes().await == bytes(), "it comes as it is");
    }
    for (range, expected) in [
        ("bytes=0-9", Some(0..10)),
        ("bytes=1000000-2000000", Some(1_000_000..2_000_001)),
        ("bytes=-7", Some(SIZE - 7..SIZE)),
        ("bytes=99999999-", None),
    ] {
        let mut part = running.send(Request::new("GET", &path).header("range", range)).await;
        let Some(expected) = expected else {
            assert_eq!(part.status, 416);
            assert_eq!(part.header("content-range"), Some(&*format!("bytes */{SIZE}")));
            continue;
        };
        assert_eq!(part.status, 206);
        let said = format!("bytes {}-{}/{SIZE}", expected.start, expected.end - 1);
        assert_eq!(part.header("content-range"), Some(&*said));
        assert!(part.bytes().await == bytes()[expected], "{range}");
    }
    let conditional =
        Request::new("GET", &path).header("range", "bytes=0-1").header("if-range", "\"x\"");
    assert_eq!(running.send(conditional).await.status, 200);
    let head = running.send(Request::new("HEAD", &path)).await;
    assert_eq!((head.status, head.header("content-length")), (200, Some(&*SIZE.to_string())));
    assert_eq!(running.send(Request::new("POST", &path).body("")).await.status, 405);
    assert_eq!(running.send(Request::new("GET", "/download/")).await.status, 404);
    assert_eq!(running.send(Request::new("GET", "/download/0123")).await.status, 404);
}

/// MCP-079: a file that is shorter than announced aborts the connection.
#[tokio::test]
async fn a_truncated_file_aborts_the_download() {
    let (folder, server) = files();
    let running = start(&server).await;
    let path = folder.path().canonicalize().unwrap().join("large.bin");
    let params = json!({"uri": format!("file://{}", path.display())});
    let read = running.send(stateless_post("resources/read", params)).await.json().await;
    let url = &read["result"]["contents"][0]["_meta"]["mcp-flow/download"]["url"];
    let path_of_link = path_of(url.as_str().unwrap());
    std::fs::File::options().write(true).open(&path).unwrap().set_len(2_000_000).unwrap();
    for (range, length) in [("bytes=0-", SIZE), ("bytes=1000000-2500000", 1_500_001)] {
        let request = Request::new("GET", &path_of_link).header("range", range);
        let mut response = running.send(request).await;
        assert_eq!(response.header("content-length"), Some(&*length.to_string()));
        assert!(response.bytes().await.len() < length, "{range}");
        assert_eq!(response.into_connection().byte().await, None, "{range}: it is broken off");
    }
}

/// MCP-079, C-26: a stream is downloaded once; in revisions without links, the text has the URL.
#[tokio::test]
async fn a_reader_is_downloaded_once() {
    let (_folder, server) = files();
    let running = start(&server).await;
    let session = running.open_session("2025-03-26").await;
    let reply = running.send(in_session(&session, call(1, "stream", json!({})))).await.json().await;
    let text = reply["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    let path = path_of(text.strip_prefix("stream: ").unwrap());
    let head = running.send(Request::new("HEAD", &path)).await;
    assert_eq!((head.status, head.header("accept-ranges")), (200, Some("none")));
    let ranged = Request::new("GET", &path).header("range", "bytes=0-9");
    let mut first = running.send(ranged).await;
    assert_eq!((first.status, first.header("transfer-encoding")), (200, Some("chunked")));
    assert!(first.bytes().await == bytes(), "parts cannot be had");
    assert_eq!(running.send(Request::new("GET", &path)).await.status, 404);
}

/// C-53: a link is valid only for the principal it was created for.
#[tokio::test]
async fn a_link_belongs_to_its_principal() {
    let (_folder, server) = files();
    let tokens: mcp_flow_identity::StaticTokens =
        "ada:0123456789abcdef\nbob:fedcba9876543210".parse().unwrap();
    let running = start_with(&server, |bound| bound.verifier(std::sync::Arc::new(tokens))).await;
    let (ada, bob) = ("Bearer 0123456789abcdef", "Bearer fedcba9876543210");
    let request = tool("large").header("authorization", ada);
    let path = link(&running, request).await;
    for (who, status) in [(Some(ada), 200), (Some(bob), 404), (None, 401)] {
        let request = Request::new("GET", &path);
        let request = who.map_or(request.clone(), |who| request.header("authorization", who));
        assert_eq!(running.send(request).await.status, status);
    }
}

/// PAT-024: pending links are limited in number and time.
#[tokio::test]
async fn links_are_bounded_and_expire() {
    let (_folder, server) = files();
    let options = Options { max_downloads: 2, ..Options::default() };
    let running = start_with_options(&server, options).await;
    let mut paths = Vec::new();
    for _ in 0..3 {
        paths.push(link(&running, tool("large")).await);
    }
    for (path, status) in paths.iter().zip([404, 200, 200]) {
        assert_eq!(running.send(Request::new("HEAD", path)).await.status, status);
    }
    let options = Options { download_lifetime: Duration::ZERO, ..Options::default() };
    let running = start_with_options(&server, options).await;
    let path = link(&running, tool("large")).await;
    assert_eq!(running.send(Request::new("GET", &path)).await.status, 404);
}

/// Behind a proxy, links use the public URL.
#[tokio::test]
async fn links_use_the_public_url() {
    let (_folder, server) = files();
    let public_url = Some("https://flow.example/tools/".to_owned());
    let options = Options { public_url, ..Options::default() };
    let running = start_with_options(&server, options).await;
    let url = link_url(&running, tool("large")).await;
    assert!(url.starts_with("https://flow.example/tools/download/"), "{url}");
}

/// A file that shrinks during its download aborts the connection, so that a part is not mistaken for
/// the whole.
#[tokio::test]
async fn a_partial_download_is_an_error() {
    let (folder, server) = files();
    let running = start(&server).await;
    let path = link(&running, tool("large")).await;
    let file = std::fs::OpenOptions::new().write(true).open(folder.path().join("large.bin"));
    file.unwrap().set_len(10).unwrap();
    let mut connection = Connection::open(running.address).await;
    connection.write(&Request::new("GET", &path).bytes()).await;
    // The error may occur before the head is sent.
    if let Some(mut broken) = connection.try_response().await {
        assert_eq!(broken.header("content-length"), Some(&*SIZE.to_string()));
        assert!(broken.bytes().await.len() < SIZE);
    }
}

/// MCP-079: a client that does not read blocks only its own download, and costs bounded memory.
#[tokio::test]
async fn a_client_that_does_not_read_blocks_only_its_download() {
    let endless = Tool::builder("endless")
        .handler(async |_: Context, _: Value| Bulk::reader("endless", tokio::io::repeat(b'x')));
    let server = Server::builder("test", "1").tools(endless).build().unwrap();
    let running = start(&server).await;
    let path = link(&running, tool("endless")).await;
    let mut idle = Connection::open(running.address).await;
    idle.write(&Request::new("GET", &path).bytes()).await;
    let mut answer = idle.response().await;
    assert_eq!(answer.status, 200);
    assert!(answer.byte().await.is_some());
    assert_eq!(running.send(Request::new("GET", "/healthz")).await.status, 200);
}

fn files() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("large.bin"), bytes()).unwrap();
    let roots = Roots::directory(folder.path()).unwrap();
    let (large, opened) = (Tool::builder("large"), roots.clone());
    let large = large.blocking(move |_: &Context, _: Value| opened.open("large.bin"));
    let stream = Tool::builder("stream").handler(async |_: Context, _: Value| {
        Bulk::reader("stream", std::io::Cursor::new(bytes()))
    });
    let builder = Server::builder("test", "1").tools((large, stream)).resource_roots(roots);
    (folder, builder.build().unwrap())
}

fn bytes() -> Vec<u8> {
    (0..=250).cycle().take(SIZE).collect()
}

fn tool(name: &str) -> Request {
    stateless_post("tools/call", json!({"name": name, "arguments": {}}))
}

async fn link_url(running: &Running, request: Request) -> String {
    let mut answer: Response = running.send(request).await;
    let content = answer.json().await["result"]["content"][0].clone();
    assert_eq!(content["type"], "resource_link", "{content}");
    content["uri"].as_str().unwrap().to_owned()
}

async fn link(running: &Running, request: Request) -> String {
    path_of(&link_url(running, request).await)
}

fn path_of(url: &str) -> String {
    let path = url.strip_prefix("http://localhost").unwrap_or_else(|| panic!("{url}"));
    assert!(Path::new(path).starts_with("/download"), "{url}");
    path.to_owned()
}
