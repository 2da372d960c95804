//! Execution streams: results of any size beside their messages (WT-045 to WT-057, WT-061, WT-063,
//! WT-064, WT-066).

use std::time::Duration;

use crate::support::bulky::{SMALL, payload, server};
use crate::support::{Caller, Running, options, read, start, start_with};
use mcp_flow_proto::Encoding;
use mcp_flow_server::{Limits, Server};
use serde_json::json;

/// WT-050, WT-051, WT-054: one call has three streams and two calls stream at once; their data is
/// not mixed up.
#[tokio::test]
async fn streams_are_not_mixed_up() {
    let (_running, mut caller) = ready(&server(Limits::default())).await;
    caller.ask(42, "tools/call", json!({"name": "three", "arguments": {}})).await;
    caller.ask(43, "tools/call", json!({"name": "three", "arguments": {}})).await;
    for id in [42, 43] {
        let content = caller.reply_to(id).await["result"]["content"].clone();
        let meta = json!({"mcp-flow/download": {"name": "part", "size": payload(1).len()}});
        let item = |tag| json!({"type": "ref/stream", "streamTag": tag, "mimeType": "text/plain", "_meta": meta});
        assert_eq!(content, json!([item(1), item(2), item(3)]));
    }
    for (id, tag) in [(43, 3), (42, 1), (43, 1), (42, 2), (42, 3), (43, 2)] {
        let stream = caller.stream(id, tag).await;
        assert_eq!(read(stream).await, payload(tag));
    }
}

/// WT-045, WT-054: streams of one call that have to wait for each other have different tags.
#[tokio::test]
async fn tags_are_not_reused() {
    let one = options(|options| options.max_streams = 1);
    let limits = Limits { inline_bytes: 1, ..Limits::default() };
    let (_running, mut caller) = ready_with(&server(limits), one).await;
    for id in [7_u32, 8] {
        let reply = caller.call_tool(id, "small").await;
        let tags = reply["result"]["content"].as_array().unwrap().iter();
        let tags: Vec<_> = tags.map(|item| item["streamTag"].clone()).collect();
        assert_eq!(tags, [1, 2, 3]);
        for (tag, said) in (1..).zip(SMALL) {
            assert_eq!(read(caller.stream(id, tag).await).await, said.as_bytes());
        }
    }
}

/// WT-057: small results stay in the message.
#[tokio::test]
async fn small_results_stay_inline() {
    let limits = Limits { inline_bytes: 100, ..Limits::default() };
    let (_running, mut caller) = ready(&server(limits)).await;
    for (length, kind) in [(100, "text"), (101, "ref/stream")] {
        let params = json!({"name": "bytes", "arguments": {"length": length}});
        let reply = caller.call(length, "tools/call", params).await;
        assert_eq!(reply["result"]["content"][0]["type"], kind, "{length}");
    }
    assert_eq!(read(caller.stream(101, 1).await).await, vec![b'x'; 101]);
}

/// WT-051, C-59: a client of the base revision gets the seed's content item without additions.
#[tokio::test]
async fn streams_are_named_in_the_form_of_seed_001() {
    let running = start(&server(Limits::default()));
    let mut caller = running.connect().await;
    let hello = json!({"protocolVersion": "2024-11-05", "capabilities": {}});
    caller.call(1, "initialize", hello).await;
    let reply = caller.call_tool(2, "three").await;
    assert_eq!(
        reply["result"]["content"][0],
        json!({"type": "ref/stream", "streamTag": 1, "mimeType": "text/plain"})
    );
}

/// WT-049: if a file is truncated while it is streamed, the reason is reported and the stream is
/// reset, not finished.
#[tokio::test]
async fn a_truncated_file_is_reported() {
    let file = tempfile::NamedTempFile::new().unwrap();
    // More than fits into all buffers on the way.
    file.as_file().set_len(1 << 30).unwrap();
    let (_running, mut caller) = ready(&server(Limits::default())).await;
    let params = json!({"name": "file", "arguments": {"path": file.path()}});
    let reply = caller.call(7, "tools/call", params).await;
    let download = &reply["result"]["content"][0]["_meta"]["mcp-flow/download"];
    assert_eq!(download, &json!({"name": "file.bin", "size": 1 << 30}));
    let mut stream = caller.stream(7, 1).await;
    crate::support::within(stream.next()).await.unwrap().unwrap();
    file.as_file().set_len(0).unwrap();
    let ended = crate::support::within(async {
        loop {
            match stream.next().await {
                Ok(piece) => assert!(piece.is_some(), "a part looks like the whole"),
                Err(ended) => return ended.to_string(),
            }
        }
    });
    let ended = ended.await;
    assert!(ended.contains("truncated: it ended after"), "{ended}");
    let told = caller.notice("$/streamError").await;
    assert_eq!((&told["requestId"], &told["streamTag"]), (&json!(7), &json!(1)));
    assert!(told["error"].as_str().unwrap().contains("of 1073741824 bytes"), "{told}");
}

