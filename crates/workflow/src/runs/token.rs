//! Sealed token that an agent returns with the output of a step.

use mcp_flow_seal::{KeyRing, Seal};
use mcp_flow_session::{Owner, SessionId};
use serde::{Deserialize, Serialize};

/// Run and turn a token belongs to. Sealed and bound to the owner, so that an agent can neither
/// forge nor alter one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Token {
    pub(super) run: SessionId,
    pub(super) turn: u32,
}

impl Token {
    pub(super) fn seal(self, keys: &KeyRing, owner: &Owner) -> Option<String> {
        let mut random = [0; 24];
        getrandom::fill(&mut random).ok()?;
        let content = serde_json::to_vec(&self).ok()?;
        Some(keys.seal(seal(owner), None, &content, random))
    }

    /// Opens a token of this owner; `None` if it is not valid.
    pub(super) fn open(keys: &KeyRing, owner: &Owner, text: &str) -> Option<Self> {
        let content = keys.open(seal(owner), 0, text).ok()?;
        serde_json::from_slice(&content).ok()
    }
}

fn seal(owner: &Owner) -> Seal<'_> {
    Seal { purpose: "mcp-flow workflow step", bound_to: owner.name().as_bytes() }
}
