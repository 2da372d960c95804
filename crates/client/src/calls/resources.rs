//! `resources/list`, `resources/templates/list` and `resources/read`.

use mcp_flow_proto::model::{Meta, ResourceContents, ResourceDefinition, TemplateDefinition};
use mcp_flow_proto::{Raw, method};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::calls::pages::PagedList;
use crate::calls::request::Request;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Lists the server's resources, fetching pages as needed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::with(|builder| builder.resources(mcp_flow_server::Resource::builder("x:/a").text("hi").unwrap())).server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// let resources = client.resources().all().await?;
    /// assert_eq!(resources[0].uri, "x:/a");
    /// # Ok(())
    /// # }
    /// ```
    pub fn resources(&self) -> PagedList<ResourceDefinition> {
        PagedList::new(self, method::RESOURCES_LIST, "resources")
    }

    /// Lists the server's resource templates, fetching pages as needed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::with(|builder| builder.resources(mcp_flow_server::Resource::builder("x:/a").text("hi").unwrap())).server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// assert!(client.resource_templates().all().await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn resource_templates(&self) -> PagedList<TemplateDefinition> {
        PagedList::new(self, method::RESOURCES_TEMPLATES_LIST, "resourceTemplates")
    }

    /// Reads a resource. Contents that the server allows to be cached are served from the cache while
    /// they are fresh; [`Request::fresh`] reads them again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::with(|builder| builder.resources(mcp_flow_server::Resource::builder("x:/a").text("hi").unwrap())).server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// let outcome = client.read_resource("x:/a").await?;
    /// assert_eq!(outcome.contents.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_resource(&self, uri: &str) -> Request<Value, ReadOutcome> {
        let params = json!({"uri": uri});
        let request = Request::new(self, method::RESOURCES_READ.into(), params, |raw: Raw<'_>| {
            Ok(raw.decode()?)
        });
        request.about(uri).repeatable().cached(uri)
    }
}

/// Result of `resources/read`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct ReadOutcome {
    /// Contents; one resource may have several.
    pub contents: Vec<ReadContents>,
    /// Members of `_meta`.
    #[serde(rename = "_meta", default)]
    pub meta: Meta,
}

/// One content of a resource. An unknown one is kept as received.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadContents {
    /// Text or bytes.
    Known(ResourceContents),
    /// Any other content, such as a `ref/stream`.
    Unknown(Value),
}

impl<'de> Deserialize<'de> for ReadContents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(match ResourceContents::deserialize(&value) {
            Ok(contents) => Self::Known(contents),
            Err(_) => Self::Unknown(value),
        })
    }
}

impl Client {
    /// Reads a text resource.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::with(|builder| builder.resources(mcp_flow_server::Resource::builder("x:/a").text("hi").unwrap())).server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// assert_eq!(client.read_text("x:/a").await?, "hi");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read_text(&self, uri: &str) -> Result<String, Error> {
        use mcp_flow_proto::model::ResourceBody;
        let outcome = self.read_resource(uri).await?;
        let texts = outcome.contents.into_iter().map(|contents| match contents {
            ReadContents::Known(ResourceContents { body: ResourceBody::Text(text), .. }) => {
                Ok(text)
            }
            _ => Err(Error::Usage("the resource is not text".to_owned())),
        });
        texts.collect::<Result<Vec<_>, _>>().map(|texts| texts.concat())
    }
}
