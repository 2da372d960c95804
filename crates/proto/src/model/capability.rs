//! Who the two ends are and what they can do.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::raw::{DecodeError, Kind, Raw};
use crate::revision::Revision;

/// The name and version of a program, reported by itself and believed for display only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Implementation {
    /// Short name for programs.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl Implementation {
    /// A program with just a name and a version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), title: None, description: None }
    }

    /// The same, without what the revision does not have.
    #[must_use]
    pub fn for_revision(&self, revision: Revision) -> Self {
        let features = revision.features();
        Self {
            title: self.title.clone().filter(|_| features.titles),
            description: self.description.clone().filter(|_| features.icons),
            ..self.clone()
        }
    }
}

/// What a client declares it can do. Unknown capabilities are accepted and ignored (C-23).
///
/// Only whether a capability is there is kept: a client may say as much about it as it likes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// Answers `sampling/createMessage`.
    pub sampling: bool,
    /// Answers `elicitation/create`.
    pub elicitation: bool,
    /// Answers `roots/list`.
    pub roots: bool,
}

impl ClientCapabilities {
    /// Reads the capabilities out of an object.
    pub fn from_raw(raw: Raw<'_>) -> Result<Self, DecodeError> {
        let members = raw.members(["sampling", "elicitation", "roots"])?;
        let [sampling, elicitation, roots] =
            members.map(|member| member.is_some_and(|raw| raw.kind() != Kind::Null));
        Ok(Self { sampling, elicitation, roots })
    }
}

/// What a server declares it can do. Only what is really there is declared (PAT-005).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerCapabilities {
    /// Tools can be listed and called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ListCapability>,
    /// Resources can be listed and read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceCapability>,
    /// Prompts can be listed and got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts: Option<ListCapability>,
    /// Arguments can be completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions: Option<Map<String, Value>>,
    /// Log messages are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logging: Option<Map<String, Value>>,
    /// Additions by name.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub experimental: Map<String, Value>,
}

/// A capability about a list that may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListCapability {
    /// Whether changes of the list are announced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub list_changed: bool,
}

/// The capability to list and read resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceCapability {
    /// Whether changes of one resource are told to those who ask for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub subscribe: bool,
    /// Whether changes of the list are announced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub list_changed: bool,
}
