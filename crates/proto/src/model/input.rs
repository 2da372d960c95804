//! Input requests of multi-round requests (2026-07-28).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::Meta;
use crate::raw::{Params, ValueKind};

/// A request for input that the client fulfils before it retries. It has the form of a
/// server-to-client request of older revisions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InputRequest {
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: &'static str,
    /// Params of that method.
    pub params: Value,
}

/// The result of a request that needs more input.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InputRequiredResult<'a> {
    /// `input_required`.
    pub result_type: &'static str,
    /// The input requests, by keys the server chooses.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub input_requests: &'a BTreeMap<String, InputRequest>,
    /// Opaque state that the client sends back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_state: Option<&'a str>,
    /// `_meta` of the result, which identifies the server.
    #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
}

/// The input a retried request carries.
#[derive(Clone, Debug, Default)]
pub struct InputParams<'a> {
    /// The client's responses, by the keys of the input requests.
    pub responses: Map<String, Value>,
    /// The opaque state the server sent.
    pub state: Option<Cow<'a, str>>,
}

impl<'a> InputParams<'a> {
    /// Reads the params; `None` if the request is not a retry. The error is a sentence naming the
    /// invalid member.
    pub fn from_params(params: Params<'a>) -> Result<Option<Self>, String> {
        let [_, _, _, responses, state] = params.common().map_err(|error| error.to_string())?;
        let there = |raw: &crate::raw::Raw<'a>| raw.kind() != ValueKind::Null;
        let (responses, state) = (responses.filter(there), state.filter(there));
        if responses.is_none() && state.is_none() {
            return Ok(None);
        }
        let state = match state {
            Some(raw) => Some(raw.as_text().ok_or("requestState must be a string")?),
            None => None,
        };
        let responses: Map<String, Value> = match responses {
            Some(raw) if raw.kind() == ValueKind::Object => {
                raw.decode().map_err(|error| format!("inputResponses is malformed: {error}"))?
            }
            Some(_) => return Err("inputResponses must be an object".to_owned()),
            None => Map::new(),
        };
        match responses.iter().find(|(_, response)| !response.is_object()) {
            Some((key, _)) => {
                let key: String = key.chars().take(64).collect();
                Err(format!("inputResponses[{key:?}] must be an object, the result of its request"))
            }
            None => Ok(Some(Self { responses, state })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::InputParams;
    use crate::raw::{Params, Raw};

    #[test]
    fn input_params_are_read_or_the_error_names_the_member() {
        let read = |text| InputParams::from_params(Params::new(Some(Raw::Json(text))));
        assert!(read(r#"{"name":"a"}"#).unwrap().is_none());
        assert!(read(r#"{"inputResponses":null,"requestState":null}"#).unwrap().is_none());
        let both = read(r#"{"inputResponses":{"a":{}},"requestState":"x"}"#).unwrap().unwrap();
        assert_eq!((both.responses.len(), both.state.as_deref()), (1, Some("x")));
        for (text, word) in [
            (r#"{"requestState":7}"#, "requestState must be a string"),
            (r#"{"inputResponses":[]}"#, "inputResponses must be an object"),
            (r#"{"inputResponses":{"a":7}}"#, "inputResponses[\"a\"] must be an object"),
            (r#"{"requestState":"a","requestState":"b"}"#, "requestState"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
