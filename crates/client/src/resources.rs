//! Listing and reading resources.

use mcp_flow_proto::model::{Meta, ResourceContents, ResourceDefinition, TemplateDefinition};
use mcp_flow_proto::{Raw, method};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::client::Client;
use crate::error::Error;
use crate::pages::Pages;
use crate::request::Request;

impl Client {
    /// The server's resources, page by page.
    pub fn resources(&self) -> Pages<ResourceDefinition> {
        Pages::new(self, method::RESOURCES_LIST, "resources")
    }

    /// The forms of resources that are not listed one by one, page by page.
    pub fn resource_templates(&self) -> Pages<TemplateDefinition> {
        Pages::new(self, method::RESOURCES_TEMPLATES_LIST, "resourceTemplates")
    }

    /// Reads a resource.
    pub fn read_resource(&self, uri: &str) -> Request<Value, ReadOutcome> {
        let params = json!({"uri": uri});
        let request = Request::new(self, method::RESOURCES_READ.into(), params, |raw: Raw<'_>| {
            Ok(raw.decode()?)
        });
        request.about(uri).repeatable()
    }
}

/// What reading a resource gave.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct ReadOutcome {
    /// The contents; one resource may have several.
    pub contents: Vec<Contents>,
    /// Anything else.
    #[serde(rename = "_meta", default)]
    pub meta: Meta,
}

/// What a resource holds. What nobody here knows is kept as it came.
#[derive(Clone, Debug, PartialEq)]
pub enum Contents {
    /// Text or bytes.
    Known(ResourceContents),
    /// Anything else, such as a reference to a stream.
    Unknown(Value),
}

impl<'de> Deserialize<'de> for Contents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(match ResourceContents::deserialize(&value) {
            Ok(contents) => Self::Known(contents),
            Err(_) => Self::Unknown(value),
        })
    }
}

impl Client {
    /// What a resource holds, if it is text.
    pub async fn read_text(&self, uri: &str) -> Result<String, Error> {
        use mcp_flow_proto::model::ResourceBody;
        let outcome = self.read_resource(uri).await?;
        let texts = outcome.contents.into_iter().map(|contents| match contents {
            Contents::Known(ResourceContents { body: ResourceBody::Text(text), .. }) => Ok(text),
            _ => Err(Error::Usage("the resource holds something else than text".to_owned())),
        });
        texts.collect::<Result<Vec<_>, _>>().map(|texts| texts.concat())
    }
}
