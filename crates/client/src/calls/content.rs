//! Content blocks of results.

use mcp_flow_proto::model::Content;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// One content block. A block of an unknown type is kept as received (MCP-037).
#[derive(Clone, Debug, PartialEq)]
pub enum ContentBlock {
    /// A block of a known type.
    Known(Content),
    /// Any other block as received: a type of a later revision, a `ref/stream`, or a malformed one.
    Unknown(Value),
}

impl ContentBlock {
    /// The text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Known(Content::Text { text, .. }) => Some(text),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for ContentBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(match Content::deserialize(&value) {
            Ok(content) => Self::Known(content),
            Err(_) => Self::Unknown(value),
        })
    }
}

/// Joins the text blocks with line feeds.
pub(crate) fn texts(pieces: &[ContentBlock]) -> String {
    pieces.iter().filter_map(ContentBlock::as_text).collect::<Vec<_>>().join("\n")
}
