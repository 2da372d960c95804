//! `_meta`: metadata of params and results.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::lifecycle::optional;
use super::{ClientCapabilities, Implementation, LogLevel, TraceContext, UnknownLevel};
use crate::id::RequestId;
use crate::raw::{Params, Raw, ValueKind};
use crate::revision::Revision;

/// The members of `_meta`.
pub type Meta = Map<String, Value>;

/// The members of a request's `_meta` that the server uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestMeta {
    /// Token for progress notifications about this request.
    pub progress_token: Option<RequestId>,
    /// Protocol version of the request. Its presence makes the request stateless.
    pub protocol_version: Option<String>,
    /// Name and version of the client.
    pub client_info: Option<Implementation>,
    /// Capabilities of the client.
    pub client_capabilities: Option<ClientCapabilities>,
    /// Minimum level of log messages wanted for this request.
    pub log_level: Option<LogLevel>,
    /// The trace the request belongs to.
    pub trace: Option<TraceContext>,
    /// Members that the protocol does not define. Not read by [`from_params`](Self::from_params).
    pub others: Meta,
}

impl RequestMeta {
    /// Reads the members of `_meta` that the protocol does not define, for a server that forwards the
    /// request: those of one hop are left out.
    pub fn others(params: Params<'_>) -> Meta {
        let meta = params.common().ok().and_then(|[meta, ..]| meta);
        let others: Option<OtherMembers> = meta.and_then(|meta| meta.decode().ok());
        others.map(|OtherMembers(members)| members).unwrap_or_default()
    }

    /// Reads `_meta` from params.
    ///
    /// Boxed, because most requests have none. The error names the malformed member.
    pub fn from_params(params: Params<'_>) -> Result<Option<Box<Self>>, String> {
        let [meta, ..] = params.common().map_err(|error| error.to_string())?;
        match meta {
            Some(raw) if raw.kind() == ValueKind::Object => {
                Self::from_raw(raw).map(|meta| Some(Box::new(meta)))
            }
            Some(raw) if raw.kind() != ValueKind::Null => Err("_meta must be an object".to_owned()),
            _ => Ok(None),
        }
    }

    fn from_raw(raw: Raw<'_>) -> Result<Self, String> {
        let [token, version, info, capabilities, level, parent, state, baggage] = raw
            .members([
                "progressToken",
                "io.modelcontextprotocol/protocolVersion",
                "io.modelcontextprotocol/clientInfo",
                "io.modelcontextprotocol/clientCapabilities",
                "io.modelcontextprotocol/logLevel",
                "traceparent",
                "tracestate",
                "baggage",
            ])
            .map_err(|error| error.to_string())?;
        let progress_token = match token.filter(|raw| raw.kind() != ValueKind::Null) {
            Some(token) => Some(RequestId::from_raw(token).ok_or_else(|| {
                "_meta.progressToken must be a string or a number of at most 1024 bytes".to_owned()
            })?),
            None => None,
        };
        let protocol_version = match version.filter(|raw| raw.kind() != ValueKind::Null) {
            Some(version) => Some(
                version
                    .as_text()
                    .map(String::from)
                    .ok_or_else(|| format!("{} must be a string", MetaKey("protocolVersion")))?,
            ),
            None => None,
        };
        // The other members may have another meaning in an unknown version.
        let known =
            protocol_version.as_deref().is_none_or(|name| Revision::from_name(name).is_some());
        if !known {
            return Ok(Self { progress_token, protocol_version, ..Self::default() });
        }
        let log_level =
            match level.filter(|raw| raw.kind() != ValueKind::Null) {
                Some(level) => Some(level.decode().map_err(|_| {
                    format!("{} is malformed: {UnknownLevel}", MetaKey("logLevel"))
                })?),
                None => None,
            };
        Ok(Self {
            progress_token,
            protocol_version,
            client_info: optional(MetaKey("clientInfo"), info, Raw::decode)?,
            client_capabilities: optional(
                MetaKey("clientCapabilities"),
                capabilities,
                ClientCapabilities::from_raw,
            )?,
            log_level,
            trace: TraceContext::from_raw(parent, state, baggage),
            others: Meta::new(),
        })
    }
}

/// Members of `_meta` that the protocol does not define.
struct OtherMembers(Meta);

impl<'de> Deserialize<'de> for OtherMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = OtherMembers;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OtherMembers, A::Error> {
                let mut members = Meta::new();
                while let Some(name) = map.next_key::<String>()? {
                    if is_of_one_hop(&name) {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        members.insert(name, map.next_value()?);
                    }
                }
                Ok(OtherMembers(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// Returns whether a member of `_meta` is meant for the next hop only.
fn is_of_one_hop(name: &str) -> bool {
    name.starts_with("io.modelcontextprotocol/")
        || ["progressToken", "traceparent", "tracestate", "baggage"].contains(&name)
}

/// The name of one of MCP's own `_meta` members, for error messages.
struct MetaKey(&'static str);

impl fmt::Display for MetaKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "_meta[\"io.modelcontextprotocol/{}\"]", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::RequestMeta;
    use crate::raw::{Params, Raw};

    #[test]
    fn meta_is_found_in_every_spelling() {
        let token = |text| {
            let meta = RequestMeta::from_params(Params::new(Some(Raw::Json(text)))).unwrap();
            meta.and_then(|meta| meta.progress_token)
        };
        assert_eq!(token(r#"{"_meta":{"progressToken":7}}"#), Some(7.into()));
        assert_eq!(token(r#"{"_\u006deta":{"progressToken":"a"}}"#), Some("a".into()));
        assert_eq!(token(r#"{"_meta":null}"#), None);
        assert_eq!(token(r#"{"name":"_meta"}"#), None);
        assert_eq!(token("{}"), None);
    }

    #[test]
    fn members_of_one_hop_are_left_out() {
        let text = r#"{"_meta":{"progressToken":7,"traceparent":"x","example.org/a":{"b":[1]},
            "io.modelcontextprotocol/protocolVersion":"2026-07-28","c":null}}"#;
        let others = RequestMeta::others(Params::new(Some(Raw::Json(text))));
        assert_eq!(
            serde_json::Value::from(others),
            serde_json::json!({"example.org/a": {"b": [1]}, "c": null})
        );
        for text in ["{}", r#"{"_meta":null}"#, r#"{"_meta":{}}"#] {
            assert!(RequestMeta::others(Params::new(Some(Raw::Json(text)))).is_empty(), "{text}");
        }
    }

    #[test]
    fn malformed_meta_members_are_named() {
        for (text, word) in [
            (r#"{"_meta":5}"#, "_meta"),
            (r#"{"_meta":{"progressToken":{}}}"#, "progressToken"),
            (r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}"#, "protocolVersion"),
            (r#"{"_meta":{"io.modelcontextprotocol/clientInfo":{}}}"#, "clientInfo"),
            (r#"{"_meta":{"io.modelcontextprotocol/logLevel":"loud"}}"#, "logLevel"),
        ] {
            let details = RequestMeta::from_params(Params::new(Some(Raw::Json(text)))).unwrap_err();
            assert!(details.contains(word), "{details}");
        }
    }
}
