//! The two dialects of a server: the official specification, and seed 004 to the letter. All that
//! differs between them, other than the tools, is here.

use std::borrow::Cow;

use mcp_flow_proto::error::UNSUPPORTED_PROTOCOL_VERSION;
use mcp_flow_proto::model::{ToolDefinition, WireTool};
use mcp_flow_proto::{Revision, RpcError};
use serde_json::{Value, json};

/// The document whose wording a server uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// The official specification.
    #[default]
    Official,
    /// Seed 004, to the letter: its capabilities, its tool members, the messages of its error
    /// table. It declares no change notifications, so none are sent.
    Seed004,
}

impl Dialect {
    /// The fixed capabilities that this dialect declares (C-23).
    pub(crate) fn capabilities(self) -> Option<Value> {
        (self == Self::Seed004).then(|| {
            json!({
                "tools": {"listChanged": false, "notifyProgress": false},
                "resources": {"listChanged": false}
            })
        })
    }

    /// Returns whether clients are told of changed lists and may subscribe to single resources, which
    /// only the official dialect declares.
    pub(crate) fn notifies_of_changes(self) -> bool {
        self == Self::Official
    }

    /// Returns whether a handler's panic is a failed tool result (C-63), and not a JSON-RPC error.
    pub(crate) fn reports_panics_as_results(self) -> bool {
        self == Self::Official
    }

    /// Encodes an entry of `tools/list`.
    pub(crate) fn list_entry<'a>(
        self,
        definition: &'a ToolDefinition,
        name: Cow<'a, str>,
        revision: Revision,
    ) -> WireTool<'a> {
        match self {
            Self::Official => definition.wire(name, revision),
            Self::Seed004 => definition.wire_seed_004(name),
        }
    }

    /// The error in this dialect's wording; the original text moves to its details (WFL-052).
    pub(crate) fn reword(self, error: &RpcError) -> Cow<'_, RpcError> {
        if self == Self::Official {
            return Cow::Borrowed(error);
        }
        let message = match error.code() {
            -32700 => "Parse error",
            -32600 => "Invalid Request",
            -32601 => "Method not found",
            -32602 => "Invalid params",
            -32603 => "Internal error",
            // The one error of this code that has its own wording.
            -32000 if error.name() != UNSUPPORTED_PROTOCOL_VERSION.name => "Server error",
            _ => return Cow::Borrowed(error),
        };
        if error.text() == message {
            return Cow::Borrowed(error);
        }
        let original = error.text().to_owned();
        let error = error.clone().message(message);
        Cow::Owned(if error.has("details") { error } else { error.details(original) })
    }
}

#[cfg(test)]
mod tests {
    use super::Dialect;
    use mcp_flow_proto::error::{NOT_INITIALIZED, UNKNOWN_TOOL};
    use mcp_flow_proto::{Revision, RpcError};

    /// WFL-052: errors have the wording of the table, and nothing is lost.
    #[test]
    fn errors_are_worded_as_the_table_has_them() {
        for (error, message, details) in [
            (RpcError::new(NOT_INITIALIZED).details("first"), "Invalid Request", "first"),
            (RpcError::new(NOT_INITIALIZED), "Invalid Request", "Not initialized"),
            (
                RpcError::new(UNKNOWN_TOOL).message("Unknown tool: x"),
                "Invalid params",
                "Unknown tool: x",
            ),
            (RpcError::invalid_params("id is required"), "Invalid params", "id is required"),
            (RpcError::too_large(9), "Server error", "Message too large: the limit is 9 bytes"),
        ] {
            let worded = Dialect::Seed004.reword(&error);
            let wire = serde_json::to_value(worded.wire(Revision::V2024_11_05)).unwrap();
            assert_eq!(
                (&wire["message"], &wire["data"]["details"]),
                (&message.into(), &details.into())
            );
            assert_eq!(*Dialect::Official.reword(&error), error);
        }
    }
}
