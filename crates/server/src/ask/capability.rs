//! Client capabilities that questions depend on.

use std::fmt;

use serde_json::{Value, json};

use crate::identity::Peer;

/// A client capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Capability {
    /// Sampling: the client's model.
    Sampling,
    /// Sampling with tools.
    SamplingTools,
    /// Elicitation by form.
    ElicitationForm,
    /// Elicitation by URL.
    ElicitationUrl,
    /// Roots.
    Roots,
}

impl Capability {
    /// Returns whether the client declared it, in a revision that has it.
    pub(super) fn is_declared_by(self, peer: &Peer) -> bool {
        let (declared, features) = (&peer.capabilities, peer.revision.features());
        match self {
            Self::Sampling => declared.sampling.is_some(),
            Self::SamplingTools => {
                features.sampling_tools && declared.sampling.is_some_and(|sampling| sampling.tools)
            }
            Self::ElicitationForm => declared.elicitation.is_some_and(|modes| modes.form),
            Self::ElicitationUrl => {
                features.elicitation_modes && declared.elicitation.is_some_and(|modes| modes.url)
            }
            Self::Roots => declared.roots.is_some(),
        }
    }

    /// The capabilities object of a client that declares this and nothing else.
    pub fn declaration(self) -> Value {
        match self.path() {
            (name, None) => json!({name: {}}),
            (name, Some(part)) => json!({name: {part: {}}}),
        }
    }

    /// Its name, and that of the sub-capability to declare.
    pub(super) fn path(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Sampling => ("sampling", None),
            Self::SamplingTools => ("sampling", Some("tools")),
            Self::ElicitationForm => ("elicitation", Some("form")),
            Self::ElicitationUrl => ("elicitation", Some("url")),
            Self::Roots => ("roots", None),
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path() {
            (name, None) => formatter.write_str(name),
            (name, Some(part)) => write!(formatter, "{name}.{part}"),
        }
    }
}
