//! Icons and links for display, of definitions and implementations.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

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

impl From<&str> for Icon {
    fn from(src: &str) -> Self {
        Self::new(src)
    }
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

    /// Reads the icons that a peer declares, without those that may not be shown.
    pub fn displayable(icons: Value) -> Vec<Self> {
        let Value::Array(icons) = icons else { return Vec::new() };
        let icons = icons.into_iter().take(MAX_ICONS);
        let icons = icons.filter_map(|icon| serde_json::from_value::<Self>(icon).ok());
        icons.filter(Self::is_displayable).collect()
    }

    /// Returns whether the icon may be shown: an image in an `https:` or `data:` URI of bounded
    /// length. Any other scheme could run scripts, read files or reveal the user to the network.
    ///
    /// ```
    /// use mcp_flow_proto::model::Icon;
    ///
    /// assert!(Icon::new("https://example.com/chart.svg").is_displayable());
    /// assert!(Icon::new("data:image/png;base64,iVBORw0KGgo=").is_displayable());
    /// assert!(!Icon::new("javascript:alert(1)").is_displayable());
    /// ```
    pub fn is_displayable(&self) -> bool {
        let is_kind = |kind: &Option<String>| {
            kind.as_deref().is_none_or(|kind| has_prefix(kind, "image/") && kind.len() <= MAX_TEXT)
        };
        let is_source = is_https(&self.src, MAX_TEXT)
            || (has_prefix(&self.src, "data:image/") && is_plain(&self.src, MAX_DATA));
        let sizes = &self.sizes;
        is_source
            && is_kind(&self.mime_type)
            && sizes.len() <= MAX_SIZES
            && sizes.iter().all(|size| size.len() <= 16)
    }
}

/// Returns whether a URL may be shown as a link: `https:`, or `http:` for sites of local networks.
pub fn is_website(url: &str) -> bool {
    is_https(url, MAX_TEXT) || (has_prefix(url, "http://") && is_plain(url, MAX_TEXT))
}

fn is_https(uri: &str, longest: usize) -> bool {
    let host = uri.get("https://".len()..).unwrap_or_default();
    has_prefix(uri, "https://")
        && host.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[')
        && is_plain(uri, longest)
}

/// Returns whether a text has only characters that a URI may contain.
fn is_plain(uri: &str, longest: usize) -> bool {
    let is_good = |byte: u8| byte.is_ascii_graphic() && !b"\\\"<>^`{|}".contains(&byte);
    uri.len() <= longest && uri.bytes().all(is_good)
}

fn has_prefix(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Decodes icons, for derived implementations of `Deserialize`.
pub(super) fn deserialize_icons<'de, D>(deserializer: D) -> Result<Vec<Icon>, D::Error>
where
    D: Deserializer<'de>,
{
    Value::deserialize(deserializer).map(Icon::displayable)
}

/// Decodes the URL of a website, for derived implementations of `Deserialize`.
pub(super) fn deserialize_website<'de, D>(deserializer: D) -> Result<Option<String>, D::Error>
where
    D: Deserializer<'de>,
{
    Ok(match Value::deserialize(deserializer)? {
        Value::String(url) if is_website(&url) => Some(url),
        _ => None,
    })
}

/// Limit on the icons of one definition.
const MAX_ICONS: usize = 16;

/// Limit on the sizes of one icon.
const MAX_SIZES: usize = 16;

/// Limit on a URL or MIME type.
const MAX_TEXT: usize = 2048;

/// Limit on an image in a `data:` URI.
const MAX_DATA: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::{Icon, is_website};
    use serde_json::json;

    #[test]
    fn only_images_by_https_and_data_uris_are_displayable() {
        for (src, expected) in [
            ("https://a.example/x.png", true),
            ("HTTPS://a.example/x.png", true),
            ("data:image/svg+xml;base64,PHN2Zy8+", true),
            ("http://a.example/x.png", false),
            ("https://", false),
            ("https:///x", false),
            ("https://a.example/ x", false),
            ("https://a.example/\u{1b}[31m", false),
            ("javascript:alert(1)", false),
            ("data:text/html,<script>alert(1)</script>", false),
            ("file:///etc/passwd", false),
            ("", false),
        ] {
            assert_eq!(Icon::new(src).is_displayable(), expected, "{src}");
        }
        let long = format!("data:image/png;base64,{}", "A".repeat(65 * 1024));
        assert!(!Icon::new(long).is_displayable());
        assert!(!Icon::new("https://a.example").with_mime_type("text/html").is_displayable());
    }

    #[test]
    fn icons_that_may_not_be_shown_are_left_out() {
        let good = json!({"src": "https://a.example/x"});
        let icons =
            json!([{"src": "file:///x"}, 7, {}, good, {"src": "https://a.example", "sizes": 7}]);
        assert_eq!(Icon::displayable(icons), [Icon::new("https://a.example/x")]);
        assert_eq!(Icon::displayable(json!(vec![good; 1000])).len(), 16);
        assert_eq!(Icon::displayable(json!("none")), []);
    }

    #[test]
    fn websites_are_http_urls() {
        for (url, expected) in [
            ("https://a.example/docs", true),
            ("http://localhost:8080", true),
            ("javascript:alert(1)", false),
            ("https://a.example/\"><script>", false),
        ] {
            assert_eq!(is_website(url), expected, "{url}");
        }
    }
}
