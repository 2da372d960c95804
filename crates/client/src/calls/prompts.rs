//! `prompts/list` and `prompts/get`.

use mcp_flow_proto::model::{PromptDefinition, Role};
use mcp_flow_proto::{Raw, method};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::calls::content::ContentBlock;
use crate::calls::pages::PagedList;
use crate::calls::request::Request;
use crate::client::Client;

impl Client {
    /// Lists the server's prompts, fetching pages as needed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::with_prompts().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// let prompts = client.prompts().all().await?;
    /// assert!(prompts.iter().any(|prompt| prompt.name == "analyze_data"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn prompts(&self) -> PagedList<PromptDefinition> {
        PagedList::new(self, method::PROMPTS_LIST, "prompts")
    }

    /// Gets a prompt, rendered with these arguments.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::with_prompts().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// let prompt = client.get_prompt("analyze_data", [("data", "1, 2, 3")]).await?;
    /// assert!(prompt.messages[0].content.as_text().is_some_and(|text| text.contains("1, 2, 3")));
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_prompt<N: Into<String>, V: Into<String>>(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = (N, V)>,
    ) -> Request<Value, PromptOutcome> {
        let arguments: Map<String, Value> = arguments
            .into_iter()
            .map(|(name, value)| (name.into(), Value::String(value.into())))
            .collect();
        let params = json!({"name": name, "arguments": arguments});
        let request =
            Request::new(
                self,
                method::PROMPTS_GET.into(),
                params,
                |raw: Raw<'_>| Ok(raw.decode()?),
            );
        request.about(name).repeatable()
    }
}

/// Result of `prompts/get`: the rendered messages.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct PromptOutcome {
    /// Description of the prompt.
    #[serde(default)]
    pub description: Option<String>,
    /// Messages to begin a chat with a model.
    pub messages: Vec<ReceivedMessage>,
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct ReceivedMessage {
    /// Speaker of the message.
    pub role: Role,
    /// Content of the message.
    pub content: ContentBlock,
}