/// C-51: an id stays in use until the streams of its request have ended.
#[tokio::test]
async fn an_id_is_in_use_while_its_stream_is_open() {
    let (_running, mut caller) = ready(&server(Limits::default())).await;
    caller.call_tool(7, "endless").await;
    let stream = caller.stream(7, 1).await;
    // Sent without tracking; the client would otherwise drop the first stream.
    let ping = json!({"jsonrpc": "2.0", "id": 7, "method": "ping"});
    let ping = Encoding::Cbor.encode(&ping).unwrap();
    caller.client.send_untracked(&ping).await.unwrap();
    let refused = caller.reply_to(7).await["error"].clone();
    assert_eq!(
        (&refused["code"], &refused["data"]["name"]),
        (&json!(-32600), &json!("DUPLICATE_ID"))
    );
    drop(stream);
    let free = async {
        loop {
            caller.client.send_untracked(&ping).await.unwrap();
            if caller.reply_to(7).await.get("result").is_some() {
                return;
            }
        }
    };
    crate::support::within(free).await;
}

/// WT-047, C-60: a stream that names a request in flight, running or streaming, is not an
/// injection.
#[tokio::test]
async fn a_stream_for_a_request_in_flight_is_accepted() {
    let (_running, mut caller) = ready(&server(Limits::default())).await;
    caller.ask(60, "tools/call", json!({"name": "wait", "arguments": {}})).await;
    caller.call_tool(61, "endless").await;
    let _open = caller.stream(61, 1).await;
    let session = caller.client.session().clone();
    for request in [60_u8, 61] {
        let mut stream = session.open_uni().await.unwrap();
        stream.write_all(&[0, 0, 0, request, 0, 0, 0, 1]).await.unwrap();
        stream.write_all(&vec![b'x'; 4 << 20]).await.unwrap();
        stream.finish().unwrap();
        let read = crate::support::within(stream.stopped()).await.unwrap();
        assert_eq!(read, None, "{request}: it is read to its end");
    }
    let others = caller.settle().await;
    assert!(others.is_empty(), "nothing is reported: {others:?}");
}

/// `resources/read` uses streams the same way.
#[tokio::test]
async fn resources_are_sent_on_streams() {
    let (_running, mut caller) = ready(&server(Limits::default())).await;
    let reply = caller.call(5, "resources/read", json!({"uri": "x:/large"})).await;
    assert_eq!(
        reply["result"]["contents"],
        json!([{"uri": "x:/large", "type": "ref/stream", "streamTag": 1, "mimeType": "text/plain",
            "_meta": {"mcp-flow/download": {"name": "large", "size": payload(1).len()}}}])
    );
    assert_eq!(read(caller.stream(5, 1).await).await, payload(1));
}

/// WT-052, WT-053: an endless unread stream does not block messages.
#[tokio::test]
async fn unread_streams_do_not_block_messages() {
    let (_running, mut caller) = ready(&server(Limits::default())).await;
    for id in 10..14 {
        caller.call_tool(id, "endless").await;
    }
    let mut streams = Vec::new();
    for id in 10..14 {
        streams.push(caller.stream(id, 1).await);
    }
    for id in 100..150 {
        assert_eq!(caller.call(id, "ping", json!({})).await["result"], json!({}));
    }
    for stream in &mut streams {
        let mut length = 0;
        while length < 4 * 1024 * 1024 {
            length += crate::support::within(stream.next()).await.unwrap().unwrap().len();
        }
    }
}

