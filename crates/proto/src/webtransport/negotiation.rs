//! What client and server agree on in `initialize`, beside the revision: how messages are written.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{TYPE, VERSION};
use crate::error::RpcError;
use crate::raw::{Encoding, Kind, Params, Raw};

/// What a client says of the transport, in the params of `initialize` (WT-029).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClientTransport {
    r#type: &'static str,
    version: &'static str,
    encodings: Vec<&'static str>,
}

impl ClientTransport {
    /// A client that understands these encodings, the one it likes best first.
    pub fn new(encodings: &[Encoding]) -> Self {
        let encodings = encodings.iter().map(|encoding| encoding.name()).collect();
        Self { r#type: TYPE, version: VERSION, encodings }
    }
}

/// What a server says of the transport, in the result of `initialize` (WT-030).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerTransport {
    /// Always `mcp-flow`.
    pub r#type: String,
    /// Always `0.1`.
    pub version: String,
    /// How every message after this one is written.
    pub encoding: Encoding,
    /// How many execution streams the server has open at once.
    pub max_concurrent_streams: u32,
    /// Whether datagrams are sent and understood.
    pub datagrams_supported: bool,
}

impl ServerTransport {
    /// What a server of this version says.
    pub fn new(encoding: Encoding, max_concurrent_streams: u32, datagrams_supported: bool) -> Self {
        let (r#type, version) = (TYPE.to_owned(), VERSION.to_owned());
        Self { r#type, version, encoding, max_concurrent_streams, datagrams_supported }
    }
}

/// Finds the encoding for a client by the params of its `initialize`: the first it names that is
/// known here, and JSON if it names none (WT-031, WT-032).
///
/// ```
/// use mcp_flow_proto::webtransport::agree;
/// use mcp_flow_proto::{Encoding, Params, Raw};
///
/// let params = r#"{"transport":{"type":"mcp-flow","encodings":["xml","cbor","json"]}}"#;
/// assert_eq!(agree(Params::new(Some(Raw::Json(params)))), Ok(Encoding::Cbor));
/// ```
pub fn agree(params: Params<'_>) -> Result<Encoding, RpcError> {
    let invalid = |details: &str| RpcError::invalid_params(details);
    let [transport] = params.members(["transport"]).map_err(|error| invalid(&error.to_string()))?;
    let Some(transport) = transport.filter(|raw| raw.kind() != Kind::Null) else {
        return Ok(Encoding::Json);
    };
    if transport.kind() != Kind::Object {
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
    let Some(encodings) = encodings.filter(|raw| raw.kind() != Kind::Null) else {
        return Ok(Encoding::Json);
    };
    let named = encodings.elements(MOST_ENCODINGS);
    let Ok(Some(named)) = named else {
        return Err(invalid("transport.encodings must be a short list of texts"));
    };
    let mut found = None;
    for name in named {
        let Some(name) = name.as_text() else {
            return Err(invalid("transport.encodings must be a list of texts"));
        };
        found = found.or_else(|| Encoding::from_name(&name));
    }
    found.ok_or_else(|| {
        let known = Encoding::ALL.map(Encoding::name);
        invalid("none of transport.encodings is known here").with("supported", json!(known))
    })
}

/// More than there will ever be.
const MOST_ENCODINGS: usize = 64;

#[cfg(test)]
mod tests {
    use super::{ClientTransport, ServerTransport, agree};
    use crate::raw::{Encoding, Params, Raw};
    use serde_json::{Value, json};

    /// WT-031, WT-032, WT-038, WT-039: the client's first choice that is known, or why not.
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
            let agreed = agree(Params::new(Some(Raw::Json(&params))));
            assert_eq!(agreed.map_err(|error| error.code()), expected, "{params}");
        }
        assert_eq!(agree(Params::new(None)), Ok(Encoding::Json));
    }

    /// WT-029, WT-030: all members, as the seed's schema has them.
    #[test]
    fn both_sides_say_everything() {
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
