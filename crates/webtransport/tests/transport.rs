//! MCP-032, MCP-033: the client suite over WebTransport, and the features only this transport has:
//! streams and datagrams (WT-050 to WT-056, WT-025 to WT-027).

use std::sync::Arc;
use std::time::Duration;

use crate::support::bulky::{self, payload};
use crate::support::{Running, start, start_with, within};
use futures_util::StreamExt;
use mcp_flow_client::transport::Connector;
use mcp_flow_client::{Client, ClientEvent, ErrorKind, Revision};
use mcp_flow_proto::Encoding;
use mcp_flow_proto::model::LogLevel;
use mcp_flow_server::datagram::{AudioFormat, NotSupported};
use mcp_flow_server::{Context, Limits, Server, Tool};
use mcp_flow_testkit_fixture::Fixture;
use mcp_flow_tls::Tls;
use mcp_flow_webtransport::bind;
use mcp_flow_webtransport::client::{ConnectSettings, Trust, WebTransport, received_audio, server};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;

/// Serves until the runtime of the test ends. Without datagrams everything arrives in order.
async fn reach(served: Server, encoding: Encoding) -> Arc<dyn Connector> {
    let running = start(&served);
    let settings = ConnectSettings { datagrams: false, ..running.settings() };
    let connector = server(&running.url, settings).encodings(&[encoding]);
    std::mem::forget(running);
    Arc::new(connector)
}

mod json {
    mcp_flow_testkit_scenarios::client_suite!(|served| super::reach(served, super::Encoding::Json));
}

mod cbor {
    mcp_flow_testkit_scenarios::client_suite!(handshake; |served| super::reach(served, super::Encoding::Cbor));
}

/// WT-036: the negotiated encoding is used; with JSON the newest revision is used too.
#[tokio::test]
async fn the_negotiated_encoding_is_used() {
    for (encoding, revision) in
        [(Encoding::Json, Revision::V2026_07_28), (Encoding::Cbor, Revision::V2025_11_25)]
    {
        let (_running, client) = connect(&Fixture::new().server, &[encoding]).await;
        assert_eq!(client.server().await.unwrap().revision, revision);
        assert_eq!(client.transport().await.unwrap().encoding(), encoding);
    }
}

/// WT-050, WT-054, WT-056: every stream that a result names can be opened once, in any order, and
/// is read at the reader's pace.
#[tokio::test]
async fn streams_are_opened_by_their_content_item() {
    for encoding in Encoding::ALL {
        let (_running, client) = connect(&bulky::server(Limits::default()), &[encoding]).await;
        let (first, second) = tokio::join!(
            client.call_tool("three", json!({})).raw(),
            client.call_tool("three", json!({})).raw()
        );
        let (first, second) = (first.unwrap(), second.unwrap());
        for (result, place) in [(&second, 2_u8), (&first, 0), (&second, 0), (&first, 2)] {
            let piece = &result["content"][usize::from(place)];
            let opened = client.open_content(piece).await.unwrap();
            assert_eq!(opened.mime_type.as_deref(), Some("text/plain"));
            let mut bytes = Vec::new();
            within(opened.into_reader().read_to_end(&mut bytes)).await.unwrap();
            assert!(bytes == payload(u32::from(place) + 1), "{encoding:?} {piece}");
        }
        let read = client.read_resource("x:/large").raw().await.unwrap();
        let opened = client.open_content(&read["contents"][0]).await.unwrap();
        let mut bytes = Vec::new();
        within(opened.into_reader().read_to_end(&mut bytes)).await.unwrap();
        assert!(bytes == payload(1));
    }
}

/// WT-049: a truncated stream is an error for its reader, with the reason, not an end of file.
#[tokio::test]
async fn a_truncated_stream_is_an_error() {
    let (_running, client) = connect(&bulky::server(Limits::default()), &[Encoding::Json]).await;
    let result = client.call_tool("broken", json!({})).raw().await.unwrap();
    let mut opened = client.open_content(&result["content"][0]).await.unwrap();
    let failed = within(async {
        loop {
            match opened.bytes.next().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => break error,
                None => panic!("it looks complete"),
            }
        }
    });
    let failed = failed.await.to_string();
    assert!(failed.contains("the disk is on fire"), "{failed}");
    assert!(within(opened.bytes.next()).await.is_none());
    client.ping().await.unwrap();
}

/// Dropping a stream stops it at the server and frees its permit.
#[tokio::test]
async fn dropping_a_stream_stops_it_at_the_server() {
    let (_running, client) = connect(&bulky::server(Limits::default()), &[Encoding::Json]).await;
    // More than may be open at once.
    for _ in 0..70 {
        let result = client.call_tool("endless", json!({})).raw().await.unwrap();
        let mut opened = client.open_content(&result["content"][0]).await.unwrap();
        assert!(within(opened.bytes.next()).await.unwrap().is_ok());
    }
}

/// WT-025, WT-027, C-45: progress and log messages sent as datagrams are delivered like any other.
#[tokio::test]
async fn datagrams_are_delivered_as_notifications() {
    for encoding in Encoding::ALL {
        let (_running, client) = connect(&chatty(), &[encoding]).await;
        let mut events = client.events();
        client.set_log_level(LogLevel::Info).await.unwrap();
        let mut call = client.call_tool("steps", json!({})).start();
        // The call continues once this progress has arrived.
        assert_eq!(within(call.next()).await.unwrap().progress, 1.0, "{encoding:?}");
        let logged = async {
            loop {
                if let Some(ClientEvent::Log { data, .. }) = events.next().await {
                    return data;
                }
            }
        };
        assert_eq!(within(logged).await, "half way");
        client.call_tool("go_on", json!({})).await.unwrap();
        assert_eq!(within(call.next()).await.unwrap().progress, 2.0);
        assert_eq!(within(call).await.unwrap().text(), "done");
    }
}

