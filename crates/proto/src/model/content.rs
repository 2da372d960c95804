//! Content: what tools return and messages hold.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Meta;

/// One piece of content, in the official form.
///
/// ```
/// use mcp_flow_proto::model::Content;
///
/// let text = serde_json::to_string(&Content::text("hello")).unwrap();
/// assert_eq!(text, r#"{"type":"text","text":"hello"}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Text for a person or a model.
    Text {
        /// The text.
        text: String,
        /// For whom, and how important.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<Box<Annotations>>,
    },
    /// A picture.
    #[serde(rename_all = "camelCase")]
    Image {
        /// The file's bytes.
        data: Blob,
        /// What kind of file, such as `image/png`.
        mime_type: String,
        /// For whom, and how important.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<Box<Annotations>>,
    },
    /// Sound.
    #[serde(rename_all = "camelCase")]
    Audio {
        /// The file's bytes.
        data: Blob,
        /// What kind of file, such as `audio/wav`.
        mime_type: String,
        /// For whom, and how important.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<Box<Annotations>>,
    },
    /// A resource, embedded whole.
    Resource {
        /// The resource.
        resource: ResourceContents,
        /// For whom, and how important.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<Box<Annotations>>,
    },
    /// A resource, by reference.
    ResourceLink(Box<ResourceLink>),
}

impl Content {
    /// Plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), annotations: None }
    }

    /// A picture from the bytes of its file.
    pub fn image(data: impl Into<Vec<u8>>, mime_type: impl Into<String>) -> Self {
        Self::Image { data: Blob(data.into()), mime_type: mime_type.into(), annotations: None }
    }

    /// Sound from the bytes of its file.
    pub fn audio(data: impl Into<Vec<u8>>, mime_type: impl Into<String>) -> Self {
        Self::Audio { data: Blob(data.into()), mime_type: mime_type.into(), annotations: None }
    }
}

/// Bytes, written as base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob(pub Vec<u8>);

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&base64::display::Base64Display::new(&self.0, &STANDARD))
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Self).map_err(D::Error::custom)
    }
}

/// What a resource holds: text, or bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ResourceContents {
    /// Text.
    #[serde(rename_all = "camelCase")]
    Text {
        /// Which resource.
        uri: String,
        /// What kind of text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
        /// The text.
        text: String,
    },
    /// Bytes.
    #[serde(rename_all = "camelCase")]
    Blob {
        /// Which resource.
        uri: String,
        /// What kind of bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
        /// The bytes.
        blob: Blob,
    },
}

/// A reference to a resource that can be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceLink {
    /// Where it is.
    pub uri: String,
    /// Short name for programs.
    pub name: String,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What kind of content reading it gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// How many bytes reading it gives, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// For whom, and how important.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Box<Annotations>>,
    /// Anything else.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<Meta>>,
}

/// Hints on how content is meant to be used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// For whom it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audience: Vec<Audience>,
    /// How important it is, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// When it was last changed, as an ISO 8601 text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

/// For whom content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Audience {
    /// The person.
    User,
    /// The model.
    Assistant,
}

#[cfg(test)]
mod tests {
    use super::{Content, ResourceContents, ResourceLink};
    use serde_json::{Value, json};

    /// MCP-058: content in the official shapes, both ways.
    #[test]
    fn content_has_the_official_shape() {
        check(&Content::text("hi"), &json!({"type": "text", "text": "hi"}));
        check(
            &Content::image([1, 2, 255], "image/png"),
            &json!({"type": "image", "data": "AQL/", "mimeType": "image/png"}),
        );
        check(
            &Content::audio([0], "audio/wav"),
            &json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}),
        );
        check(
            &Content::Resource {
                resource: ResourceContents::Text {
                    uri: "file:///a".into(),
                    mime_type: None,
                    text: "x".into(),
                },
                annotations: None,
            },
            &json!({"type": "resource", "resource": {"uri": "file:///a", "text": "x"}}),
        );
        check(
            &Content::ResourceLink(Box::new(ResourceLink {
                uri: "file:///a".into(),
                name: "a".into(),
                ..ResourceLink::default()
            })),
            &json!({"type": "resource_link", "uri": "file:///a", "name": "a"}),
        );
    }

    fn check(content: &Content, wire: &Value) {
        assert_eq!(&serde_json::to_value(content).unwrap(), wire);
        assert_eq!(&serde_json::from_value::<Content>(wire.clone()).unwrap(), content);
    }
}
