//! Builders of resources and templates.

use std::sync::Arc;

use mcp_flow_proto::model::{
    Annotations, CacheHint, Description, Icon, Meta, ResourceContents, ResourceDefinition,
    TemplateDefinition,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::completion::check_completers;
use super::contents::{Contents, IntoContents, ReadError};
use super::template::UriTemplate;
use super::{Resource, ResourceTemplate, Source, variables};
use crate::completion::Completer;
use crate::context::Context;

/// Builds a resource; finished by [`text`](Self::text), [`bytes`](Self::bytes) or
/// [`read`](Self::read).
#[derive(Debug)]
#[must_use]
pub struct ResourceBuilder {
    definition: ResourceDefinition,
    cache: Option<CacheHint>,
    /// `_meta` of the contents.
    pub(super) contents_meta: Meta,
}

/// Builds a template; finished by [`read`](Self::read).
#[derive(Debug)]
#[must_use]
pub struct TemplateBuilder {
    definition: TemplateDefinition,
    cache: Option<CacheHint>,
    pub(super) completers: Vec<(String, Completer)>,
}

macro_rules! describe {
    ($builder:ident) => {
        impl $builder {
            /// Sets a short name; defaults to the last segment of the URI.
            pub fn name(mut self, name: impl Into<String>) -> Self {
                self.about().name = name.into();
                self
            }

            /// Sets the display name.
            pub fn title(mut self, title: impl Into<String>) -> Self {
                self.about().title = Some(title.into());
                self
            }

            /// Sets the description that a model chooses by.
            pub fn description(mut self, description: impl Into<String>) -> Self {
                self.about().text = Some(description.into());
                self
            }

            /// Sets the MIME type of its contents, such as `text/markdown`.
            pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
                self.about().mime_type = Some(mime_type.into());
                self
            }

            /// Sets its audience and importance.
            pub fn annotations(mut self, annotations: Annotations) -> Self {
                self.about().annotations = Some(Box::new(annotations));
                self
            }

            /// Adds an icon: an image in an `https:` or `data:` URI.
            pub fn icon(mut self, icon: impl Into<Icon>) -> Self {
                self.about().icons.push(icon.into());
                self
            }

            /// Sets how long its contents may be cached, and by whom. By default they are stale at
            /// once. Whatever is said here, they are private if access to resources is restricted,
            /// and never cached if they are too large to be inline.
            pub fn cache(mut self, hint: CacheHint) -> Self {
                self.cache = Some(hint);
                self
            }

            /// Adds a member of the listed `_meta`.
            pub fn meta(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
                self.about().meta.insert(name.into(), value.into());
                self
            }

            fn about(&mut self) -> &mut Description {
                &mut self.definition.description
            }
        }
    };
}

describe!(ResourceBuilder);
describe!(TemplateBuilder);

impl ResourceBuilder {
    pub(super) fn new(uri: String) -> Self {
        let definition = ResourceDefinition { uri, ..ResourceDefinition::default() };
        Self { definition, cache: None, contents_meta: Meta::new() }
    }

    /// Sets the number of bytes of its contents, where known without reading.
    pub fn size(mut self, bytes: u64) -> Self {
        self.definition.size = Some(bytes);
        self
    }

    /// Finishes it with constant text.
    pub fn text(self, text: impl Into<String>) -> Result<Resource, BadResource> {
        let text = text.into();
        let size = text.len() as u64;
        let contents = ResourceContents::text(self.definition.uri.as_str(), text);
        self.size(size).fixed(contents)
    }

    /// Finishes it with constant bytes.
    pub fn bytes(self, bytes: impl Into<Vec<u8>>) -> Result<Resource, BadResource> {
        let bytes = bytes.into();
        let size = bytes.len() as u64;
        let contents = ResourceContents::bytes(self.definition.uri.as_str(), bytes);
        self.size(size).fixed(contents)
    }

    /// Finishes it with an async function that reads it.
    pub fn read<R, F, W>(self, function: F) -> Result<Resource, BadResource>
    where
        R: IntoContents,
        F: Fn(Context) -> W + Send + Sync + 'static,
        W: Future<Output = R> + Send + 'static,
    {
        let (uri, mime_type) = (self.definition.uri.clone(), self.mime_type_text());
        let meta = Arc::new(self.contents_meta.clone());
        self.finish(Source::Computed(Box::new(move |context| {
            let (work, uri, mime_type) = (function(context), uri.clone(), mime_type.clone());
            let meta = meta.clone();
            Box::pin(async move {
                let contents = work.await.into_contents(&uri, mime_type.as_deref())?;
                Ok(described(contents, &meta))
            })
        })))
    }

    fn fixed(self, mut contents: ResourceContents) -> Result<Resource, BadResource> {
        contents.mime_type = self.definition.description.mime_type.clone();
        if !self.contents_meta.is_empty() {
            contents.meta = Some(Box::new(self.contents_meta.clone()));
        }
        self.finish(Source::Fixed(contents))
    }

    fn finish(mut self, source: Source) -> Result<Resource, BadResource> {
        let uri = &self.definition.uri;
        check_uri(uri)?;
        check_icons(uri, &self.definition.description)?;
        if uri.starts_with("file://") && !uri.starts_with("file:///") {
            tracing::warn!(uri, "the resource names a host; it is also served as file:///");
        }
        name_after(&mut self.definition.description, uri);
        Ok(Resource { definition: self.definition, source, cache: self.cache })
    }

    fn mime_type_text(&self) -> Option<Arc<str>> {
        self.definition.description.mime_type.as_deref().map(Into::into)
    }
}

