//! From what a tool gives back to the bytes of its result.

use std::borrow::Cow;

use mcp_flow_proto::{Encoding, RpcError, write};
use serde::Serialize;

use super::Context;
use crate::handler::{Outcome, Payload};
use crate::revision::with_wire_output;
use crate::tool::ToolOutput;

impl Context {
    /// Encodes a result for the connection the call came in on.
    pub fn reply<T: Serialize + ?Sized>(&self, result: &T) -> Outcome {
        self.call.shared.encoding().encode(result).map(Payload).map_err(|error| {
            tracing::error!(%error, "a result could not be encoded");
            RpcError::internal()
        })
    }

    /// Encodes a text, which is what most tools return, the quick way where there is one.
    pub fn reply_text(&self, text: String) -> Outcome {
        let plain = self.call.shared.encoding() == Encoding::Json
            && !self.revision().is_stateless()
            && self.server().output_filters().is_empty();
        if plain {
            return Ok(Payload(write::text_result(&text)));
        }
        self.reply_output(&ToolOutput::text(text))
    }

    /// Encodes a tool's output as the caller's revision has it, after the server's filters.
    pub fn reply_output(&self, output: &ToolOutput) -> Outcome {
        let mut output = Cow::Borrowed(output);
        for filter in self.server().output_filters() {
            filter(self, output.to_mut());
        }
        self.encode_output(&output)
    }

    fn encode_output(&self, output: &ToolOutput) -> Outcome {
        let server = self.server();
        let server_info = || server.info_value(self.revision());
        with_wire_output(output, self.revision(), server.content_form(), server_info, |wire| {
            self.reply(wire)
        })
    }
}
