//! What differs by revision on the server's side, in one place.
//!
//! The table of features is [`mcp_flow_proto::revision`]; here is what the server does with it:
//! agreeing on a version, and writing a tool's output the way a client of that revision reads it.

use std::borrow::Cow;

use mcp_flow_proto::model::{CallResult, Content, Meta, RequestedVersion, ResourceContents};
use mcp_flow_proto::{Revision, RpcError};
use serde_json::Value;

use crate::tool::ToolOutput;

/// Which handshake revisions a server agrees to (C-04).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionPolicy {
    /// The nearest one, but none before the minimum.
    Negotiate {
        /// The oldest revision agreed to; a client that needs an older one is refused.
        minimum: Option<Revision>,
    },
    /// Exactly this one, asked for by its exact name. Anything else is refused.
    Only(Revision),
}

impl Default for VersionPolicy {
    fn default() -> Self {
        Self::Negotiate { minimum: None }
    }
}

impl VersionPolicy {
    /// The revision to speak with a client that asked for this.
    pub fn agree(self, requested: &RequestedVersion) -> Result<Revision, RpcError> {
        let refused = || RpcError::unsupported_version(&requested.to_value(), &self.supported());
        match (self, requested) {
            (Self::Only(only), RequestedVersion::One(name)) if name == only.name() => Ok(only),
            // The seed this policy exists for gives the refusal its own number.
            (Self::Only(_), RequestedVersion::One(_)) => Err(refused().code_for_handshake(-32000)),
            (Self::Only(_), RequestedVersion::Several(_)) => {
                Err(RpcError::invalid_params("protocolVersion must be a string"))
            }
            (Self::Negotiate { minimum }, _) => {
                let agreed = nearest(requested);
                if minimum.is_some_and(|minimum| agreed < minimum) {
                    tracing::warn!(requested = %requested.to_value(), "refused an older revision");
                    return Err(refused());
                }
                Ok(agreed)
            }
        }
    }

    /// All revisions served, newest first, those without a handshake included.
    pub fn supported_statelessly(self) -> Vec<Revision> {
        let mut all = self.supported();
        if all.first().is_none_or(|newest| !newest.is_stateless()) {
            all.insert(0, Revision::V2026_07_28);
        }
        all
    }

    /// The revisions a client may ask for, newest first.
    pub fn supported(self) -> Vec<Revision> {
        let served = |revision: &Revision| match self {
            Self::Only(only) => *revision == only,
            Self::Negotiate { minimum } => minimum.is_none_or(|minimum| *revision >= minimum),
        };
        Revision::ALL.into_iter().rev().filter(served).collect()
    }
}

/// The best revision for what was asked: of several, the newest that is served by its own name.
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

/// Gives a tool's output the shape its revision has, and hands it to `write`.
pub(crate) fn with_wire_output<T>(
    output: &ToolOutput,
    revision: Revision,
    server_info: impl FnOnce() -> Value,
    write: impl FnOnce(&CallResult<'_>) -> T,
) -> T {
    let features = revision.features();
    let failure = output.failure_text();
    let old_place = revision == Revision::BASE;
    let mut meta = Cow::Borrowed(&output.meta);
    // An error object says the same and more.
    let said_elsewhere = old_place || output.meta.contains_key("error");
    if let Some(failure) = failure.filter(|_| !said_elsewhere) {
        meta.to_mut().insert("errorMessage".to_owned(), failure.into());
    }
    if revision.is_stateless() {
        add_server_info(meta.to_mut(), server_info());
    }
    let content = content_for(&output.content, revision);
    write(&CallResult {
        result_type: result_type(revision),
        content: &content,
        structured_content: output.structured.as_ref().filter(|value| {
            features.structured_content && (features.structured_values || value.is_object())
        }),
        is_error: output.is_error,
        error_message: failure.filter(|_| old_place),
        meta: Some(&*meta).filter(|meta| !meta.is_empty()),
    })
}

/// `complete`, where results have a type.
pub(crate) fn result_type(revision: Revision) -> Option<&'static str> {
    revision.is_stateless().then_some("complete")
}

/// Says who answered, where every result stands alone.
pub(crate) fn add_server_info(meta: &mut Meta, server_info: Value) {
    meta.insert("io.modelcontextprotocol/serverInfo".to_owned(), server_info);
}

/// Replaces content a revision does not have by the nearest it has (C-26, C-40).
fn content_for(content: &[Content], revision: Revision) -> Cow<'_, [Content]> {
    let features = revision.features();
    let fits = |content: &Content| match content {
        Content::Audio { .. } => features.audio,
        Content::ResourceLink(_) => features.resource_links,
        _ => true,
    };
    if content.iter().all(fits) {
        return Cow::Borrowed(content);
    }
    content.iter().map(|item| if fits(item) { item.clone() } else { older(item) }).collect()
}

fn older(content: &Content) -> Content {
    match content {
        Content::Audio { data, mime_type, annotations } => Content::Resource {
            resource: ResourceContents::Blob {
                uri: "audio://inline".to_owned(),
                mime_type: Some(mime_type.clone()),
                blob: data.clone(),
            },
            annotations: annotations.clone(),
        },
        Content::ResourceLink(link) => {
            let name = link.title.as_ref().unwrap_or(&link.name);
            Content::text(format!("{name}: {}", link.uri))
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{VersionPolicy, with_wire_output};
    use crate::tool::ToolOutput;
    use mcp_flow_proto::Revision;
    use mcp_flow_proto::model::{Content, RequestedVersion, ResourceLink};
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

    /// MCP-019, C-24: the failure is repeated where clients of each revision look for it.
    #[test]
    fn a_failure_is_told_in_every_revision() {
        let failed = ToolOutput::failure("no such file");
        let oldest = wire(&failed, Revision::V2024_11_05);
        assert_eq!(oldest["errorMessage"], "no such file");
        assert_eq!(oldest["content"][0]["text"], "no such file");
        for revision in &Revision::ALL[1..] {
            let newer = wire(&failed, *revision);
            assert_eq!(newer.get("errorMessage"), None);
            assert_eq!(newer["_meta"]["errorMessage"], "no such file");
            assert_eq!(newer["isError"], true);
        }
    }

    /// C-26, C-40: no client meets a content type its revision lacks.
    #[test]
    fn content_types_follow_the_revision() {
        let link = ResourceLink { uri: "a:b".into(), name: "b".into(), ..ResourceLink::default() };
        let output = ToolOutput::content([
            Content::audio([1], "audio/wav"),
            Content::ResourceLink(Box::new(link)),
        ]);
        let types = |revision| {
            let wire = wire(&output, revision);
            [0, 1].map(|index| wire["content"][index]["type"].as_str().unwrap().to_owned())
        };
        assert_eq!(types(Revision::V2024_11_05), ["resource", "text"]);
        assert_eq!(types(Revision::V2025_03_26), ["audio", "text"]);
        assert_eq!(types(Revision::V2025_06_18), ["audio", "resource_link"]);
    }

    #[test]
    fn a_stateless_result_stands_alone() {
        let wire = wire(&ToolOutput::text("5"), Revision::V2026_07_28);
        assert_eq!(wire["resultType"], "complete");
        assert_eq!(wire["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "test");
    }

    fn wire(output: &ToolOutput, revision: Revision) -> Value {
        let info = || json!({"name": "test"});
        with_wire_output(output, revision, info, |wire| serde_json::to_value(wire).unwrap())
    }
}