impl TemplateBuilder {
    pub(super) fn new(uri_template: String) -> Self {
        let definition = TemplateDefinition { uri_template, ..TemplateDefinition::default() };
        Self { definition, cache: None, completers: Vec::new() }
    }

    /// Finishes it with an async function that reads a resource by the values of its variables.
    ///
    /// If the values do not decode into the function's type, the resource does not exist.
    pub fn read<T, R, F, W>(mut self, function: F) -> Result<ResourceTemplate, BadResource>
    where
        T: DeserializeOwned,
        R: IntoContents,
        F: Fn(Context, T) -> W + Send + Sync + 'static,
        W: Future<Output = R> + Send + 'static,
    {
        let text = &self.definition.uri_template;
        let template = UriTemplate::parse(text)
            .map_err(|reason| BadResource::Template { template: text.clone(), reason })?;
        check_uri(&text.replace(['{', '}'], ""))?;
        check_icons(text, &self.definition.description)?;
        check_completers(text, &template, &self.completers)?;
        name_after(&mut self.definition.description, text);
        let mime_type: Option<Arc<str>> =
            self.definition.description.mime_type.as_deref().map(Into::into);
        let read = Box::new(move |context, uri: String, values: Vec<(&str, String)>| {
            let Ok(values) = variables::decode(values) else { return Err(ReadError::NotFound) };
            let (work, mime_type) = (function(context, values), mime_type.clone());
            let reading = async move { work.await.into_contents(&uri, mime_type.as_deref()) };
            Ok(Box::pin(reading) as super::Reading)
        });
        let (definition, completers, cache) = (self.definition, self.completers, self.cache);
        Ok(ResourceTemplate { definition, template, completers, read, cache })
    }
}

/// Checks that a text is a URI: a scheme, and no characters that need escaping.
fn check_uri(uri: &str) -> Result<(), BadResource> {
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let is_plain =
        uri.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\\"<>^`{|}".contains(&byte));
    if is_scheme && is_plain && uri.len() <= super::catalog::MAX_URI_LENGTH {
        Ok(())
    } else {
        Err(BadResource::Uri(uri.to_owned()))
    }
}

fn check_icons(uri: &str, description: &Description) -> Result<(), BadResource> {
    match description.icons.iter().find(|icon| !icon.is_displayable()) {
        None => Ok(()),
        Some(icon) => Err(BadResource::Icon { uri: uri.to_owned(), src: icon.src.clone() }),
    }
}

/// Adds `_meta` to contents that have none.
fn described(mut contents: Contents, meta: &Meta) -> Contents {
    if let Contents::Entries(entries) = &mut contents
        && !meta.is_empty()
    {
        for entry in entries {
            entry.meta.get_or_insert_with(|| Box::new(meta.clone()));
        }
    }
    contents
}

/// Sets a missing name to the last segment of the URI.
fn name_after(description: &mut Description, uri: &str) {
    if description.name.is_empty() {
        let part = uri.rsplit('/').find(|part| !part.is_empty());
        part.unwrap_or(uri).clone_into(&mut description.name);
    }
}

/// Error in a resource or template.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadResource {
    /// The URI is invalid.
    #[error(
        "{0:?} is not a URI: it must begin with a scheme such as file: and percent-encode special characters"
    )]
    Uri(String),
    /// The template is invalid.
    #[error("the template {template:?} cannot be used: {reason}")]
    Template {
        /// The template.
        template: String,
        /// The reason.
        reason: String,
    },
    /// An icon has a URI that clients do not show.
    #[error("the icon {src:?} of {uri} must be an image in an https: or data: URI")]
    Icon {
        /// The resource or template.
        uri: String,
        /// URI of the icon.
        src: String,
    },
    /// The URI is not one of apps.
    #[error("{0:?} is not the URI of an app: it must begin with ui://")]
    App(String),
    /// The page of an app cannot be allowed to use an origin.
    #[error(
        "{origin:?} of the app {uri} is not an origin such as https://api.example.com or wss://*.example.com"
    )]
    Origin {
        /// The app.
        uri: String,
        /// The origin.
        origin: String,
    },
}

#[cfg(test)]
mod tests {
    use crate::context::Context;
    use crate::resource::{Resource, ResourceTemplate};
    use std::collections::HashMap;

    #[test]
    fn invalid_uris_are_rejected_when_built() {
        for (uri, name) in [
            ("file:///a/b.txt", Some("b.txt")),
            ("urn:isbn:1", Some("urn:isbn:1")),
            ("x-y.z+1://host/", Some("host")),
            ("no scheme", None),
            ("", None),
            ("/a", None),
            ("1x:/a", None),
            ("x:/a b", None),
            ("x:/é", None),
            ("x:/{a}", None),
        ] {
            let built = Resource::builder(uri).text("").ok();
            let built = built.map(|resource| resource.definition().description.name.clone());
            assert_eq!(built.as_deref(), name, "{uri}");
        }
    }

    #[test]
    fn ambiguous_templates_are_rejected() {
        for (template, is_good) in [
            ("x:/{a}", true),
            ("x:/{a}/{+b}", true),
            ("x:/a", false),
            ("x:/{", false),
            ("x:/{a}{b}", false),
            ("x:/{?a}", false),
            ("{a}", false),
            ("x:/{a}/{a}", false),
        ] {
            let built = ResourceTemplate::builder(template)
                .read(async |_: Context, _: HashMap<String, String>| "");
            assert_eq!(built.is_ok(), is_good, "{template}");
        }
    }
}
