//! Handshake (`initialize`) and discovery (`server/discover`).

use std::fmt::Display;

use serde::Serialize;
use serde_json::Value;

use super::{ClientCapabilities, Implementation, Meta, ServerCapabilities};
use crate::decode_error::DecodeError;
use crate::raw::{Params, Raw, ValueKind};
use crate::revision::Revision;

/// The params of `initialize`.
#[derive(Clone, Debug, PartialEq)]
pub struct InitializeParams {
    /// The requested version or versions.
    pub protocol_version: RequestedVersion,
    /// Capabilities of the client, if declared.
    pub capabilities: Option<ClientCapabilities>,
    /// Name and version of the client, if declared.
    pub client_info: Option<Implementation>,
}

/// The protocol version a client requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedVersion {
    /// One version, as in MCP.
    One(String),
    /// Several versions, as seed 003 can be read (C-37).
    Several(Vec<String>),
}

impl RequestedVersion {
    /// Returns the version as it was sent.
    pub fn to_value(&self) -> Value {
        match self {
            Self::One(version) => Value::from(version.as_str()),
            Self::Several(versions) => Value::from(versions.clone()),
        }
    }
}

impl InitializeParams {
    /// Reads the params. The error is a sentence naming the invalid member.
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
    let version = version.filter(|raw| raw.kind() != ValueKind::Null);
    let Some(version) = version else { return Err("protocolVersion is required".to_owned()) };
    match version.kind() {
        ValueKind::String => version.decode().map(RequestedVersion::One),
        ValueKind::Array => version.decode().map(RequestedVersion::Several),
        _ => return Err("protocolVersion must be a string".to_owned()),
    }
    .map_err(|_| "protocolVersion must be a string".to_owned())
}

/// Reads an optional member that must be an object.
pub(super) fn optional<'a, T>(
    name: impl Display,
    raw: Option<Raw<'a>>,
    read: impl FnOnce(Raw<'a>) -> Result<T, DecodeError>,
) -> Result<Option<T>, String> {
    match raw.map(|raw| (raw.kind(), raw)) {
        None | Some((ValueKind::Null, _)) => Ok(None),
        Some((ValueKind::Object, raw)) => {
            read(raw).map(Some).map_err(|error| format!("{name} is malformed: {error}"))
        }
        Some(_) => Err(format!("{name} is malformed: it must be an object")),
    }
}

/// The result of `initialize`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// The negotiated version.
    pub protocol_version: Revision,
    /// Capabilities of the server.
    pub capabilities: ServerCapabilities,
    /// Name and version of the server.
    pub server_info: Implementation,
    /// Instructions for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Options negotiated by the transport, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<Value>,
}

/// The result of `server/discover`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiscoverResult {
    /// Always `complete`.
    pub result_type: &'static str,
    /// The supported versions.
    pub supported_versions: Vec<Revision>,
    /// Capabilities of the server.
    pub capabilities: ServerCapabilities,
    /// Instructions for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Cache lifetime in milliseconds.
    pub ttl_ms: u64,
    /// Cache scope.
    pub cache_scope: &'static str,
    /// `_meta` of the result, which identifies the server.
    #[serde(rename = "_meta")]
    pub meta: Meta,
}

#[cfg(test)]
mod tests {
    use super::{InitializeParams, RequestedVersion};
    use crate::raw::{Params, Raw};

    #[test]
    fn errors_name_the_invalid_member() {
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

    /// C-22, C-23, C-37: only the version is required, and unknown members are ignored.
    #[test]
    fn only_the_version_is_required() {
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