/// WT-049: a source that fails or panics is reported, its stream never looks complete, and its
/// permit and its id are free again.
#[tokio::test]
async fn a_failing_source_is_reported() {
    let (_running, mut caller) = ready(&server(Limits::default())).await;
    for (panics, reason) in
        [(false, "the disk is on fire"), (true, "the source of the stream panicked")]
    {
        let params = json!({"name": "broken", "arguments": {"panics": panics}});
        caller.call(7, "tools/call", params).await;
        let mut stream = caller.stream(7, 1).await;
        while let Ok(piece) = crate::support::within(stream.next()).await {
            assert!(piece.is_some(), "a broken stream has no end");
        }
        let told = caller.notice("$/streamError").await;
        assert_eq!((&told["requestId"], &told["streamTag"]), (&json!(7), &json!(1)));
        assert!(told["error"].as_str().unwrap().contains(reason), "{told}");
    }
    assert_eq!(caller.call(8, "ping", json!({})).await["result"], json!({}));
}

/// WT-061, C-16: cancelling an answered call ends its streams.
#[tokio::test]
async fn cancelling_ends_streams() {
    let one = options(|options| options.max_streams = 1);
    let (_running, mut caller) = ready_with(&server(Limits::default()), one).await;
    caller.call_tool(7, "endless").await;
    let mut stream = caller.stream(7, 1).await;
    crate::support::within(stream.next()).await.unwrap();
    caller.notify("$/cancel", json!({"requestId": 7})).await;
    let cut_off = async { while stream.next().await.is_ok_and(|piece| piece.is_some()) {} };
    crate::support::within(cut_off).await;
    // The only permit is free again.
    caller.call_tool(8, "endless").await;
    caller.stream(8, 1).await;
}

/// A stream stopped by the client ends without a report.
#[tokio::test]
async fn a_dropped_stream_frees_its_permit() {
    let one = options(|options| options.max_streams = 1);
    let (_running, mut caller) = ready_with(&server(Limits::default()), one).await;
    for id in 7..10 {
        caller.call_tool(id, "endless").await;
        drop(caller.stream(u32::try_from(id).unwrap(), 1).await);
    }
    assert!(caller.settle().await.is_empty());
}

/// WT-045, C-02, C-16: at the limit some results wait, and the rest is rejected.
#[tokio::test]
async fn open_streams_are_limited() {
    let two = options(|options| (options.max_streams, options.max_waiting_streams) = (2, 1));
    let (_running, mut caller) = ready_with(&server(Limits::default()), two).await;
    caller.call_tool(1, "endless").await;
    caller.call_tool(2, "endless").await;
    let (first, _second) = (caller.stream(1, 1).await, caller.stream(2, 1).await);
    let call = |name: &str| json!({"name": name, "arguments": {}});
    caller.ask(3, "tools/call", call("endless")).await;
    caller.settle().await;
    let refused = caller.call(4, "tools/call", call("endless")).await["error"].clone();
    assert_eq!(
        (&refused["code"], &refused["data"]["name"]),
        (&json!(-32000), &json!("STREAM_LIMIT_EXCEEDED"))
    );
    assert_eq!(
        (&refused["data"]["limit"], &refused["data"]["open"], &refused["data"]["retryable"]),
        (&json!(2), &json!(2), &json!(true))
    );
    drop(first);
    assert_eq!(caller.reply_to(3).await["result"]["content"][0]["streamTag"], 1);
}

/// WT-045: waiting for a stream permit times out with an error.
#[tokio::test]
async fn waiting_for_a_stream_times_out() {
    let short = options(|options| {
        (options.max_streams, options.waiting_timeout) = (1, Duration::from_millis(200));
    });
    let (_running, mut caller) = ready_with(&server(Limits::default()), short).await;
    caller.call_tool(1, "endless").await;
    let first = caller.stream(1, 1).await;
    let refused = caller.call_tool(2, "endless").await["error"].clone();
    assert_eq!(refused["data"]["name"], "STREAM_LIMIT_EXCEEDED", "{refused}");
    drop(first);
    assert_eq!(caller.call_tool(3, "endless").await["result"]["content"][0]["streamTag"], 1);
}

/// C-13, WT-018: a request whose id is not a 32-bit number gets its result inline, or an error that
/// says why not.
#[tokio::test]
async fn ids_beyond_32_bits_have_no_streams() {
    let limits = Limits { result_bytes: 3 * 1024 * 1024, ..Limits::default() };
    let (_running, mut caller) = ready(&server(limits)).await;
    for id in [json!("seven"), json!(0), json!(-1), json!(4_294_967_296_u64), json!(1.5)] {
        let params = json!({"name": "bytes", "arguments": {"length": 2 * 1024 * 1024}});
        let reply = caller.call(id.clone(), "tools/call", params).await;
        assert_eq!(reply["result"]["content"][0]["type"], "text", "{id}");
        let params = json!({"name": "bytes", "arguments": {"length": 4 * 1024 * 1024}});
        let reply = caller.call(id.clone(), "tools/call", params).await;
        assert_eq!(reply["error"]["data"]["name"], "STREAM_ID_NOT_REPRESENTABLE", "{id}");
    }
}

