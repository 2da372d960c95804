//! Negotiation of the encoding in `initialize`.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{TYPE, VERSION};
use crate::error::RpcError;
use crate::raw::{Encoding, Params, Raw, ValueKind};

/// The client's transport options in the params of `initialize` (WT-029).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClientTransport {
    r#type: &'static str,
    version: &'static str,
    encodings: Vec<&'static str>,
}

impl ClientTransport {
    /// Offers these encodings in order of preference.
    pub fn new(encodings: &[Encoding]) -> Self {
        let encodings = encodings.iter().map(|encoding| encoding.name()).collect();
        Self { r#type: TYPE, version: VERSION, encodings }
    }
}

/// The server's transport options in the result of `initialize` (WT-030).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerTransport {
    /// Always `mcp-flow`.
    pub r#type: String,
    /// Always `0.1`.
    pub version: String,
    /// The encoding of all messages after this one.
    pub encoding: Encoding,
    /// Maximum number of execution streams the server opens at once.
    pub max_concurrent_streams: u32,
    /// Datagrams are sent and accepted.
    pub datagrams_supported: bool,
}

impl ServerTransport {
    /// Creates the options of this version.
    pub fn new(encoding: Encoding, max_concurrent_streams: u32, datagrams_supported: bool) -> Self {
        let (r#type, version) = (TYPE.to_owned(), VERSION.to_owned());
        Self { r#type, version, encoding, max_concurrent_streams, datagrams_supported }
    }
}

/// Selects the encoding for a client from the params of its `initialize`: the first supported one
/// it names, or JSON if it names none (WT-031, WT-032).
///
/// ```
/// use mcp_flow_proto::webtransport::negotiate_encoding;
/// use mcp_flow_proto::{Encoding, Params, Raw};
///
/// let params = r#"{"transport":{"type":"mcp-flow","encodings":["xml","cbor","json"]}}"#;
/// assert_eq!(negotiate_encoding(Params::new(Some(Raw::Json(params)))), Ok(Encoding::Cbor));
/// ```
pub fn negotiate_encoding(params: Params<'_>) -> Result<Encoding, RpcError> {
    let invalid = |details: &str| RpcError::invalid_params(details);
    let [transport] = params.members(["transport"]).map_err(|error| invalid(&error.to_string()))?;
    let Some(transport) = transport.filter(|raw| raw.kind() != ValueKind::Null) else {
        return Ok(Encoding::Json);
    };
    if transport.kind() != ValueKind::Object {
        return Err(invalid("transport must be an object"));
    }
    let [kind, encodings] = transport
        .members(["type", "encodings"])
        .map_err(|error| invalid(&format!("transport is malformed: {error}")))?;
    match kind.and_then(Raw::as_text) {
        Some(kind) if kind == TYPE => {}
        _ => {
            let error = RpcError::invalid_request("transport.type must be \"mcp-flow\" here");
            return Err(error.with("supported", json!([TYPE])));
        }
    }
    let Some(encodings) = encodings.filter(|raw| raw.kind() != ValueKind::Null) else {
        return Ok(Encoding::Json);
    };
    let named = encodings.elements(MAX_ENCODINGS);
    let Ok(Some(named)) = named else {
        return Err(invalid("transport.encodings must be a list of at most 64 strings"));
    };
    let mut found = None;
    for name in named {
        let Some(name) = name.as_text() else {
            return Err(invalid("transport.encodings must be a list of strings"));
        };
        found = found.or_else(|| Encoding::from_name(&name));
    }
    found.ok_or_else(|| {
        let known = Encoding::ALL.map(Encoding::name);
        invalid("none of transport.encodings is supported").with("supported", json!(known))
    })
}

/// Limit on the number of encodings read from the client.
const MAX_ENCODINGS: usize = 64;

#[cfg(test)]
mod tests {
    use super::{ClientTransport, ServerTransport, negotiate_encoding};
    use crate::raw::{Encoding, Params, Raw};
    use serde_json::{Value, json};

    /// WT-031, WT-032, WT-038, WT-039: the client's first supported encoding is chosen, or the
    /// error says why not.
    #[test]
    fn the_first_known_encoding_is_chosen() {
        let transport = |encodings: Value| json!({"type": "mcp-flow", "encodings": encodings});
        let (json_, cbor) = (Ok(Encoding::Json), Ok(Encoding::Cbor));
        for (offered, expected) in [
            (json!(null), json_),
            (json!({"type": "mcp-flow"}), json_),
            (json!({"type": "mcp-flow", "version": "9.9"}), json_),
            (transport(json!(null)), json_),
            (transport(json!(["cbor", "json"])), cbor),
            (transport(json!(["json", "cbor"])), json_),
            (transport(json!(["xml", "cbor"])), cbor),
            (transport(json!(["xml"])), Err(-32602)),
            (transport(json!([])), Err(-32602)),
            (transport(json!(["cbor", 7])), Err(-32602)),
            (transport(json!("cbor")), Err(-32602)),
            (transport(json!(vec!["cbor"; 65])), Err(-32602)),
            (json!([]), Err(-32602)),
            (json!({"type": "other"}), Err(-32600)),
            (json!({"type": 7}), Err(-32600)),
            (json!({"encodings": ["json"]}), Err(-32600)),
        ] {
            let params = json!({"transport": offered}).to_string();
            let agreed = negotiate_encoding(Params::new(Some(Raw::Json(&params))));
            assert_eq!(agreed.map_err(|error| error.code()), expected, "{params}");
        }
        assert_eq!(negotiate_encoding(Params::new(None)), Ok(Encoding::Json));
    }

    /// WT-029, WT-030: both sides send all members of the seed's schema.
    #[test]
    fn both_sides_send_all_members() {
        let client = ClientTransport::new(&[Encoding::Cbor, Encoding::Json]);
        assert_eq!(
            json!(client),
            json!({"type": "mcp-flow", "version": "0.1", "encodings": ["cbor", "json"]})
        );
        let server = json!(ServerTransport::new(Encoding::Cbor, 32, true));
        assert_eq!(
            server,
            json!({"type": "mcp-flow", "version": "0.1", "encoding": "cbor",
                "maxConcurrentStreams": 32, "datagramsSupported": true})
        );
        let read: ServerTransport = serde_json::from_value(server).unwrap();
        assert_eq!(read.encoding, Encoding::Cbor);
    }
}
