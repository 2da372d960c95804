//! The members of params, read one by one so that a fault names its member (INT-007).

use std::time::Duration;

use mcp_flow_proto::{Encoding, Params, RpcError};
use mcp_flow_session::{SessionId, Timestamp};
use serde_json::{Map, Value};

use crate::fault::{SESSION_NOT_FOUND, about};

/// Params whose members are still to be judged.
pub(crate) struct Fields {
    members: Map<String, Value>,
    /// What the members lie in, for complaints.
    within: &'static str,
}

impl Fields {
    /// Takes params apart. What is not asked for is ignored.
    pub(crate) fn read(params: Params<'_>) -> Result<Self, RpcError> {
        let most = match params.object().encoding() {
            Encoding::Json => MOST_VALUES,
            // Counted by its bytes, most of which are those of texts.
            Encoding::Cbor => 8 * MOST_VALUES,
        };
        if params.object().count() > most {
            let details = format!("params hold more than {MOST_VALUES} values");
            return Err(RpcError::invalid_params(details));
        }
        let members =
            params.decode().map_err(|error| RpcError::invalid_params(error.to_string()))?;
        Ok(Self { members, within: "" })
    }

    /// The members of an object that lies in these.
    pub(crate) fn inside(members: Map<String, Value>, within: &'static str) -> Self {
        Self { members, within }
    }

    /// Any value, if it is there.
    pub(crate) fn any(&mut self, name: &str) -> Option<Value> {
        self.members.remove(name)
    }

    /// A text that has to be there.
    pub(crate) fn text(&mut self, name: &str) -> Result<String, RpcError> {
        self.optional_text(name)?.ok_or_else(|| self.fault(name, "is required"))
    }

    /// A text, if it is there.
    pub(crate) fn optional_text(&mut self, name: &str) -> Result<Option<String>, RpcError> {
        match self.any(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.fault(name, "must be a string")),
        }
    }

    /// An object, if it is there.
    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Map<String, Value>>, RpcError> {
        match self.any(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(members)) => Ok(Some(members)),
            Some(_) => Err(self.fault(name, "must be an object")),
        }
    }

    /// The session that is named, if one is; nothing is taken out, and nothing refused.
    pub(crate) fn peek_session(&self) -> Option<SessionId> {
        self.members.get("sessionId")?.as_str()?.parse().ok()
    }

    /// The name of a session. Any text may be one, and most are of none there is.
    pub(crate) fn session(&mut self) -> Result<(SessionId, String), RpcError> {
        let name = self.text("sessionId")?;
        match name.parse() {
            Ok(id) => Ok((id, name)),
            Err(_) => Err(about(SESSION_NOT_FOUND, &name)),
        }
    }

    /// A span of time in milliseconds, at least one (INT-023).
    pub(crate) fn duration(&mut self, name: &str) -> Result<Option<Duration>, RpcError> {
        let millis = self.whole(name)?;
        match millis {
            Some(0) => Err(self.fault(name, "must be a positive number of milliseconds")),
            millis => Ok(millis.map(Duration::from_millis)),
        }
    }

    /// A point in time in milliseconds since 1970 (INT-037).
    pub(crate) fn timestamp(&mut self, name: &str) -> Result<Option<Timestamp>, RpcError> {
        Ok(self.whole(name)?.map(Timestamp::from_millis))
    }

    /// A whole number, not negative, if it is there; one that is too large is cut.
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

    /// A complaint about one member.
    pub(crate) fn fault(&self, name: &str, what: &str) -> RpcError {
        let field = format!("{}{name}", self.within);
        RpcError::invalid_params(format!("{field} {what}")).with("field", field)
    }
}

/// How many values params may hold; what takes more to build in memory is no answer of a person.
const MOST_VALUES: usize = 256 * 1024;