/// WT-063, WT-064, WT-065: streams in progress at shutdown finish, and no new ones begin.
#[tokio::test]
async fn streams_finish_during_shutdown() {
    let (_running, mut caller) = ready(&server(Limits::default())).await;
    caller.call_tool(7, "three").await;
    let streams = [caller.stream(7, 1).await, caller.stream(7, 2).await, caller.stream(7, 3).await];
    caller.send(json!({"jsonrpc": "2.0", "method": "$/shutdown"})).await;
    let refused = caller.call_tool(8, "three").await;
    assert_eq!(refused["error"]["data"]["name"], "SHUTTING_DOWN");
    for stream in streams {
        let tag = stream.header().tag;
        assert_eq!(read(stream).await, payload(tag));
    }
    let end = caller.end().await;
    assert!(end.contains("code=0"), "{end}");
}

/// WT-066: an unread stream delays the shutdown no longer than the drain limit.
#[tokio::test]
async fn unread_streams_do_not_delay_shutdown() {
    let limits = Limits { drain_time: Duration::from_millis(200), ..Limits::default() };
    let (_running, mut caller) = ready(&server(limits)).await;
    caller.call_tool(7, "endless").await;
    let _unread = caller.stream(7, 1).await;
    caller.send(json!({"jsonrpc": "2.0", "method": "$/shutdown"})).await;
    let told = caller.notice("$/streamError").await;
    assert_eq!((&told["requestId"], &told["streamTag"]), (&json!(7), &json!(1)));
    caller.end().await;
}

/// WT-017, WT-047, WT-069: streams opened by a client are reset and reported, and a hundred
/// thousand of them do no harm.
#[tokio::test]
async fn injected_streams_are_rejected() {
    let (running, mut caller) = ready(&server(Limits::default())).await;
    let session = caller.client.session().clone();
    let mut stream = session.open_uni().await.unwrap();
    stream.write_all(b"\0\0\x03\xe7\0\0\0\x01payload").await.unwrap();
    let told = caller.notice("$/streamError").await;
    assert_eq!((&told["requestId"], &told["streamTag"]), (&json!(999), &json!(1)));
    assert_eq!(told["code"], -32002);
    assert!(told["error"].as_str().unwrap().starts_with("STREAM_INJECTION"), "{told}");
    assert!(crate::support::within(stream.stopped()).await.unwrap().is_some(), "it is stopped");

    let mut short = session.open_uni().await.unwrap();
    short.write_all(b"\0\0\x03\xe7\0").await.unwrap();
    short.finish().unwrap();
    let told = caller.notice("$/streamError").await;
    assert!(told["error"].as_str().unwrap().contains("header"), "{told}");

    let (mut second, _) = session.open_bi().await.unwrap();
    second.write_all(b"\0\0\0\x02{}").await.unwrap();
    let told = caller.notice("$/streamError").await;
    assert!(told["error"].as_str().unwrap().contains("one control stream"), "{told}");

    let mut other = running.connect().await;
    let flood = tokio::spawn(async move {
        for _ in 0..100_000 {
            let mut stream = session.open_uni().await.unwrap();
            let _ = stream.write_all(b"\0\0\x03\xe7\0\0\0\x01").await;
            let _ = stream.finish();
        }
    });
    assert_eq!(other.call(1, "ping", json!({})).await["result"], json!({}));
    crate::support::within(flood).await.unwrap();
    assert_eq!(caller.call(2, "ping", json!({})).await["result"], json!({}));
}

async fn ready(server: &Server) -> (Running, Caller) {
    begin(start(server)).await
}

async fn ready_with(
    server: &Server,
    change: impl FnOnce(mcp_flow_webtransport::Bound) -> mcp_flow_webtransport::Bound,
) -> (Running, Caller) {
    begin(start_with(server, change)).await
}

async fn begin(running: Running) -> (Running, Caller) {
    let mut caller = running.connect().await;
    caller.initialize(&[Encoding::Cbor]).await;
    (running, caller)
}
