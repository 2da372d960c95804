//! Roots: the folders and files a client considers relevant (PAT-009).

use serde::{Deserialize, Serialize};

use super::Meta;

/// A folder or file the client considers relevant. It is a hint, and grants nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Root {
    /// Where it is; its scheme is `file`.
    pub uri: String,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Anything else.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// What a client answers to `roots/list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListRootsResult {
    /// The roots.
    pub roots: Vec<Root>,
}

impl ListRootsResult {
    /// The roots, if all of them are what roots must be; the error names the first that is not.
    pub fn checked(self) -> Result<Vec<Root>, String> {
        match self.roots.iter().position(|root| !root.uri.starts_with("file://")) {
            None => Ok(self.roots),
            Some(index) => Err(format!("the uri of root {index} must begin with file://")),
        }
    }
}
