//! Roots: folders and files a client considers relevant (PAT-009).

use serde::{Deserialize, Serialize};

use super::Meta;

/// A folder or file the client considers relevant. A hint, which grants no access.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Root {
    /// A `file:` URI.
    pub uri: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Additional members.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// The client's result of `roots/list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListRootsResult {
    /// The roots.
    pub roots: Vec<Root>,
}

impl ListRootsResult {
    /// Returns the roots if all of them are valid. The error names the first invalid one.
    pub fn checked(self) -> Result<Vec<Root>, String> {
        match self.roots.iter().position(|root| !root.uri.starts_with("file://")) {
            None => Ok(self.roots),
            Some(index) => Err(format!("the uri of root {index} must begin with file://")),
        }
    }
}
