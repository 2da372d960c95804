//! Requests for input by handlers that keep their own state between rounds.

use std::collections::BTreeMap;

use mcp_flow_proto::RpcError;
use mcp_flow_proto::model::InputRequest;
use serde_json::Value;

use crate::context::Context;
use crate::handler::Outcome;
use crate::tool::{IntoToolOutput, ToolOutput};

/// A reply that asks the client for input (2026-07-28), with state for the next round.
///
/// A tool returns it; a handler of another method [replies](Self::reply) with it. In the next round
/// the handler runs again and finds [`Context::carried`] and [`Context::input_response`]. Most
/// tools ask through [`Context::elicit`] and its siblings instead, which work in every revision.
///
/// ```
/// use mcp_flow_server::input::InputRequired;
/// use mcp_flow_server::proto::model::InputRequest;
/// use mcp_flow_server::{Context, Tool};
/// use serde_json::{Value, json};
///
/// let tool = Tool::builder("turns")
///     .handler(async |context: Context, _: Value| {
///         let turn = context.carried().and_then(|turn| turn.as_u64()).unwrap_or(0);
///         let roots = InputRequest { method: "roots/list", params: json!({}) };
///         InputRequired::new().ask(format!("turn-{turn}"), roots).carry(json!(turn + 1))
///     })
///     .unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct InputRequired {
    requests: BTreeMap<String, InputRequest>,
    carried: Option<Value>,
}

impl InputRequired {
    /// Asks nothing yet. A client that is asked nothing retries at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a question under a key. The caller checks that the client has the capability.
    pub fn ask(mut self, key: impl Into<String>, request: InputRequest) -> Self {
        self.requests.insert(key.into(), request);
        self
    }

    /// Has the client carry a sealed value to the next round.
    pub fn carry(mut self, value: impl Into<Value>) -> Self {
        self.carried = Some(value.into());
        self
    }

    /// Replies to a request with it. Fails where the revision or method does not allow it.
    pub fn reply(self, context: &Context) -> Outcome {
        let Some(mut round) = context.rounds().current() else {
            tracing::error!("this method or revision cannot reply with a request for input");
            return Err(RpcError::internal());
        };
        for (key, request) in self.requests {
            round.need(key, request);
        }
        round.carry(self.carried);
        round.is_over = true;
        // Replaced by the request for input, which is built where the params are available.
        Err(RpcError::internal())
    }
}

impl IntoToolOutput for InputRequired {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput::failure("This tool asks for input in a way that this client does not support.")
    }

    fn reply(self, context: &Context) -> Outcome {
        Self::reply(self, context)
    }
}

impl Context {
    /// The value that [`InputRequired::carry`] left for this round.
    pub fn carried(&self) -> Option<Value> {
        self.rounds().begun()?.carried().cloned()
    }

    /// The client's answer to the question with this key, asked by [`InputRequired::ask`]. It is an
    /// object, otherwise unchecked.
    pub fn input_response(&self, key: &str) -> Option<Value> {
        self.rounds().begun()?.response(key).cloned()
    }

    /// Returns whether the request can be answered with [`InputRequired`].
    pub fn takes_rounds(&self) -> bool {
        self.rounds().current().is_some()
    }
}
