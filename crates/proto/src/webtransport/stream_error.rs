//! `$/streamError`: reports a failed execution stream to the peer (WT-049).

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Value, json};

use super::StreamHeader;
use crate::error::RpcErrorKind;
use crate::raw::{Params, Raw};

/// The params of `$/streamError`.
///
/// The seed defines `requestId`, `streamTag` and `error`. A named error starts the text with its
/// name and adds its `code` and `data` (C-16).
#[derive(Clone, Debug, PartialEq)]
pub struct StreamError {
    /// The stream. Unknown parts are 0.
    pub stream: StreamHeader,
    /// Description for people.
    pub error: String,
    /// The error code of a named error.
    pub code: Option<i64>,
    /// Additional data for programs.
    pub data: Option<Value>,
}

impl StreamError {
    /// Creates an error without a named error.
    pub fn new(stream: StreamHeader, error: impl Into<String>) -> Self {
        Self { stream, error: error.into(), code: None, data: None }
    }

    /// Creates an error for a named error.
    pub fn of_kind(stream: StreamHeader, kind: RpcErrorKind, details: &str) -> Self {
        Self {
            stream,
            error: format!("{}: {details}", kind.name),
            code: Some(kind.code.into()),
            data: Some(json!({"domain": kind.domain, "name": kind.name})),
        }
    }

    /// Reads the params of a notification; `None` if they name no stream.
    pub fn from_params(params: Params<'_>) -> Option<Self> {
        let [request, tag, error, code, data] =
            params.members(["requestId", "streamTag", "error", "code", "data"]).ok()?;
        let error = error.and_then(Raw::as_text).unwrap_or_default();
        Some(Self {
            stream: StreamHeader { request: request?.decode().ok()?, tag: tag?.decode().ok()? },
            error: error.chars().take(MAX_LENGTH).collect(),
            code: code.and_then(|code| code.decode().ok()),
            data: data.and_then(|data| data.decode().ok()),
        })
    }
}

impl Serialize for StreamError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let extra = usize::from(self.code.is_some()) + usize::from(self.data.is_some());
        let mut map = serializer.serialize_map(Some(3 + extra))?;
        map.serialize_entry("requestId", &self.stream.request)?;
        map.serialize_entry("streamTag", &self.stream.tag)?;
        map.serialize_entry("error", &self.error)?;
        if let Some(code) = self.code {
            map.serialize_entry("code", &code)?;
        }
        if let Some(data) = &self.data {
            map.serialize_entry("data", data)?;
        }
        map.end()
    }
}

/// Maximum length of the text that is kept.
const MAX_LENGTH: usize = 4096;

#[cfg(test)]
mod tests {
    use super::StreamError;
    use crate::error::STREAM_INJECTION;
    use crate::raw::{Params, Raw};
    use crate::webtransport::StreamHeader;
    use serde_json::json;

    /// WT-049, C-16: the seed's members, and more for a named error.
    #[test]
    fn errors_survive_a_round_trip() {
        let stream = StreamHeader { request: 42, tag: 1 };
        let plain = StreamError::new(stream, "Connection reset by peer");
        assert_eq!(
            json!(plain),
            json!({"requestId": 42, "streamTag": 1, "error": "Connection reset by peer"})
        );
        let named = StreamError::of_kind(stream, STREAM_INJECTION, "no such request");
        assert_eq!(
            json!(named),
            json!({"requestId": 42, "streamTag": 1, "code": -32002,
                "error": "STREAM_INJECTION: no such request",
                "data": {"domain": "flow", "name": "STREAM_INJECTION"}})
        );
        for error in [plain, named] {
            let text = json!(error).to_string();
            assert_eq!(StreamError::from_params(Params::new(Some(Raw::Json(&text)))), Some(error));
        }
        for text in ["{}", r#"{"requestId":"x","streamTag":1}"#, r#"{"requestId":1}"#, "[]"] {
            assert_eq!(StreamError::from_params(Params::new(Some(Raw::Json(text)))), None);
        }
    }
}
