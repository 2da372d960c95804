//! `$/streamError`: how one end tells the other that a stream has failed (WT-049).

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Value, json};

use super::StreamHeader;
use crate::error::Fault;
use crate::raw::{Params, Raw};

/// What happened to a stream.
///
/// The seed has `requestId`, `streamTag` and `error`; a fault that has a name begins the text with
/// it and adds its `code` and `data` (C-16).
#[derive(Clone, Debug, PartialEq)]
pub struct StreamError {
    /// Which stream. What is not known of it is 0.
    pub stream: StreamHeader,
    /// What happened, for people.
    pub error: String,
    /// The number of the fault, if it has one.
    pub code: Option<i64>,
    /// What a program can use, if there is anything.
    pub data: Option<Value>,
}

impl StreamError {
    /// Something went wrong that has no name.
    pub fn new(stream: StreamHeader, error: impl Into<String>) -> Self {
        Self { stream, error: error.into(), code: None, data: None }
    }

    /// A fault with a name.
    pub fn fault(stream: StreamHeader, fault: Fault, details: &str) -> Self {
        Self {
            stream,
            error: format!("{}: {details}", fault.name),
            code: Some(fault.code.into()),
            data: Some(json!({"domain": fault.domain, "name": fault.name})),
        }
    }

    /// Reads the params of a notification; `None` if they name no stream.
    pub fn from_params(params: Params<'_>) -> Option<Self> {
        let [request, tag, error, code, data] =
            params.members(["requestId", "streamTag", "error", "code", "data"]).ok()?;
        let error = error.and_then(Raw::as_text).unwrap_or_default();
        Some(Self {
            stream: StreamHeader { request: request?.decode().ok()?, tag: tag?.decode().ok()? },
            error: error.chars().take(LONGEST).collect(),
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

/// As much of a text as is kept.
const LONGEST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::StreamError;
    use crate::error::STREAM_INJECTION;
    use crate::raw::{Params, Raw};
    use crate::webtransport::StreamHeader;
    use serde_json::json;

    /// WT-049, C-16: the seed's members, and more where a fault has a name.
    #[test]
    fn errors_are_written_and_read() {
        let stream = StreamHeader { request: 42, tag: 1 };
        let plain = StreamError::new(stream, "Connection reset by peer");
        assert_eq!(
            json!(plain),
            json!({"requestId": 42, "streamTag": 1, "error": "Connection reset by peer"})
        );
        let named = StreamError::fault(stream, STREAM_INJECTION, "no such request");
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
