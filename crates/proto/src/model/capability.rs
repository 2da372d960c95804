//! Implementations and capabilities that client and server declare.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::icon::{Icon, deserialize_icons, deserialize_website};
use crate::decode_error::DecodeError;
use crate::raw::{Raw, ValueKind};
use crate::revision::Revision;

/// The name and version of a program. Self-reported, so use it for display only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Implementation {
    /// Short name for programs.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Purpose of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Icons to show for it.
    #[serde(
        default,
        deserialize_with = "deserialize_icons",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub icons: Vec<Icon>,
    /// URL of its website.
    #[serde(
        default,
        deserialize_with = "deserialize_website",
        skip_serializing_if = "Option::is_none"
    )]
    pub website_url: Option<String>,
}

impl Implementation {
    /// Creates an implementation with just a name and a version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), ..Self::default() }
    }

    /// Returns a copy without the members the revision does not have.
    #[must_use]
    pub fn for_revision(&self, revision: Revision) -> Self {
        let features = revision.features();
        Self {
            title: self.title.clone().filter(|_| features.titles),
            description: self.description.clone().filter(|_| features.icons),
            icons: if features.icons { self.icons.clone() } else { Vec::new() },
            website_url: self.website_url.clone().filter(|_| features.icons),
            ..self.clone()
        }
    }
}

/// Capabilities of a client. Unknown capabilities are ignored (C-23).
///
/// Only the presence of a capability is kept, whatever else the client declares about it; of an
/// extension, its settings as well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// Supports `sampling/createMessage`.
    pub sampling: Option<SamplingCapability>,
    /// Supports `elicitation/create`.
    pub elicitation: Option<ElicitationCapability>,
    /// Supports `roots/list`.
    pub roots: Option<RootsCapability>,
    /// Wants the questions of a session in results only, never as requests (C-06).
    pub inline_interaction: bool,
    /// Extensions of the protocol.
    pub extensions: ClientExtensions,
}

/// Extensions that a client supports, with their settings. Cheap to clone, and free if there are
/// none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientExtensions {
    settings: Option<Arc<Map<String, Value>>>,
}

impl ClientExtensions {
    /// Adds an extension, replacing one of the same name.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, settings: Map<String, Value>) -> Self {
        let all = Arc::make_mut(self.settings.get_or_insert_default());
        all.insert(name.into(), settings.into());
        self
    }

    /// Returns the settings of an extension, if the client supports it.
    pub fn get(&self, name: &str) -> Option<&Map<String, Value>> {
        self.settings.as_ref()?.get(name)?.as_object()
    }

    /// Returns the settings of all extensions by name, unless there are none.
    pub fn all(&self) -> Option<&Map<String, Value>> {
        self.settings.as_deref()
    }

    /// Reads the extensions from an object. Its entries are objects; whatever else is not null
    /// counts as one without members.
    fn from_raw(raw: Raw<'_>) -> Result<Self, DecodeError> {
        // Counted on the raw value, so that nothing beyond the limits is ever held.
        let mut count = 0;
        raw.each_member::<&str, DecodeError>(&[], |_, _| {
            count += 1;
            Ok(())
        })?;
        if count == 0 {
            return Ok(Self::default());
        }
        if count > MAX_EXTENSIONS || raw.bytes().len() > MAX_EXTENSIONS_BYTES {
            return Err(DecodeError::Shape(format!(
                "extensions may have {MAX_EXTENSIONS} entries and {MAX_EXTENSIONS_BYTES} bytes"
            )));
        }
        let mut settings: Map<String, Value> = raw.decode()?;
        settings.retain(|_, settings| !settings.is_null());
        for settings in settings.values_mut().filter(|settings| !settings.is_object()) {
            *settings = Map::new().into();
        }
        Ok(Self { settings: Some(Arc::new(settings)) })
    }
}

/// Limit on the extensions that a client declares.
const MAX_EXTENSIONS: usize = 64;

/// Limit on the encoded length of all extensions that a client declares.
const MAX_EXTENSIONS_BYTES: usize = 16 * 1024;

/// Details of the sampling capability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SamplingCapability {
    /// The model may be offered tools.
    pub tools: bool,
    /// The client can add context of servers.
    pub context: bool,
}

/// The elicitation modes a client supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElicitationCapability {
    /// Form mode.
    pub form: bool,
    /// URL mode.
    pub url: bool,
}

/// Details of the roots capability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RootsCapability {
    /// The client announces changes of its roots.
    pub list_changed: bool,
}

impl ClientCapabilities {
    /// Reads the capabilities from an object.
    pub fn from_raw(raw: Raw<'_>) -> Result<Self, DecodeError> {
        let [sampling, elicitation, roots, experimental, extensions] =
            raw.members(["sampling", "elicitation", "roots", "experimental", "extensions"])?;
        let sampling = declared(sampling, ["tools", "context"])?
            .map(|[tools, context]| SamplingCapability { tools, context });
        // Without either mode, form mode is meant: it was the only one before there were modes.
        let elicitation = declared(elicitation, ["form", "url"])?
            .map(|[form, url]| ElicitationCapability { form: form || !url, url });
        let list_changed = match roots.filter(|raw| raw.kind() == ValueKind::Object) {
            Some(raw) => raw.members(["listChanged"])?[0].and_then(|raw| raw.decode().ok()),
            None => None,
        };
        let roots = declared(roots, [])?
            .map(|[]| RootsCapability { list_changed: list_changed.unwrap_or_default() });
        let inline_interaction = experimental.is_some_and(wants_inline);
        let extensions = match extensions.filter(|raw| raw.kind() == ValueKind::Object) {
            Some(raw) => ClientExtensions::from_raw(raw)?,
            None => ClientExtensions::default(),
        };
        Ok(Self { sampling, elicitation, roots, inline_interaction, extensions })
    }
}

