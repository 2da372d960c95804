//! `_meta`: what rides along with params and results.

use std::fmt;

use serde_json::{Map, Value};

use super::lifecycle::optional;
use super::{ClientCapabilities, Implementation, LogLevel, TraceContext, UnknownLevel};
use crate::id::RequestId;
use crate::raw::{Kind, Params, Raw};
use crate::revision::Revision;

/// Free members beside params or a result.
pub type Meta = Map<String, Value>;

/// What a request's `_meta` tells the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestMeta {
    /// Where progress of this request should be reported to.
    pub progress_token: Option<RequestId>,
    /// The version the request is written in. Its presence makes the request a stateless one.
    pub protocol_version: Option<String>,
    /// Who is asking.
    pub client_info: Option<Implementation>,
    /// What the asking client can do.
    pub client_capabilities: Option<ClientCapabilities>,
    /// The least severe log messages wanted for this request.
    pub log_level: Option<LogLevel>,
    /// The trace the request belongs to.
    pub trace: Option<TraceContext>,
}

impl RequestMeta {
    /// Reads `_meta` out of params.
    ///
    /// Boxed, because most requests have none. The error says which member is malformed.
    pub fn from_params(params: Params<'_>) -> Result<Option<Box<Self>>, String> {
        let [meta, ..] = params.common().map_err(|error| error.to_string())?;
        match meta {
            Some(raw) if raw.kind() == Kind::Object => {
                Self::from_raw(raw).map(|meta| Some(Box::new(meta)))
            }
            Some(raw) if raw.kind() != Kind::Null => Err("_meta must be an object".to_owned()),
            _ => Ok(None),
        }
    }

    fn from_raw(raw: Raw<'_>) -> Result<Self, String> {
        let [token, version, info, capabilities, level, parent, state] = raw
            .members([
                "progressToken",
                "io.modelcontextprotocol/protocolVersion",
                "io.modelcontextprotocol/clientInfo",
                "io.modelcontextprotocol/clientCapabilities",
                "io.modelcontextprotocol/logLevel",
                "traceparent",
                "tracestate",
            ])
            .map_err(|error| error.to_string())?;
        let progress_token = match token.filter(|raw| raw.kind() != Kind::Null) {
            Some(token) => Some(RequestId::from_raw(token).ok_or_else(|| {
                "_meta.progressToken must be a string or a number of at most 1024 bytes".to_owned()
            })?),
            None => None,
        };
        let protocol_version = match version.filter(|raw| raw.kind() != Kind::Null) {
            Some(version) => Some(
                version
                    .as_text()
                    .map(String::from)
                    .ok_or_else(|| format!("{} must be a string", Own("protocolVersion")))?,
            ),
            None => None,
        };
        // What a version we do not know means by the other members is not for us to say.
        let known =
            protocol_version.as_deref().is_none_or(|name| Revision::from_name(name).is_some());
        if !known {
            return Ok(Self { progress_token, protocol_version, ..Self::default() });
        }
        let log_level = match level.filter(|raw| raw.kind() != Kind::Null) {
            Some(level) => Some(
                level
                    .decode()
                    .map_err(|_| format!("{} is malformed: {UnknownLevel}", Own("logLevel")))?,
            ),
            None => None,
        };
        Ok(Self {
            progress_token,
            protocol_version,
            client_info: optional(Own("clientInfo"), info, Raw::decode)?,
            client_capabilities: optional(
                Own("clientCapabilities"),
                capabilities,
                ClientCapabilities::from_raw,
            )?,
            log_level,
            trace: TraceContext::from_raw(parent, state),
        })
    }
}

/// One of MCP's own members of `_meta`, as complaints name it.
struct Own(&'static str);

impl fmt::Display for Own {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "_meta[\"io.modelcontextprotocol/{}\"]", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::RequestMeta;
    use crate::raw::{Params, Raw};

    #[test]
    fn meta_is_found_wherever_it_hides() {
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
    fn malformed_meta_is_named() {
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
