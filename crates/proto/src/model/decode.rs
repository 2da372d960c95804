//! Decoding of definitions that servers list, on the client side.
//!
//! Only the identifying member is required. Other members that are `null` or of the wrong type are
//! left out: a malformed optional member does not make a tool unusable.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{
    Description, Icon, ListCapability, Meta, PromptArgument, PromptDefinition, ResourceCapability,
    ResourceDefinition, ServerCapabilities, TemplateDefinition, ToolDefinition,
};

/// Implements `Deserialize` for a definition by its members.
macro_rules! deserialize_by_members {
    ($($name:ident)*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let members = Members(Map::deserialize(deserializer)?);
                Self::from_members(members).map_err(D::Error::custom)
            }
        }
    )*};
}

deserialize_by_members! { ToolDefinition PromptDefinition ResourceDefinition TemplateDefinition ServerCapabilities }

impl ToolDefinition {
    fn from_members(mut members: Members) -> Result<Self, String> {
        Ok(Self {
            name: members.required("name", "a tool")?,
            title: members.take("title"),
            description: members.take("description"),
            input_schema: members.take("inputSchema").unwrap_or_default(),
            output_schema: members.take("outputSchema"),
            annotations: members.take("annotations"),
            icons: members.icons(),
            requires_task: members.take("execution").is_some_and(|execution: Meta| {
                execution.get("taskSupport") == Some(&"required".into())
            }),
            meta: members.take("_meta").unwrap_or_default(),
        })
    }
}

impl PromptDefinition {
    fn from_members(mut members: Members) -> Result<Self, String> {
        let arguments: Vec<Value> = members.take("arguments").unwrap_or_default();
        Ok(Self {
            name: members.required("name", "a prompt")?,
            title: members.take("title"),
            description: members.take("description"),
            arguments: arguments.into_iter().filter_map(argument).collect(),
            icons: members.icons(),
            meta: members.take("_meta").unwrap_or_default(),
        })
    }
}

fn argument(value: Value) -> Option<PromptArgument> {
    let Value::Object(members) = value else { return None };
    let mut members = Members(members);
    Some(PromptArgument {
        name: members.take("name")?,
        title: members.take("title"),
        description: members.take("description"),
        required: members.take("required").unwrap_or_default(),
    })
}

impl ResourceDefinition {
    fn from_members(mut members: Members) -> Result<Self, String> {
        let uri: String = members.required("uri", "a resource")?;
        let size = members.take("size");
        Ok(Self { size, description: description(members, &uri), uri })
    }
}

impl TemplateDefinition {
    fn from_members(mut members: Members) -> Result<Self, String> {
        let uri_template: String = members.required("uriTemplate", "a resource template")?;
        Ok(Self { description: description(members, &uri_template), uri_template })
    }
}

fn description(mut members: Members, uri: &str) -> Description {
    Description {
        name: members.take("name").unwrap_or_else(|| uri.to_owned()),
        title: members.take("title"),
        text: members.take("description"),
        mime_type: members.take("mimeType"),
        icons: members.icons(),
        annotations: members.take("annotations"),
        meta: members.take("_meta").unwrap_or_default(),
    }
}

impl ServerCapabilities {
    fn from_members(mut members: Members) -> Result<Self, String> {
        let list = |members: Option<Meta>| {
            members.map(|members| ListCapability { list_changed: is_true(&members, "listChanged") })
        };
        Ok(Self {
            tools: list(members.take("tools")),
            resources: members.take("resources").map(|members: Meta| ResourceCapability {
                subscribe: is_true(&members, "subscribe"),
                list_changed: is_true(&members, "listChanged"),
            }),
            prompts: list(members.take("prompts")),
            completions: members.take("completions"),
            logging: members.take("logging"),
            experimental: members.take("experimental").unwrap_or_default(),
            extensions: members.take("extensions").unwrap_or_default(),
        })
    }
}

fn is_true(members: &Meta, name: &str) -> bool {
    members.get(name) == Some(&Value::Bool(true))
}

/// The members of one object, removed as they are read.
struct Members(Map<String, Value>);

impl Members {
    fn take<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        serde_json::from_value(self.0.remove(name)?).ok()
    }

    /// The icons that may be shown.
    fn icons(&mut self) -> Vec<Icon> {
        self.0.remove("icons").map(Icon::displayable).unwrap_or_default()
    }

    fn required(&mut self, name: &str, of: &str) -> Result<String, String> {
        self.take(name).ok_or_else(|| format!("{of} needs `{name}`, a string"))
    }
}

#[cfg(test)]
mod tests {
    use super::{PromptDefinition, ResourceDefinition, ServerCapabilities, ToolDefinition};
    use serde_json::{Value, json};

    /// MCP-036: a malformed optional member is left out and spoils nothing else.
    #[test]
    fn malformed_optional_members_are_left_out() {
        let tool = json!({"name": "a", "title": null, "description": 7, "inputSchema": {"x": 1},
            "annotations": {"readOnlyHint": true}, "icons": [{"src": "file:///x"}]});
        let tool: ToolDefinition = serde_json::from_value(tool).unwrap();
        assert!(tool.icons.is_empty());
        assert_eq!((tool.title, tool.description), (None, None));
        assert_eq!(tool.input_schema["x"], 1);
        assert_eq!(tool.annotations.unwrap().read_only_hint, Some(true));
        let prompt = json!({"name": "p", "arguments": [{"name": "x", "required": true}, 7, {}]});
        let prompt: PromptDefinition = serde_json::from_value(prompt).unwrap();
        assert_eq!((prompt.arguments.len(), prompt.arguments[0].required), (1, true));
        let resource: ResourceDefinition =
            serde_json::from_value(json!({"uri": "x:/a", "size": -1})).unwrap();
        assert_eq!((resource.description.name.as_str(), resource.size), ("x:/a", None));
    }

    #[test]
    fn definitions_without_a_name_are_rejected() {
        for value in [json!({}), json!({"name": 7}), json!([]), Value::Null] {
            assert!(serde_json::from_value::<ToolDefinition>(value.clone()).is_err(), "{value}");
        }
    }

    #[test]
    fn capabilities_are_read() {
        let read = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true},
            "prompts": null, "logging": {}, "other": 1});
        let read: ServerCapabilities = serde_json::from_value(read).unwrap();
        assert!(read.tools.unwrap().list_changed);
        assert!(read.resources.unwrap().subscribe);
        assert!((read.prompts.is_none(), read.logging.is_some()) == (true, true));
    }
}
