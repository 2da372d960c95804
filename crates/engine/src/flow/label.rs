//! Labels by which sessions are found.

use std::fmt::Display;

use mcp_flow_session::event::{FaultName, FlowFault};

use super::{Flow, FlowError, FlowResult};
use crate::execution::step::MAX_LABELS;

impl Flow {
    /// Sets a label of the session, such as the number of a customer, by which `mcp-flow sessions list`,
    /// the console and `interaction.list` find it. Setting it again replaces its value.
    ///
    /// A session has at most 16 labels. A key has 1 to 50 bytes and neither `=` nor control
    /// characters, a value at most 200 bytes. Admins see the labels of all sessions: no secrets.
    ///
    /// ```
    /// # use mcp_flow_engine::{Flow, FlowResult};
    /// async fn order(flow: Flow, customer: u64) -> FlowResult<()> {
    ///     flow.label("customer", customer)
    /// }
    /// ```
    pub fn label(&self, key: &str, value: impl Display) -> FlowResult<()> {
        let value = value.to_string();
        let is_key = (1..=KEY_BYTES).contains(&key.len())
            && !key.chars().any(|character| character == '=' || character.is_control());
        if !is_key || value.len() > VALUE_BYTES {
            return Err(bad(format!(
                "label `{}` must have a key of 1 to {KEY_BYTES} bytes without `=`, and a value of at \
                 most {VALUE_BYTES} bytes",
                key.chars().take(KEY_BYTES).collect::<String>()
            )));
        }
        match self.execution.set_label(key, value) {
            true => Ok(()),
            false => Err(bad(format!("a session may have at most {MAX_LABELS} labels"))),
        }
    }
}

fn bad(message: String) -> FlowError {
    FlowError::fault(FlowFault::new(FaultName::Failed, message))
}

const KEY_BYTES: usize = 50;
const VALUE_BYTES: usize = 200;
