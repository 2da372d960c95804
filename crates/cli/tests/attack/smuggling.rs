//! Request smuggling (INT-106).

use futures_util::future::join_all;

use crate::attack::raw_http::statuses;
use crate::attack::report::TableReport;
use crate::attack::target::Target;

/// INT-106: an ambiguous request is rejected, and the one hidden behind it is never processed.
#[tokio::test]
async fn ambiguous_requests_are_rejected() {
    let target = Target::open("[limits]\nhead_seconds = 1\nbody_seconds = 1\n", &[]).await;
    let mut report = TableReport::default();
    let rows: Vec<_> = heads().into_iter().chain(chunks()).collect();
    // Concurrently: the server closes a connection after one idle second.
    let tried = rows.iter().map(|(_, bytes, _)| statuses(&target, bytes));
    for ((name, bytes, expected), actual) in rows.iter().zip(join_all(tried).await) {
        let shown: String = String::from_utf8_lossy(bytes).escape_debug().take(120).collect();
        report.compare(format!("{name} {shown}"), actual, expected.clone());
    }
    report.finish(100);
    target.assert_recovered(64).await;
}

/// A name, the bytes, and the statuses of the responses.
type Row = (String, Vec<u8>, Vec<u16>);

/// The hidden request; processing it would return 404.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Invalid heads, and valid controls that get 200.
fn heads() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |name: &str, head: String, expected: &[u16]| {
        rows.push((name.to_owned(), head.into_bytes(), expected.to_vec()));
    };
    let post = "POST /healthz HTTP/1.1\r\nhost: localhost\r\n";
    for (length, status) in [
        ("0", 200),
        ("+0", 400),
        ("-1", 400),
        ("0x0", 400),
        ("0, 1", 400),
        ("0;0", 400),
        ("1e0", 400),
        ("", 400),
        ("zero", 400),
        ("99999999999999999999999", 400),
        ("\u{ff10}", 400),
    ] {
        add("length", format!("{post}content-length: {length}\r\n\r\n"), &[status]);
    }
    for second in ["1", "45", "+0", "x"] {
        let lengths = format!("content-length: 0\r\ncontent-length: {second}\r\n\r\n");
        add("two lengths", format!("{post}{lengths}{HIDDEN}"), &[400]);
    }
    for coding in [
        "chunked, chunked",
        "chunked,chunked",
        "gzip, chunked",
        "chunked, gzip",
        "identity",
        "identity, chunked",
        "chunked, identity",
        "xchunked",
        "chunkedx",
        "chunked;q=1",
        "\"chunked\"",
        "chunked,",
        ", chunked",
        "\u{b}chunked",
        "cow",
        "",
    ] {
        let body = format!("transfer-encoding: {coding}\r\n\r\n0\r\n\r\n{HIDDEN}");
        add("coding", format!("{post}{body}"), &[400]);
        let both = format!("content-length: 5\r\ntransfer-encoding: {coding}\r\n\r\n0\r\n\r\n");
        add("coding and length", format!("{post}{both}{HIDDEN}"), &[400]);
    }
    for (one, other) in [("chunked", "chunked"), ("chunked", "identity"), ("identity", "chunked")] {
        let codings = format!("transfer-encoding: {one}\r\ntransfer-encoding: {other}\r\n\r\n");
        add("two codings", format!("{post}{codings}0\r\n\r\n{HIDDEN}"), &[400]);
    }
    // A transfer coding overrides a length, and the connection ends with that request.
    for length in ["0", "5", "6", "100"] {
        let (coding, length) =
            ("transfer-encoding: chunked\r\n", format!("content-length: {length}\r\n"));
        for head in [format!("{length}{coding}"), format!("{coding}{length}")] {
            add("both", format!("{post}{head}\r\n0\r\n\r\n{HIDDEN}"), &[200]);
        }
    }
    let old = post.replace("1.1", "1.0");
    add("coding in HTTP/1.0", format!("{old}transfer-encoding: chunked\r\n\r\n0\r\n\r\n"), &[400]);
    for line in [
        "x: a\r\n b",
        "x: a\r\n\tb",
        "x: a\rb",
        "x: a\0b",
        "x\0: a",
        "x : a",
        "x\t: a",
        ": a",
        "x",
        "x y: a",
        "x\u{80}: a",
        "(x): a",
        "x: a\u{7f}",
        "host: localhost",
        "host: evil.example",
        "x: a\nhost: evil.example",
        "origin: http://localhost\r\norigin: http://evil.example",
        "mcp-session-id: a\r\nmcp-session-id: b",
        "mcp-protocol-version: 2026-07-28\r\nmcp-protocol-version: 2025-11-25",
        "content-type: application/json\r\ncontent-type: text/plain",
        "last-event-id: 1\r\nlast-event-id: 2",
    ] {
        let head = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{line}\r\n\r\n");
        add("header", head, &[400]);
    }
    for (line, expected) in [
        ("GET  /healthz HTTP/1.1", &[400][..]),
        ("GET /healthz  HTTP/1.1", &[400]),
        ("GET /healthz HTTP/1.2", &[400]),
        ("GET /healthz HTTP/2.0", &[400]),
        ("GET /healthz HTTP/0.9", &[400]),
        ("GET /healthz http/1.1", &[400]),
        ("GET /healthz", &[400]),
        ("GET\t/healthz HTTP/1.1", &[400]),
        ("GET /health z HTTP/1.1", &[400]),
        ("GET /healthz\0 HTTP/1.1", &[400]),
        ("GET healthz HTTP/1.1", &[400]),
        ("G\0T /healthz HTTP/1.1", &[400]),
        ("G(T /healthz HTTP/1.1", &[400]),
        (" GET /healthz HTTP/1.1", &[400]),
        ("PRI * HTTP/2.0", &[400]),
        ("GET http://evil.example/healthz HTTP/1.1", &[400]),
        ("GET http://localhost@evil.example/healthz HTTP/1.1", &[400]),
        ("CONNECT evil.example:443 HTTP/1.1", &[400]),
        ("GET * HTTP/1.1", &[404]),
        ("TRACE /nowhere HTTP/1.1", &[404]),
    ] {
        add("line", format!("{line}\r\nhost: localhost\r\n\r\n"), expected);
    }
    let begins = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n";
    add("no upgrade", format!("{begins}upgrade: h2c\r\nconnection: upgrade\r\n\r\n"), &[200]);
    add("no fold at the start", "GET /healthz HTTP/1.1\r\n host: localhost\r\n\r\n".into(), &[400]);
    add("a good one, and another", format!("{begins}\r\n{HIDDEN}"), &[200, 404]);
    rows
}

