//! Typed access to the members of params; errors name the member (INT-007).

use std::time::Duration;

use mcp_flow_proto::{Encoding, Params, RpcError};
use serde_json::{Map, Value};

/// Params, decoded member by member.
pub(crate) struct Fields {
    members: Map<String, Value>,
}

impl Fields {
    /// Decodes params. Unknown members are ignored.
    pub(crate) fn read(params: Params<'_>) -> Result<Self, RpcError> {
        check_count(params)?;
        let members =
            params.decode().map_err(|error| RpcError::invalid_params(error.to_string()))?;
        Ok(Self { members })
    }

    /// Wraps the members of params.
    pub(crate) fn from(members: Map<String, Value>) -> Self {
        Self { members }
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

    /// Takes a duration in milliseconds, at least one (INT-023).
    pub(crate) fn duration(&mut self, name: &str) -> Result<Option<Duration>, RpcError> {
        let millis = self.whole(name)?;
        match millis {
            Some(0) => Err(self.fault(name, "must be a positive number of milliseconds")),
            millis => Ok(millis.map(Duration::from_millis)),
        }
    }

    /// Takes a non-negative integer, if present; one that is too large is capped.
    pub(crate) fn whole(&mut self, name: &str) -> Result<Option<u64>, RpcError> {
        let value = self.any(name).unwrap_or_default();
        whole(&value).map_err(|what| self.fault(name, what))
    }

    /// Creates an error about a member.
    pub(crate) fn fault(&self, name: &str, what: &str) -> RpcError {
        fault(name, what)
    }
}

/// Checks that params do not have too many values to decode.
pub(crate) fn check_count(params: Params<'_>) -> Result<(), RpcError> {
    let most = match params.object().encoding() {
        Encoding::Json => VALUE_LIMIT,
        // An estimate by bytes, most of which belong to strings.
        Encoding::Cbor => 8 * VALUE_LIMIT,
    };
    if params.object().count() > most {
        let details = format!("params hold more than {VALUE_LIMIT} values");
        return Err(RpcError::invalid_params(details));
    }
    Ok(())
}

/// Reads a non-negative integer, unless it is null; one that is too large is capped.
pub(crate) fn whole(value: &Value) -> Result<Option<u64>, &'static str> {
    let number = match value {
        Value::Null => return Ok(None),
        Value::Number(number) => number,
        _ => return Err("must be a number"),
    };
    if let Some(whole) = number.as_u64() {
        return Ok(Some(whole));
    }
    match number.as_f64().filter(|float| *float >= 0.0 && float.fract() == 0.0) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cut")]
        Some(float) => Ok(Some(float as u64)),
        None => Err("must be a whole number, not negative"),
    }
}

/// Creates an error about a member of params.
pub(crate) fn fault(field: &str, what: &str) -> RpcError {
    RpcError::invalid_params(format!("{field} {what}")).with("field", field)
}

/// Limit on values in params, which bounds the memory to decode them.
const VALUE_LIMIT: usize = 256 * 1024;
