//! Revision differences on the server's side.
//!
//! The feature table is [`mcp_flow_proto::revision`]; this module negotiates a version and writes a
//! tool's output in the form of the client's revision (`output`).

mod dialect;
mod output;

use mcp_flow_proto::model::{Meta, RequestedVersion};
use mcp_flow_proto::{Revision, RpcError};
use serde_json::Value;

pub use dialect::Dialect;
pub(crate) use output::with_wire_output;

/// Policy on the revisions a server serves (C-04).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionPolicy {
    /// Negotiates the nearest handshake revision, but none before the minimum, and serves stateless
    /// requests.
    Negotiate {
        /// The oldest revision served; a client that needs an older one is rejected.
        minimum: Option<Revision>,
    },
    /// Serves exactly this revision, requested by its exact name. If it has a handshake, stateless
    /// requests are rejected.
    Only(Revision),
}

impl Default for VersionPolicy {
    fn default() -> Self {
        Self::Negotiate { minimum: None }
    }
}

impl VersionPolicy {
    /// Chooses the revision for a client that requests this one.
    pub fn agree(self, requested: &RequestedVersion) -> Result<Revision, RpcError> {
        let refused = || RpcError::unsupported_version(&requested.to_value(), &self.supported());
        match (self, requested) {
            (Self::Only(only), RequestedVersion::One(name)) if name == only.name() => Ok(only),
            // The seed this policy exists for has its own code for the rejection.
            (Self::Only(_), RequestedVersion::One(_)) => Err(refused().code_for_handshake(-32000)),
            (Self::Only(_), RequestedVersion::Several(_)) => {
                Err(RpcError::invalid_params("protocolVersion must be a string"))
            }
            (Self::Negotiate { minimum }, _) => {
                let agreed = nearest(requested);
                if minimum.is_some_and(|minimum| agreed < minimum) {
                    tracing::warn!(requested = %requested.to_value(), "rejected a client that requests an older revision");
                    return Err(refused());
                }
                Ok(agreed)
            }
        }
    }

    /// Returns whether stateless requests are served.
    pub fn serves_statelessly(self) -> bool {
        match self {
            Self::Negotiate { .. } => true,
            Self::Only(only) => only.is_stateless(),
        }
    }

    /// All revisions served, newest first, stateless ones included.
    pub fn supported_statelessly(self) -> Vec<Revision> {
        let mut all = self.supported();
        if self.serves_statelessly() && all.first().is_none_or(|newest| !newest.is_stateless()) {
            all.insert(0, Revision::V2026_07_28);
        }
        all
    }

    /// The revisions a client may request, newest first.
    pub fn supported(self) -> Vec<Revision> {
        let served = |revision: &Revision| match self {
            Self::Only(only) => *revision == only,
            Self::Negotiate { minimum } => minimum.is_none_or(|minimum| *revision >= minimum),
        };
        Revision::ALL.into_iter().rev().filter(served).collect()
    }
}

/// The best revision for a request: of several, the newest that is served by its own name.
fn nearest(requested: &RequestedVersion) -> Revision {
    match requested {
        RequestedVersion::One(name) => Revision::nearest(name),
        RequestedVersion::Several(names) => {
            let asked = |revision: &Revision| names.iter().any(|name| name == revision.name());
            Revision::handshake().rev().find(asked).unwrap_or_else(|| {
                names.iter().map(|name| Revision::nearest(name)).max().unwrap_or(Revision::BASE)
            })
        }
    }
}

/// `complete`, in revisions whose results have a type.
pub(crate) fn result_type(revision: Revision) -> Option<&'static str> {
    revision.is_stateless().then_some("complete")
}

/// Adds the server's info to a stateless result.
pub(crate) fn add_server_info(meta: &mut Meta, server_info: Value) {
    meta.insert("io.modelcontextprotocol/serverInfo".to_owned(), server_info);
}

#[cfg(test)]
mod tests {
    use super::VersionPolicy;
    use mcp_flow_proto::Revision;
    use mcp_flow_proto::model::RequestedVersion;
    use serde_json::{Value, json};

    /// C-04, C-37, PAT-006, PAT-012: agreement by policy.
    #[test]
    fn versions_are_agreed_by_policy() {
        let any = VersionPolicy::default();
        let recent = VersionPolicy::Negotiate { minimum: Some(Revision::V2025_06_18) };
        let only = VersionPolicy::Only(Revision::V2024_11_05);
        check(any, json!("2025-03-26"), "2025-03-26");
        check(any, json!("1.0.0"), "2024-11-05");
        check(any, json!(["2024-11-05", "2025-06-18", "2077-01-01"]), "2025-06-18");
        check(any, json!(["x", "2077-01-01"]), "2025-11-25");
        check(any, json!([]), "2024-11-05");
        check(recent, json!("2025-11-25"), "2025-11-25");
        check(recent, json!("2024-11-05"), "-32602");
        check(only, json!("2024-11-05"), "2024-11-05");
        check(only, json!("2024-10-01"), "-32000");
        check(only, json!("1.0.0"), "-32000");
        check(only, json!(["2024-11-05"]), "-32602");
    }

    fn check(policy: VersionPolicy, requested: Value, expected: &str) {
        let requested = match requested {
            Value::String(name) => RequestedVersion::One(name),
            several => RequestedVersion::Several(serde_json::from_value(several).unwrap()),
        };
        let agreed = match policy.agree(&requested) {
            Ok(revision) => revision.name().to_owned(),
            Err(error) => error.code().to_string(),
        };
        assert_eq!(agreed, expected, "{policy:?} asked for {requested:?}");
    }
}
