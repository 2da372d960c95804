//! Typed access to the members of params; errors name the member (INT-007).

use std::time::Duration;

use mcp_flow_proto::{Encoding, Params, RpcError};
use mcp_flow_session::{SessionId, Timestamp};
use serde_json::{Map, Value};

use crate::protocol_errors::{SESSION_NOT_FOUND, session_error};

/// Params, decoded member by member.
pub(crate) struct Fields {
    members: Map<String, Value>,
    /// Path of the object, for errors.
    within: &'static str,
}

impl Fields {
    /// Decodes params. Unknown members are ignored.
    pub(crate) fn read(params: Params<'_>) -> Result<Self, RpcError> {
        let most = match params.object().encoding() {
            Encoding::Json => VALUE_LIMIT,
            // An estimate by bytes, most of which belong to strings.
            Encoding::Cbor => 8 * VALUE_LIMIT,
        };
        if params.object().count() > most {
            let details = format!("params hold more than {VALUE_LIMIT} values");
            return Err(RpcError::invalid_params(details));
        }
        let members =
            params.decode().map_err(|error| RpcError::invalid_params(error.to_string()))?;
        Ok(Self { members, within: "" })
    }

    /// Wraps the members of a nested object.
    pub(crate) fn inside(members: Map<String, Value>, within: &'static str) -> Self {
        Self { members, within }
    }

    /// Takes a value, if present.
    pub(crate) fn any(&mut self, name: &str) -> Option<Value> {
        self.members.remove(name)
    }

    /// Takes a required string.
    pub(crate) fn text(&mut self, name: &str) -> Result<String, RpcError> {
        self.optional_text(name)?.ok_or_else(|| self.fault(name, "is required"))
    }

    /// Takes a string, if present.
    pub(crate) fn optional_text(&mut self, name: &str) -> Result<Option<String>, RpcError> {
        match self.any(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.fault(name, "must be a string")),
        }
    }

    /// Takes an object, if present.
    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Map<String, Value>>, RpcError> {
        match self.any(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(members)) => Ok(Some(members)),
            Some(_) => Err(self.fault(name, "must be an object")),
        }
    }

    /// Returns the session id without taking it, if it is valid.
    pub(crate) fn peek_session(&self) -> Option<SessionId> {
        self.members.get("sessionId")?.as_str()?.parse().ok()
    }

    /// Takes the session id. A malformed one is reported as not found.
    pub(crate) fn session(&mut self) -> Result<(SessionId, String), RpcError> {
        let name = self.text("sessionId")?;
        match name.parse() {
            Ok(id) => Ok((id, name)),
            Err(_) => Err(session_error(SESSION_NOT_FOUND, &name)),
        }
    }

    /// Takes a duration in milliseconds, at least one (INT-023).
    pub(crate) fn duration(&mut self, name: &str) -> Result<Option<Duration>, RpcError> {
        let millis = self.whole(name)?;
        match millis {
            Some(0) => Err(self.fault(name, "must be a positive number of milliseconds")),
            millis => Ok(millis.map(Duration::from_millis)),
        }
    }

    /// Takes a time in milliseconds since the Unix epoch (INT-037).
    pub(crate) fn timestamp(&mut self, name: &str) -> Result<Option<Timestamp>, RpcError> {
        Ok(self.whole(name)?.map(Timestamp::from_millis))
    }

    /// Takes a non-negative integer, if present; one that is too large is capped.
    pub(crate) fn whole(&mut self, name: &str) -> Result<Option<u64>, RpcError> {
        let number = match self.any(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Number(number)) => number,
            Some(_) => return Err(self.fault(name, "must be a number")),
        };
        if let Some(whole) = number.as_u64() {
            return Ok(Some(whole));
        }
        match number.as_f64().filter(|float| *float >= 0.0 && float.fract() == 0.0) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cut")]
            Some(float) => Ok(Some(float as u64)),
            None => Err(self.fault(name, "must be a whole number, not negative")),
        }
    }

    /// Creates an error about a member.
    pub(crate) fn fault(&self, name: &str, what: &str) -> RpcError {
        let field = format!("{}{name}", self.within);
        RpcError::invalid_params(format!("{field} {what}")).with("field", field)
    }
}

/// Limit on values in params, which bounds the memory to decode them.
const VALUE_LIMIT: usize = 256 * 1024;