/// Returns whether the capability `interaction` has `"delivery": "inline"`. Malformed values count
/// as absent.
fn wants_inline(experimental: Raw<'_>) -> bool {
    fn member<'a>(raw: Raw<'a>, name: &str) -> Option<Raw<'a>> {
        let object = Some(raw).filter(|raw| raw.kind() == ValueKind::Object)?;
        object.members([name]).ok().and_then(|[found]| found)
    }
    let delivery = member(experimental, "interaction").and_then(|raw| member(raw, "delivery"));
    delivery.and_then(Raw::as_text).is_some_and(|delivery| delivery == "inline")
}

/// Returns which parts of a capability are present, or `None` if the capability is absent.
fn declared<const N: usize>(
    raw: Option<Raw<'_>>,
    parts: [&str; N],
) -> Result<Option<[bool; N]>, DecodeError> {
    let is_there = |raw: Option<Raw<'_>>| raw.is_some_and(|raw| raw.kind() != ValueKind::Null);
    match raw {
        Some(raw) if raw.kind() == ValueKind::Object => Ok(Some(raw.members(parts)?.map(is_there))),
        raw => Ok(is_there(raw).then_some([false; N])),
    }
}

/// Capabilities of a server. Only what is available is declared (PAT-005).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerCapabilities {
    /// Tools can be listed and called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ListCapability>,
    /// Resources can be listed and read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceCapability>,
    /// Prompts can be listed and retrieved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts: Option<ListCapability>,
    /// Arguments can be completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions: Option<Map<String, Value>>,
    /// Log messages are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logging: Option<Map<String, Value>>,
    /// Experimental capabilities by name.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub experimental: Map<String, Value>,
    /// Extensions by name, in revisions that have them.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extensions: Map<String, Value>,
}

/// A capability about a list that may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListCapability {
    /// Changes of the list are announced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub list_changed: bool,
}

/// The capability to list and read resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceCapability {
    /// Clients can subscribe to changes of single resources.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub subscribe: bool,
    /// Changes of the list are announced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub list_changed: bool,
}

#[cfg(test)]
mod tests {
    use super::{ClientCapabilities, ElicitationCapability, SamplingCapability};
    use crate::raw::Raw;
    use serde_json::Map;

    /// PAT-009, PAT-047, C-23: capabilities are read in every form.
    #[test]
    fn capabilities_are_read() {
        let read = |text| ClientCapabilities::from_raw(Raw::Json(text)).unwrap();
        assert_eq!(read(r#"{"sampling":null,"other":{"elicitation":{}}}"#), read("{}"));
        let sampling = |text| read(text).sampling;
        let tools = |tools| Some(SamplingCapability { tools, context: false });
        assert_eq!(sampling(r#"{"sampling":{}}"#), tools(false));
        assert_eq!(sampling(r#"{"sampling":true}"#), tools(false));
        assert_eq!(sampling(r#"{"sampling":{"tools":{}}}"#), tools(true));
        assert_eq!(sampling(r#"{"sampling":{"tools":null}}"#), tools(false));
        for (text, form, url) in [
            (r#"{"elicitation":{}}"#, true, false),
            (r#"{"elicitation":{"form":{}}}"#, true, false),
            (r#"{"elicitation":{"url":{}}}"#, false, true),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, true, true),
        ] {
            assert_eq!(read(text).elicitation, Some(ElicitationCapability { form, url }), "{text}");
        }
        let roots = |text| read(text).roots.map(|roots| roots.list_changed);
        assert_eq!(roots(r#"{"roots":{"listChanged":true}}"#), Some(true));
        assert_eq!(roots(r#"{"roots":{"listChanged":7}}"#), Some(false));
        assert_eq!(roots("{}"), None);
    }

    #[test]
    fn extensions_are_read_with_their_settings_within_limits() {
        let read = |text: &str| ClientCapabilities::from_raw(Raw::Json(text));
        let extensions = |text| read(text).unwrap().extensions;
        for none in ["{}", r#"{"extensions":{}}"#, r#"{"extensions":7}"#] {
            assert_eq!(extensions(none).all(), None, "{none}");
        }
        let some = extensions(r#"{"extensions":{"a/b":{"x":1},"c/d":null,"e/f":true}}"#);
        assert_eq!(some.get("a/b").unwrap()["x"], 1);
        assert_eq!((some.get("c/d"), some.get("e/f")), (None, Some(&Map::new())));
        assert_eq!(some, some.clone().with("e/f", Map::new()));
        let many: Vec<_> = (0..65).map(|number| format!(r#""a/{number}":{{}}"#)).collect();
        let long = format!(r#""a/b":{{"x":"{}"}}"#, "x".repeat(16 * 1024));
        for entries in [many.join(","), long] {
            assert!(read(&format!(r#"{{"extensions":{{{entries}}}}}"#)).is_err());
        }
    }
}
