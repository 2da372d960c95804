//! Content as a client receives it.

use mcp_flow_proto::model::Content;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// One piece of content. What nobody here knows is kept as it came (MCP-037).
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Content of a known kind.
    Known(Content),
    /// Anything else, as it came: a kind of a later revision, a `ref/stream`, or a broken one.
    Unknown(Value),
}

impl Piece {
    /// The text, if that is what it is.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Known(Content::Text { text, .. }) => Some(text),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Piece {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(match Content::deserialize(&value) {
            Ok(content) => Self::Known(content),
            Err(_) => Self::Unknown(value),
        })
    }
}

/// The texts among the pieces, one per line.
pub(crate) fn texts(pieces: &[Piece]) -> String {
    pieces.iter().filter_map(Piece::as_text).collect::<Vec<_>>().join("\n")
}
