//! Signed messages: accepted unaltered, refused otherwise (MCP-073).

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use mcp_flow_client::transport::{
    Connector, ContentStream, Inbox, Outgoing, OutgoingKind, Transport, TransportError,
};
use mcp_flow_client::{Client, Error, Revision, RevisionPolicy};
use mcp_flow_proto::{Encoding, method};
use mcp_flow_server::seal::{Key, KeyRing};
use mcp_flow_server::{Context, Signing, Tool};
use serde_json::{Map, Value, json};

use super::Reach;
use mcp_flow_testkit_fixture::Fixture;

fn ring(byte: u8) -> KeyRing {
    KeyRing::new(Key::from_bytes([byte; 32]))
}

/// The fixture with these keys, if any.
fn server(keys: Option<&KeyRing>) -> Fixture {
    Fixture::with(|builder| match keys {
        Some(ring) => builder.signing(Signing::new(ring)),
        None => builder,
    })
}

async fn connect(
    connector: Arc<dyn Connector>,
    revision: Revision,
    keys: Option<&KeyRing>,
) -> Result<Client, Error> {
    let builder = Client::builder().with(|options| {
        options.revision = RevisionPolicy::Only(revision);
        options.signing = keys.map(mcp_flow_client::Signing::new);
    });
    builder.connect_by(connector).await
}

/// MCP-073: with a key at both ends everything works as without, in both directions, and keys can
/// be rotated.
pub(crate) async fn signed_messages_are_accepted(reach: &Reach) {
    for revision in Revision::ALL {
        let old = ring(1);
        let signing = Signing::new(&old);
        let fixture = Fixture::with(|builder| builder.signing(signing.clone()));
        let mut both = ring(1);
        both.rotate(Key::from_bytes([2; 32]));
        let connector = reach(fixture.server.clone()).await;
        let client = connect(connector, revision, Some(&old)).await.unwrap();
        let sums = (0..20).map(|number| {
            let call = client.call_tool("math.add", json!({"a": number, "b": 1}));
            async move { (number, call.await.unwrap().text()) }
        });
        for (number, sum) in futures_util::future::join_all(sums).await {
            assert_eq!(sum, (number + 1).to_string(), "{revision}");
        }
        assert_eq!(client.call_tool("report", json!({})).await.unwrap().text(), "reported");
        // An error is signed as well.
        let error = client.request("nothing/there", json!({})).await.unwrap_err();
        assert!(matches!(&error, Error::Server(error) if error.code == -32601), "{error:?}");
        client.close().await;
        // The client first learns the new key, then the server signs with it.
        let connector = reach(fixture.server.clone()).await;
        let client = connect(connector, revision, Some(&both)).await;
        assert!(client.is_err(), "the server does not know the new key yet");
        signing.replace(&both);
        let connector = reach(fixture.server.clone()).await;
        let client = connect(connector, revision, Some(&both)).await.unwrap();
        client.ping().await.unwrap();
        client.close().await;
    }
}

/// MCP-073: a message without a signature, or with another key, is refused; and a client that signs
/// accepts no unsigned message.
pub(crate) async fn unsigned_messages_are_refused(reach: &Reach) {
    for revision in [Revision::V2024_11_05, Revision::V2025_11_25, Revision::V2026_07_28] {
        let connector = reach(server(Some(&ring(1))).server).await;
        let error = connect(connector, revision, None).await.unwrap_err();
        let Error::Server(refusal) = &error else { panic!("{revision}: {error:?}") };
        assert_eq!(refusal.name(), Some("SIGNATURE_REFUSED"), "{error}");
        assert!(error.to_string().contains("--signing-key-file"), "{error}");
        for (at_server, why) in [(Some(ring(1)), "same key"), (None, "not signed")] {
            let connector = reach(server(at_server.as_ref()).server).await;
            let error = connect(connector, revision, Some(&ring(2))).await.unwrap_err();
            let Error::Connect { source: TransportError::InvalidSignature(what), .. } = &error
            else {
                panic!("{revision}: {error:?}")
            };
            assert!(what.contains(why), "{what}");
        }
    }
}

