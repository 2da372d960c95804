//! `completion/complete`: suggested values for an argument.

use mcp_flow_proto::{Raw, method};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::calls::request::Request;
use crate::client::Client;
use crate::error::Error;

/// Prompt or resource template that an argument belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompletionReference {
    /// A prompt, by its name.
    Prompt(String),
    /// A resource template, by its URI template.
    Template(String),
}

/// Suggested values for an argument.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Completion {
    /// Suggestions, best first.
    pub values: Vec<String>,
    /// Total number of suggestions, if known.
    #[serde(default)]
    pub total: Option<u64>,
    /// True if the server has more.
    #[serde(default)]
    pub has_more: bool,
}

impl Client {
    /// Completes the value of an argument, given the values of the others.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::with_prompts().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// use mcp_flow_client::CompletionReference;
    ///
    /// let prompt = CompletionReference::Prompt("pick".into());
    /// let found = client.complete(&prompt, "language", "py", Default::default()).await?;
    /// assert_eq!(found.values, ["python"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn complete(
        &self,
        reference: &CompletionReference,
        argument: &str,
        value: &str,
        others: Map<String, Value>,
    ) -> Request<Value, Completion> {
        let reference = match reference {
            CompletionReference::Prompt(name) => json!({"type": "ref/prompt", "name": name}),
            CompletionReference::Template(uri) => json!({"type": "ref/resource", "uri": uri}),
        };
        let mut params = json!({"ref": reference, "argument": {"name": argument, "value": value}});
        if !others.is_empty() {
            params["context"] = json!({"arguments": others});
        }
        let request = Request::new(self, method::COMPLETION_COMPLETE.into(), params, read);
        request.repeatable()
    }
}

fn read(raw: Raw<'_>) -> Result<Completion, Error> {
    #[derive(Deserialize)]
    struct Wire {
        completion: Completion,
    }
    Ok(raw.decode::<Wire>()?.completion)
}
