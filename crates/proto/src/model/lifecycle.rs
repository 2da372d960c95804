//! Opening a connection, and asking a server what it is.

use std::fmt::Display;

use serde::Serialize;
use serde_json::Value;

use super::{ClientCapabilities, Implementation, Meta, ServerCapabilities};
use crate::raw::{DecodeError, Kind, Params, Raw};
use crate::revision::Revision;

/// What a client opens with.
#[derive(Clone, Debug, PartialEq)]
pub struct InitializeParams {
    /// The version or versions it asks for.
    pub protocol_version: RequestedVersion,
    /// What it can do; `None` if it did not say.
    pub capabilities: Option<ClientCapabilities>,
    /// Who it is, if it said.
    pub client_info: Option<Implementation>,
}

/// The protocol version a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedVersion {
    /// One version, as the official text has it.
    One(String),
    /// Several, as seed 003 can be read (C-37).
    Several(Vec<String>),
}

impl RequestedVersion {
    /// The version as it was sent.
    pub fn to_value(&self) -> Value {
        match self {
            Self::One(version) => Value::from(version.as_str()),
            Self::Several(versions) => Value::from(versions.clone()),
        }
    }
}

impl InitializeParams {
    /// Reads the params; the error is a sentence naming the member at fault.
    pub fn from_params(params: Params<'_>) -> Result<Self, String> {
        let [version, capabilities, info] = params
            .members(["protocolVersion", "capabilities", "clientInfo"])
            .map_err(|error| error.to_string())?;
        Ok(Self {
            protocol_version: requested_version(version)?,
            capabilities: optional("capabilities", capabilities, ClientCapabilities::from_raw)?,
            client_info: optional("clientInfo", info, Raw::decode)?,
        })
    }
}

fn requested_version(version: Option<Raw<'_>>) -> Result<RequestedVersion, String> {
    let version = version.filter(|raw| raw.kind() != Kind::Null);
    let Some(version) = version else { return Err("protocolVersion is required".to_owned()) };
    match version.kind() {
        Kind::String => version.decode().map(RequestedVersion::One),
        Kind::Array => version.decode().map(RequestedVersion::Several),
        _ => return Err("protocolVersion must be a string".to_owned()),
    }
    .map_err(|_| "protocolVersion must be a string".to_owned())
}

/// Reads a member that is an object if it is there at all.
pub(super) fn optional<'a, T>(
    name: impl Display,
    raw: Option<Raw<'a>>,
    read: impl FnOnce(Raw<'a>) -> Result<T, DecodeError>,
) -> Result<Option<T>, String> {
    match raw.map(|raw| (raw.kind(), raw)) {
        None | Some((Kind::Null, _)) => Ok(None),
        Some((Kind::Object, raw)) => {
            read(raw).map(Some).map_err(|error| format!("{name} is malformed: {error}"))
        }
        Some(_) => Err(format!("{name} is malformed: it must be an object")),
    }
}

/// What a server opens with.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// The version this connection speaks from now on.
    pub protocol_version: Revision,
    /// What the server can do.
    pub capabilities: ServerCapabilities,
    /// Who it is.
    pub server_info: Implementation,
    /// How a model should use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// What the transport has agreed on, where one has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<Value>,
}

/// What a server says of itself without a handshake.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiscoverResult {
    /// Always `complete`.
    pub result_type: &'static str,
    /// The versions it speaks.
    pub supported_versions: Vec<Revision>,
    /// What it can do.
    pub capabilities: ServerCapabilities,
    /// How a model should use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// How long this may be kept, in milliseconds.
    pub ttl_ms: u64,
    /// Who may share it.
    pub cache_scope: &'static str,
    /// Who it is.
    #[serde(rename = "_meta")]
    pub meta: Meta,
}

#[cfg(test)]
mod tests {
    use super::{InitializeParams, RequestedVersion};
    use crate::raw::{Params, Raw};

    #[test]
    fn a_fault_names_its_member() {
        for (text, details) in [
            ("{}", "protocolVersion is required"),
            (r#"{"protocolVersion":null}"#, "protocolVersion is required"),
            (r#"{"protocolVersion":7}"#, "protocolVersion must be a string"),
            (r#"{"protocolVersion":[7]}"#, "protocolVersion must be a string"),
            (r#"{"protocolVersion":"x","capabilities":7}"#, "capabilities is malformed"),
            (r#"{"protocolVersion":"x","capabilities":[]}"#, "capabilities is malformed"),
            (r#"{"protocolVersion":"x","clientInfo":["me","1"]}"#, "clientInfo is malformed"),
            (r#"{"protocolVersion":"x","clientInfo":"me"}"#, "clientInfo is malformed"),
            (r#"{"protocolVersion":"x","clientInfo":{"name":"me"}}"#, "clientInfo is malformed"),
        ] {
            let error = InitializeParams::from_params(Params::new(Some(Raw::Json(text))));
            assert!(error.clone().unwrap_err().starts_with(details), "{text}: {error:?}");
        }
    }

    /// C-22, C-23, C-37: only the version is needed, unknown members are tolerated.
    #[test]
    fn only_the_version_is_needed() {
        let read =
            |text| InitializeParams::from_params(Params::new(Some(Raw::Json(text)))).unwrap();
        let params = read(r#"{"protocolVersion":"1.0.0","capabilities":{"tools":{}},"x":1}"#);
        assert_eq!(params.protocol_version, RequestedVersion::One("1.0.0".into()));
        assert_eq!(params.client_info, None);
        let params = read(r#"{"protocolVersion":["a","b"]}"#);
        assert_eq!(
            params.protocol_version,
            RequestedVersion::Several(vec!["a".into(), "b".into()])
        );
    }
}
