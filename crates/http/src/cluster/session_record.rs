//! Record of an MCP session in the store: what another node needs to continue it.

use std::collections::BTreeMap;

use mcp_flow_proto::{Incoming, Message, RequestId, method};
use serde::{Deserialize, Serialize};

/// Record from which a node continues the transport session of another.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct SessionRecord {
    /// Name of the principal it belongs to.
    pub(crate) principal: String,
    /// Number of nodes that have had it before.
    pub(crate) generation: u64,
    /// The client's `initialize`, received again by the next node.
    initialize: String,
    is_initialized: bool,
    /// Last `logging/setLevel`.
    level: Option<String>,
    /// `resources/subscribe` by URI.
    subscriptions: BTreeMap<String, String>,
    /// Calls that are answered by event streams, by the number of the stream.
    pub(crate) open_calls: BTreeMap<u64, Vec<RequestId>>,
}

impl SessionRecord {
    /// Creates the record of a session that began with this message. None if it is too long to keep.
    pub(crate) fn new(principal: &str, initialize: &[u8]) -> Option<Self> {
        Some(Self {
            principal: principal.to_owned(),
            initialize: short(initialize)?,
            ..Self::default()
        })
    }

    /// Takes note of a message that sets the session up. Returns whether the record has changed.
    pub(crate) fn observe(&mut self, incoming: &Incoming<'_>, message: &[u8]) -> bool {
        match incoming {
            Incoming::Message(Message::Notification(note)) => {
                let is_initialized = note.method == method::INITIALIZED && !self.is_initialized;
                self.is_initialized |= is_initialized;
                is_initialized
            }
            Incoming::Message(Message::Request(request)) => match &*request.method {
                "logging/setLevel" => {
                    self.level = short(message);
                    true
                }
                "resources/subscribe" => match (uri(message), short(message)) {
                    (Some(uri), Some(text)) if self.subscriptions.len() < MAX_SUBSCRIPTIONS => {
                        self.subscriptions.insert(uri, text);
                        true
                    }
                    _ => false,
                },
                "resources/unsubscribe" => {
                    uri(message).is_some_and(|uri| self.subscriptions.remove(&uri).is_some())
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns the messages with which a connection of the same state begins.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &str> {
        let initialized = self.is_initialized.then_some(INITIALIZED);
        std::iter::once(&*self.initialize)
            .chain(initialized)
            .chain(self.level.as_deref())
            .chain(self.subscriptions.values().map(String::as_str))
    }
}

fn short(message: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(message).ok().filter(|text| text.len() <= MAX_MESSAGE);
    text.map(str::to_owned)
}

/// Returns the URI that a request names.
fn uri(message: &[u8]) -> Option<String> {
    let message: serde_json::Value = serde_json::from_slice(message).ok()?;
    Some(message["params"]["uri"].as_str()?.to_owned())
}

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Longest message that is kept.
const MAX_MESSAGE: usize = 16 * 1024;

/// Most subscriptions that are kept.
const MAX_SUBSCRIPTIONS: usize = 64;

#[cfg(test)]
mod tests {
    use super::SessionRecord;
    use mcp_flow_proto::{Encoding, Incoming};

    #[test]
    fn a_record_repeats_what_set_the_session_up() {
        let mut record = SessionRecord::new("ada", b"initialize").unwrap();
        let subscribe = |verb: &str, uri: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"resources/{verb}","params":{{"uri":"{uri}"}}}}"#
            )
        };
        for (message, is_changed) in [
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(), true),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(), false),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.to_owned(), false),
            (subscribe("subscribe", "a:/1"), true),
            (subscribe("subscribe", "a:/2"), true),
            (subscribe("unsubscribe", "a:/1"), true),
            (subscribe("unsubscribe", "a:/1"), false),
            (
                r#"{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{}}"#.to_owned(),
                true,
            ),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#.to_owned(), false),
        ] {
            let incoming = Incoming::decode(message.as_bytes(), Encoding::Json).unwrap();
            assert_eq!(record.observe(&incoming, message.as_bytes()), is_changed, "{message}");
        }
        let messages: Vec<_> = record.messages().collect();
        assert_eq!(messages.len(), 4, "{messages:?}");
        assert_eq!(messages[0], "initialize");
        assert!(messages[1].contains("initialized") && messages[2].contains("setLevel"));
        assert!(messages[3].contains("a:/2"), "{messages:?}");
        assert!(SessionRecord::new("ada", &vec![b' '; 1 << 20]).is_none());
    }
}
