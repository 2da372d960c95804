//! Small pictures for lists.

use serde::{Deserialize, Serialize};

/// A picture a client may show beside a name, where the revision has icons.
///
/// ```
/// use mcp_flow_proto::model::Icon;
///
/// let icon = Icon::new("https://example.com/chart.svg").with_mime_type("image/svg+xml");
/// let wire = serde_json::to_string(&icon).unwrap();
/// assert_eq!(wire, r#"{"src":"https://example.com/chart.svg","mimeType":"image/svg+xml"}"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Icon {
    /// Where it is: an `https:` or `data:` URI.
    pub src: String,
    /// What kind of file, if the source does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// At which sizes it can be used, as `48x48` or `any`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<String>,
    /// For which background it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theme: Option<IconTheme>,
}

/// The background an icon is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IconTheme {
    /// A light one.
    Light,
    /// A dark one.
    Dark,
}

impl Icon {
    /// An icon by its place.
    pub fn new(src: impl Into<String>) -> Self {
        Self { src: src.into(), ..Self::default() }
    }

    /// The same icon, said to be of this kind.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }
}