/// MCP-073: an altered message is refused, and a replayed one too.
pub(crate) async fn tampered_messages_are_refused(reach: &Reach) {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        for (touch, expected) in [(Manipulation::Change, 0), (Manipulation::Repeat, 1)] {
            let calls = Arc::new(AtomicUsize::new(0));
            let counted = calls.clone();
            let count = Tool::builder("count").quick(move |_: &Context, _: Value| {
                counted.fetch_add(1, Ordering::SeqCst);
                "counted"
            });
            let fixture = Fixture::with(|builder| {
                builder.signing(Signing::new(&ring(1))).tools(count.expect("a good tool"))
            });
            let connector = reach(fixture.server.clone()).await;
            let between = Arc::new(Interceptor { connector, touch });
            let client = connect(between, revision, Some(&ring(1))).await.unwrap();
            let called = client.call_tool("count", json!({"a": 41})).await;
            if client.transport().await.is_ok_and(|transport| transport.signs()) {
                // It signs what it carries itself, below the interceptor.
                assert!(called.is_ok(), "{called:?}");
                continue;
            }
            if touch == Manipulation::Change {
                let error = called.unwrap_err();
                let untrusted = matches!(&error, Error::Connect { source, .. } | Error::Lost { source, .. }
                    if matches!(source, TransportError::InvalidSignature(_)));
                assert!(
                    untrusted && error.to_string().contains("modified"),
                    "{revision}: {error:?}"
                );
            }
            client.close().await;
            assert_eq!(calls.load(Ordering::SeqCst), expected, "{revision} {touch:?}");
        }
    }
}

/// Manipulation of tool calls in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manipulation {
    Change,
    Repeat,
}

/// Interceptor between a client and its transport.
struct Interceptor {
    connector: Arc<dyn Connector>,
    touch: Manipulation,
}

impl Connector for Interceptor {
    fn target(&self) -> &str {
        self.connector.target()
    }

    fn connect(&self, inbox: Inbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        Box::pin(async move {
            let transport = self.connector.connect(inbox).await?;
            Ok(Arc::new(Touched { transport, touch: self.touch }) as Arc<dyn Transport>)
        })
    }
}

struct Touched {
    transport: Arc<dyn Transport>,
    touch: Manipulation,
}

impl Transport for Touched {
    fn name(&self) -> &'static str {
        self.transport.name()
    }

    fn encoding(&self) -> Encoding {
        self.transport.encoding()
    }

    fn send(&self, message: Outgoing) {
        let is_call = matches!(&message.kind, OutgoingKind::Request { method, .. }
            if method == method::TOOLS_CALL);
        if !is_call || self.transport.signs() {
            return self.transport.send(message);
        }
        match self.touch {
            Manipulation::Change => {
                let text = String::from_utf8(message.frame).expect("messages are UTF-8 here");
                let frame = text.replace("\"a\":41", "\"a\":42").into_bytes();
                self.transport.send(Outgoing { frame, ..message });
            }
            Manipulation::Repeat => {
                self.transport.send(message.clone());
                self.transport.send(message);
            }
        }
    }

    fn cancel(&self, request: i64) -> bool {
        self.transport.cancel(request)
    }

    fn negotiated(&self, revision: Revision) {
        self.transport.negotiated(revision);
    }

    fn initialize_params(&self) -> Map<String, Value> {
        self.transport.initialize_params()
    }

    fn needs_initialize(&self) -> bool {
        self.transport.needs_initialize()
    }

    fn needs_headers(&self) -> bool {
        self.transport.needs_headers()
    }

    fn open(
        &self,
        content: &Value,
    ) -> Option<BoxFuture<'_, Result<ContentStream, TransportError>>> {
        self.transport.open(content)
    }

    fn signs(&self) -> bool {
        self.transport.signs()
    }

    fn as_any(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.transport.as_any()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.transport.close()
    }
}