/// WT-026: audio has an API of its own, on this transport only.
#[tokio::test]
async fn audio_is_received() {
    let (_running, client) = connect(&chatty(), &[Encoding::Json]).await;
    let mut received_audio = received_audio(&client).await.unwrap();
    let call = tokio::spawn(client.call_tool("sound", json!({})).into_future());
    let first = within(received_audio.next()).await.unwrap();
    assert_eq!((first.sequence, first.timestamp, first.data.len()), (0, 0, 320));
    client.call_tool("go_on", json!({})).await.unwrap();
    within(call).await.unwrap().unwrap();
    let other = mcp_flow_stdio::client::in_process(&Fixture::new().server);
    let other = Client::builder().connect(other).await.unwrap();
    let refused = mcp_flow_webtransport::client::received_audio(&other).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Usage);
}

/// MCP-069, PAT-042: the client reconnects to a restarted server, trusts it by an issuer
/// certificate from a file, and repeats read-only requests.
#[tokio::test]
async fn the_client_reconnects_to_a_restarted_server() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let serve = |address: &str| {
        let tls = Tls::from_pem(&certificate, &key).unwrap();
        let bound = bind(address.parse().unwrap(), tls).unwrap();
        let port = bound.address().port();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = Fixture::new().server;
        let serving = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            bound.serve(&served, stopped).await;
        });
        (port, stop, serving)
    };
    let (port, stop, serving) = serve("127.0.0.1:0");
    let url = format!("https://localhost:{port}/mcp-flow");
    let connector = server(url, ConnectSettings::new(Trust::File(certificate.clone())));
    let client = Client::builder().connect(connector).await.unwrap();
    let mut events = client.events();
    client.ping().await.unwrap();
    stop.send(()).unwrap();
    within(serving).await.unwrap();
    let lost =
        async { while !matches!(events.next().await, Some(ClientEvent::Disconnected { .. })) {} };
    within(lost).await;
    let (_, _stop, _serving) = serve(&format!("127.0.0.1:{port}"));
    within(client.ping().into_future()).await.unwrap();
    let tools = client.tools().all().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "math.add"));
}

/// WT-068, MCP-070: a missing token and a wrong path are different kinds of errors.
#[tokio::test]
async fn rejections_are_distinguished() {
    let tokens: mcp_flow_identity::StaticTokens = "ada:0123456789abcdef".parse().unwrap();
    let verifier = std::sync::Arc::new(tokens);
    let running = start_with(&Fixture::new().server, |bound| bound.verifier(verifier));
    let token =
        |token: &str| ConnectSettings { token: Some(token.to_owned()), ..running.settings() };
    let elsewhere = running.url.replace("/mcp-flow", "/elsewhere");
    for (url, settings, part) in [
        (&running.url, running.settings(), "401"),
        (&running.url, token("0123456789abcdee"), "401"),
        (&elsewhere, token("0123456789abcdef"), "404"),
    ] {
        let error = Client::builder().connect(server(url, settings)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let admitted = server(&running.url, token("0123456789abcdef"));
    Client::builder().connect(admitted).await.unwrap().ping().await.unwrap();
}

/// WT-062: closing the client sends `$/shutdown`, and the server then closes the session.
#[tokio::test]
async fn closing_sends_shutdown() {
    let (running, client) = connect(&Fixture::new().server, &[Encoding::Cbor]).await;
    let transport = client.transport().await.unwrap();
    client.close().await;
    let session = transport.as_any().unwrap().downcast_ref::<WebTransport>().unwrap().client();
    let end = within(session.closed()).await.to_string();
    assert!(end.contains("the session has ended"), "{end}");
    running.stop().await;
}

async fn connect(served: &Server, encodings: &[Encoding]) -> (Running, Client) {
    let running = start(served);
    let connector = server(&running.url, running.settings()).encodings(encodings);
    let client = Client::builder().connect(connector).await.unwrap();
    (running, client)
}

/// A server whose tools send notifications, and wait until they have arrived.
fn chatty() -> Server {
    let go_on = Arc::new(tokio::sync::Notify::new());
    let waiting = go_on.clone();
    let steps = Tool::builder("steps").handler(move |context: Context, _: Value| {
        let waiting = waiting.clone();
        async move {
            context.progress(1.0, Some(2.0), None);
            context.log(LogLevel::Info, None, "half way");
            waiting.notified().await;
            context.progress(2.0, Some(2.0), None);
            "done"
        }
    });
    let waiting = go_on.clone();
    let sound = Tool::builder("sound").handler(move |context: Context, _: Value| {
        let waiting = waiting.clone();
        async move {
            let format = AudioFormat { codec: "audio/L16".into(), sample_rate: 8000, channels: 1 };
            context.audio(&format)?.send(Duration::ZERO, &[7; 320]);
            waiting.notified().await;
            Ok::<_, NotSupported>("played")
        }
    });
    let opens = go_on.clone();
    let go_on = Tool::builder("go_on").quick(move |_: &Context, _: Value| {
        opens.notify_one();
        "on"
    });
    Fixture::with(|builder| builder.tools(Vec::from([steps, sound, go_on].map(Result::unwrap))))
        .server
}