/// Invalid chunked bodies: neither they nor what follows them is processed.
fn chunks() -> Vec<Row> {
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                transfer-encoding: chunked\r\n\r\n";
    let rows = [
        "0x2\r\n{}\r\n0\r\n\r\n",
        "-2\r\n{}\r\n0\r\n\r\n",
        "+2\r\n{}\r\n0\r\n\r\n",
        "g\r\n{}\r\n0\r\n\r\n",
        "\r\n{}\r\n0\r\n\r\n",
        "2\n{}\n0\n\n",
        "2\r{}\r0\r\r",
        "2\r\n{}0\r\n\r\n",
        "2\r\n{}xx0\r\n\r\n",
        "1\r\n{}\r\n0\r\n\r\n",
        "10000000000000002\r\n{}\r\n0\r\n\r\n",
        "2;a=\n\r\n{}\r\n0\r\n\r\n",
    ];
    let row = |body: &str, status: u16| {
        ("chunks".to_owned(), format!("{head}{body}{HIDDEN}").into_bytes(), vec![status])
    };
    let mut rows: Vec<_> = rows.iter().map(|body| row(body, 400)).collect();
    // The server waits for the announced bytes, which swallow the hidden request.
    rows.push(row("ffffffffffffffff\r\n{}\r\n0\r\n\r\n", 408));
    rows
}
