//! Resources: definitions and contents.

use std::borrow::Cow;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{Annotations, Icon, Meta, ResourceContents, StatelessMembers};
use crate::raw::{Params, Raw};
use crate::revision::Revision;

/// The definition of a resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceDefinition {
    /// URI to read it by.
    pub uri: String,
    /// Name and description.
    pub description: Description,
    /// Size in bytes, if known.
    pub size: Option<u64>,
}

/// A resource template: resources whose URIs follow one pattern.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemplateDefinition {
    /// URI template (RFC 6570).
    pub uri_template: String,
    /// Name and description.
    pub description: Description,
}

/// Descriptive members shared by resources and templates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// Short name.
    pub name: String,
    /// Display name.
    pub title: Option<String>,
    /// Description for the model.
    pub text: Option<String>,
    /// MIME type of the contents.
    pub mime_type: Option<String>,
    /// Icons to show for it.
    pub icons: Vec<Icon>,
    /// Audience and priority.
    pub annotations: Option<Box<Annotations>>,
    /// Additional members.
    pub meta: Meta,
}

impl ResourceDefinition {
    /// Returns the definition for a client of this revision.
    ///
    /// ```
    /// use mcp_flow_proto::Revision;
    /// use mcp_flow_proto::model::ResourceDefinition;
    /// use serde_json::json;
    ///
    /// let mut page = ResourceDefinition { uri: "page:/a".into(), ..Default::default() };
    /// page.description.name = "a".into();
    /// page.description.title = Some("Page A".into());
    /// let wire = |revision| serde_json::to_value(page.wire(revision)).unwrap();
    ///
    /// assert_eq!(wire(Revision::V2024_11_05), json!({"uri": "page:/a", "name": "a"}));
    /// assert_eq!(
    ///     wire(Revision::V2025_06_18),
    ///     json!({"uri": "page:/a", "name": "a", "title": "Page A"})
    /// );
    /// ```
    pub fn wire(&self, revision: Revision) -> impl Serialize + '_ {
        WireResource {
            uri: Some(&self.uri),
            size: self.size,
            ..WireResource::new(&self.description, revision)
        }
    }
}

impl TemplateDefinition {
    /// Returns the definition for a client of this revision.
    pub fn wire(&self, revision: Revision) -> impl Serialize + '_ {
        WireResource {
            uri_template: Some(&self.uri_template),
            ..WireResource::new(&self.description, revision)
        }
    }
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct WireResource<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri_template: Option<&'a str>,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "<[Icon]>::is_empty")]
    icons: &'a [Icon],
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<&'a Annotations>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Meta>,
}

impl<'a> WireResource<'a> {
    fn new(description: &'a Description, revision: Revision) -> Self {
        let features = revision.features();
        let meta = Some(&description.meta);
        Self {
            name: &description.name,
            title: description.title.as_deref().filter(|_| features.titles),
            description: description.text.as_deref(),
            mime_type: description.mime_type.as_deref(),
            icons: if features.icons { &description.icons } else { &[] },
            annotations: description.annotations.as_deref(),
            meta: meta.filter(|meta| features.structured_content && !meta.is_empty()),
            ..Self::default()
        }
    }
}

/// Reads `uri` from params. The error is a sentence that names the problem.
pub fn uri_from_params(params: Params<'_>) -> Result<Cow<'_, str>, String> {
    let [uri] = params.members(["uri"]).map_err(|error| error.to_string())?;
    let uri = uri.ok_or("uri is required")?;
    Raw::as_text(uri).ok_or_else(|| "uri must be a string".to_owned())
}

/// The result of `resources/read`, for encoding.
#[derive(Debug)]
pub struct ReadResult<'a> {
    /// The contents, usually one entry.
    pub contents: &'a [ResourceContents],
    /// Revision of the client.
    pub revision: Revision,
    /// Cache and server information, under stateless revisions.
    pub stateless: Option<StatelessMembers>,
}

impl Serialize for ReadResult<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stateless = self.stateless.as_ref().map_or(0, |_| StatelessMembers::MEMBERS);
        let mut map = serializer.serialize_map(Some(1 + stateless))?;
        let contents: Vec<_> =
            self.contents.iter().map(|entry| entry.wire(self.revision)).collect();
        map.serialize_entry("contents", &contents)?;
        if let Some(stateless) = &self.stateless {
            stateless.write(&mut map)?;
        }
        map.end()
    }
}

/// The params of `notifications/resources/updated`.
#[derive(Debug, Serialize)]
pub struct UpdatedParams<'a> {
    /// URI of the resource.
    pub uri: &'a str,
    /// `_meta` that identifies the subscription, under stateless revisions.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

#[cfg(test)]
mod tests {
    use super::{Description, ResourceDefinition, TemplateDefinition, uri_from_params};
    use crate::model::{Annotations, Icon, Meta};
    use crate::raw::{Params, Raw};
    use crate::revision::Revision;
    use serde_json::json;

    /// PAT-015: members the revision does not have are left out.
    #[test]
    fn a_definition_follows_the_revision() {
        let description = Description {
            name: "a".to_owned(),
            title: Some("A".to_owned()),
            text: Some("about".to_owned()),
            mime_type: Some("text/plain".to_owned()),
            icons: vec![Icon { src: "data:,".to_owned(), ..Icon::default() }],
            annotations: Some(Box::new(Annotations::default())),
            meta: Meta::from_iter([("x".to_owned(), json!(1))]),
        };
        let resource = ResourceDefinition {
            uri: "x:/a".to_owned(),
            description: description.clone(),
            size: Some(3),
        };
        let template = TemplateDefinition { uri_template: "x:/{a}".to_owned(), description };
        for revision in Revision::ALL {
            let recent = revision >= Revision::V2025_06_18;
            let newer = revision >= Revision::V2025_11_25;
            let resource = serde_json::to_value(resource.wire(revision)).unwrap();
            let template = serde_json::to_value(template.wire(revision)).unwrap();
            assert_eq!((&resource["uri"], &resource["size"]), (&json!("x:/a"), &json!(3)));
            assert_eq!(template["uriTemplate"], "x:/{a}");
            assert_eq!(template.get("uri").or(template.get("size")), None);
            for wire in [resource, template] {
                for (member, is_there) in [
                    ("name", true),
                    ("description", true),
                    ("mimeType", true),
                    ("annotations", true),
                    ("title", recent),
                    ("_meta", recent),
                    ("icons", newer),
                ] {
                    assert_eq!(wire.get(member).is_some(), is_there, "{revision} {member}");
                }
            }
        }
    }

    #[test]
    fn a_uri_is_read_or_the_error_names_it() {
        for (text, expected) in [
            (r#"{"uri":"x:/a"}"#, Ok("x:/a")),
            ("{}", Err("uri is required")),
            (r#"{"uri":7}"#, Err("uri must be a string")),
            (r#"{"uri":null}"#, Err("uri must be a string")),
        ] {
            let uri = uri_from_params(Params::new(Some(Raw::Json(text))));
            assert_eq!(uri.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }
}
