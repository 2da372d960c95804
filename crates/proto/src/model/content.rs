//! Content blocks of tool results and messages.
//!
//! This module has the types. `wire` encodes them by revision, `seed_002` in the form of that
//! document, `decode` reads every form peers send, and `media` creates content from files.

mod decode;
mod media;
mod resource;
mod seed_002;
mod wire;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Meta;

pub use media::{Media, MediaError, guess_mime_type};
pub use resource::{ResourceBody, ResourceContents, ResourceLink};
pub use wire::{ContentForm, ContentList};

/// One content block.
///
/// Serializes in the official form of the newest revision; [`wire`](Self::wire) has the others.
/// Deserializes from any form a peer may send.
///
/// ```
/// use mcp_flow_proto::model::Content;
///
/// let text = serde_json::to_string(&Content::text("hello")).unwrap();
/// assert_eq!(text, r#"{"type":"text","text":"hello"}"#);
///
/// let image: Content = serde_json::from_str(r#"{"type":"image","url":"https://a.example/b.png"}"#).unwrap();
/// assert_eq!(image, Content::image_url("https://a.example/b.png"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Text for a person or a model.
    Text {
        /// The text.
        text: String,
        /// Audience and priority.
        annotations: Option<Box<Annotations>>,
        /// Additional members.
        meta: Option<Box<Meta>>,
    },
    /// An image.
    Image {
        /// The file's bytes.
        data: Blob,
        /// MIME type, such as `image/png`.
        mime_type: String,
        /// URL of the same image, if known.
        url: Option<String>,
        /// Audience and priority.
        annotations: Option<Box<Annotations>>,
        /// Additional members.
        meta: Option<Box<Meta>>,
    },
    /// An image of which only the URL is known. It is never fetched here.
    ImageUrl {
        /// URL of the image.
        url: String,
        /// MIME type, if known.
        mime_type: Option<String>,
        /// Audience and priority.
        annotations: Option<Box<Annotations>>,
        /// Additional members.
        meta: Option<Box<Meta>>,
    },
    /// Audio.
    Audio {
        /// The file's bytes.
        data: Blob,
        /// MIME type, such as `audio/wav`.
        mime_type: String,
        /// Audience and priority.
        annotations: Option<Box<Annotations>>,
        /// Additional members.
        meta: Option<Box<Meta>>,
    },
    /// An embedded resource.
    Resource {
        /// The resource.
        resource: ResourceContents,
        /// Audience and priority.
        annotations: Option<Box<Annotations>>,
        /// Additional members.
        meta: Option<Box<Meta>>,
    },
    /// A link to a resource.
    ResourceLink(Box<ResourceLink>),
    /// Content sent on an execution stream of the same request, on `/mcp-flow` only (C-50).
    Stream {
        /// Tag of the stream.
        tag: u32,
        /// MIME type of the content.
        mime_type: String,
        /// Audience and priority.
        annotations: Option<Box<Annotations>>,
        /// Additional members.
        meta: Option<Box<Meta>>,
    },
}

impl Content {
    /// Creates text content.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), annotations: None, meta: None }
    }

    /// Creates an image from the bytes of its file.
    pub fn image(data: impl Into<Vec<u8>>, mime_type: impl Into<String>) -> Self {
        let (data, mime_type) = (Blob(data.into()), mime_type.into());
        Self::Image { data, mime_type, url: None, annotations: None, meta: None }
    }

    /// Creates an image from the bytes of its file, with a URL where it can also be fetched.
    pub fn image_with_url(
        data: impl Into<Vec<u8>>,
        mime_type: impl Into<String>,
        url: impl Into<String>,
    ) -> Self {
        let (data, mime_type, url) = (Blob(data.into()), mime_type.into(), Some(url.into()));
        Self::Image { data, mime_type, url, annotations: None, meta: None }
    }

    /// Creates an image of which only the URL is known.
    ///
    /// Clients receive a link (C-25); the image is not fetched for them.
    pub fn image_url(url: impl Into<String>) -> Self {
        Self::ImageUrl { url: url.into(), mime_type: None, annotations: None, meta: None }
    }

    /// Creates audio from the bytes of its file.
    pub fn audio(data: impl Into<Vec<u8>>, mime_type: impl Into<String>) -> Self {
        let (data, mime_type) = (Blob(data.into()), mime_type.into());
        Self::Audio { data, mime_type, annotations: None, meta: None }
    }

    /// Embeds a resource.
    pub fn embedded(resource: ResourceContents) -> Self {
        Self::Resource { resource, annotations: None, meta: None }
    }

    /// Creates a link to a resource from its URI and a short name.
    pub fn link(uri: impl Into<String>, name: impl Into<String>) -> Self {
        let link = ResourceLink { uri: uri.into(), name: name.into(), ..ResourceLink::default() };
        Self::ResourceLink(Box::new(link))
    }

    /// Creates a reference to an execution stream of the same request.
    pub fn stream(tag: u32, mime_type: impl Into<String>) -> Self {
        Self::Stream { tag, mime_type: mime_type.into(), annotations: None, meta: None }
    }

    /// Sets the annotations.
    #[must_use]
    pub fn with_annotations(mut self, hints: Annotations) -> Self {
        *self.extras_mut().0 = Some(Box::new(hints));
        self
    }

    /// Sets `_meta`.
    #[must_use]
    pub fn with_meta(mut self, members: Meta) -> Self {
        *self.extras_mut().1 = Some(Box::new(members));
        self
    }

    fn extras_mut(&mut self) -> (&mut Option<Box<Annotations>>, &mut Option<Box<Meta>>) {
        match self {
            Self::Text { annotations, meta, .. }
            | Self::Image { annotations, meta, .. }
            | Self::ImageUrl { annotations, meta, .. }
            | Self::Audio { annotations, meta, .. }
            | Self::Resource { annotations, meta, .. }
            | Self::Stream { annotations, meta, .. } => (annotations, meta),
            Self::ResourceLink(link) => (&mut link.annotations, &mut link.meta),
        }
    }

    fn extras(&self) -> (Option<&Annotations>, Option<&Meta>) {
        let (annotations, meta) = match self {
            Self::Text { annotations, meta, .. }
            | Self::Image { annotations, meta, .. }
            | Self::ImageUrl { annotations, meta, .. }
            | Self::Audio { annotations, meta, .. }
            | Self::Resource { annotations, meta, .. }
            | Self::Stream { annotations, meta, .. } => (annotations, meta),
            Self::ResourceLink(link) => (&link.annotations, &link.meta),
        };
        (annotations.as_deref(), meta.as_deref())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// Bytes, encoded as base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob(pub Vec<u8>);

impl Blob {
    fn from_base64(text: &str) -> Result<Self, base64::DecodeError> {
        STANDARD.decode(text).map(Self)
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Base64(&self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_base64(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Borrowed bytes, encoded as base64.
struct Base64<'a>(&'a [u8]);

impl Serialize for Base64<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&base64::display::Base64Display::new(self.0, &STANDARD))
    }
}

/// Hints on the intended use of content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// Intended audience.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audience: Vec<Audience>,
    /// Importance, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// Time of the last change in ISO 8601 format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

/// The intended audience of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Audience {
    /// The user.
    User,
    /// The model.
    Assistant,
}
