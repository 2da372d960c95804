//! Icons for lists.

use serde::{Deserialize, Serialize};

/// An icon a client may show beside a name, in revisions that have icons.
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
    /// An `https:` or `data:` URI.
    pub src: String,
    /// MIME type, if the source does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Supported sizes, as `48x48` or `any`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<String>,
    /// The background the icon is designed for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theme: Option<IconTheme>,
}

/// The background an icon is designed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IconTheme {
    /// Light background.
    Light,
    /// Dark background.
    Dark,
}

impl Icon {
    /// Creates an icon from its URI.
    pub fn new(src: impl Into<String>) -> Self {
        Self { src: src.into(), ..Self::default() }
    }

    /// Sets the MIME type.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }
}
