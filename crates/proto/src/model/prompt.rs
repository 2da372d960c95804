//! Prompts: definitions, arguments and messages.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use super::{Content, ContentForm, Icon, Meta};
use crate::revision::Revision;

/// The definition of a prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptDefinition {
    /// Unique name.
    pub name: String,
    /// Display name.
    pub title: Option<String>,
    /// Purpose of the prompt.
    pub description: Option<String>,
    /// Arguments of the prompt.
    pub arguments: Vec<PromptArgument>,
    /// Icons to show beside it.
    pub icons: Vec<Icon>,
    /// Additional members.
    pub meta: Meta,
}

/// An argument of a prompt; always a string on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptArgument {
    /// Name of the argument.
    pub name: String,
    /// Display name.
    pub title: Option<String>,
    /// Description of the argument.
    pub description: Option<String>,
    /// The argument must be given.
    pub required: bool,
}

impl PromptDefinition {
    /// Returns the definition for a client of this revision.
    ///
    /// ```
    /// use mcp_flow_proto::Revision;
    /// use mcp_flow_proto::model::{PromptArgument, PromptDefinition};
    /// use serde_json::json;
    ///
    /// let prompt = PromptDefinition {
    ///     name: "review".into(),
    ///     title: Some("Review code".into()),
    ///     arguments: vec![PromptArgument { name: "code".into(), required: true, ..Default::default() }],
    ///     ..PromptDefinition::default()
    /// };
    /// let wire = |revision| serde_json::to_value(prompt.wire(revision)).unwrap();
    ///
    /// let arguments = json!([{"name": "code", "required": true}]);
    /// assert_eq!(wire(Revision::V2025_03_26), json!({"name": "review", "arguments": arguments}));
    /// assert_eq!(wire(Revision::V2025_06_18)["title"], "Review code");
    /// ```
    pub fn wire(&self, revision: Revision) -> impl Serialize + '_ {
        let features = revision.features();
        WirePrompt {
            name: &self.name,
            title: self.title.as_deref().filter(|_| features.titles),
            description: self.description.as_deref(),
            arguments: self
                .arguments
                .iter()
                .map(|argument| WireArgument {
                    name: &argument.name,
                    title: argument.title.as_deref().filter(|_| features.titles),
                    description: argument.description.as_deref(),
                    required: argument.required,
                })
                .collect(),
            icons: if features.icons { &self.icons } else { &[] },
            meta: Some(&self.meta).filter(|meta| features.structured_content && !meta.is_empty()),
        }
    }
}

#[derive(Serialize)]
struct WirePrompt<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    arguments: Vec<WireArgument<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    icons: &'a [Icon],
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Meta>,
}

#[derive(Serialize)]
struct WireArgument<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    required: bool,
}

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PromptMessage {
    /// Author of the message.
    pub role: Role,
    /// Content of the message.
    pub content: Content,
}

impl PromptMessage {
    /// Creates a message from the user.
    pub fn user(content: impl Into<Content>) -> Self {
        Self { role: Role::User, content: content.into() }
    }

    /// Creates a message from the model.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self { role: Role::Assistant, content: content.into() }
    }
}

/// Messages to encode for a client of one revision.
#[derive(Clone, Copy, Debug)]
pub struct MessageList<'a> {
    /// The messages.
    pub items: &'a [PromptMessage],
    /// Revision of the client.
    pub revision: Revision,
    /// Form of the content.
    pub form: ContentForm,
}

impl Serialize for MessageList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.items.iter().map(|message| WireMessage {
            role: message.role,
            content: message.content.wire(self.revision, self.form),
        }))
    }
}

struct WireMessage<C> {
    role: Role,
    content: C,
}

impl<C: Serialize> Serialize for WireMessage<C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut message = serializer.serialize_struct("PromptMessage", 2)?;
        message.serialize_field("role", &self.role)?;
        message.serialize_field("content", &self.content)?;
        message.end()
    }
}

/// The result of `prompts/get`, for encoding.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GetPromptResult<'a> {
    /// `complete`, under revisions that have result types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_type: Option<&'static str>,
    /// Purpose of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'a str>,
    /// The messages.
    pub messages: MessageList<'a>,
    /// Additional members.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<&'a Meta>,
}

#[cfg(test)]
mod tests {
    use super::{PromptArgument, PromptDefinition};
    use crate::model::Icon;
    use crate::revision::Revision;
    use serde_json::json;

    /// PAT-038: members the revision does not have are left out.
    #[test]
    fn a_definition_follows_the_revision() {
        let title = || Some("T".to_owned());
        let argument = PromptArgument { title: title(), ..PromptArgument::default() };
        let definition = PromptDefinition {
            title: title(),
            arguments: vec![argument],
            icons: vec![Icon::new("data:,")],
            meta: json!({"a": 1}).as_object().cloned().unwrap_or_default(),
            ..PromptDefinition::default()
        };
        for revision in Revision::ALL {
            let wire = serde_json::to_value(definition.wire(revision)).unwrap();
            let has = |member: &str| wire.get(member).is_some();
            let titled = revision >= Revision::V2025_06_18;
            assert_eq!([has("title"), has("_meta")], [titled; 2], "{revision}");
            assert_eq!(wire["arguments"][0].get("title").is_some(), titled, "{revision}");
            assert_eq!(wire["arguments"][0]["required"], false);
            assert_eq!(has("icons"), revision >= Revision::V2025_11_25, "{revision}");
        }
    }
}
