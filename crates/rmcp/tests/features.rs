//! What rmcp's example servers show, one feature each: prompts with completion, elicitation and
//! sampling. The counter is in `handlers`.

#![allow(deprecated, reason = "sampling is deprecated, and in use")]

use futures_util::future::BoxFuture;
use mcp_flow::RpcError;
use mcp_flow::client::host::ServerIdentity;
use mcp_flow::client::{Client, CompletionReference, Host, Revision, RevisionPolicy, in_process};
use mcp_flow::model::{ClientCapabilities, ElicitationCapability, SamplingCapability};
use mcp_flow_rmcp::{Adapted, adapt};
use mcp_flow_testkit::wait::within;
use rmcp::handler::server::router::prompt::PromptRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CompleteRequestParams, CompleteResult, CompletionInfo, CreateMessageRequestParams,
    GetPromptResult, PromptMessage, Reference, Role, SamplingMessage, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::{ElicitationError, RequestContext};
use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler, elicit_safe, prompt_handler, prompt_router,
    schemars, tool_router,
};
use serde_json::{Map, Value, json};

/// A server with prompts whose arguments are completed.
#[derive(Clone)]
struct Library {
    prompt_router: PromptRouter<Self>,
}

#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Book {
    /// Who wrote it
    author: String,
    /// What it is called
    title: Option<String>,
}

#[prompt_router]
impl Library {
    fn new() -> Self {
        Self { prompt_router: Self::prompt_router() }
    }

    #[rmcp::prompt(name = "recommend", description = "Asks for a book like another one")]
    async fn recommend(&self, Parameters(book): Parameters<Book>) -> GetPromptResult {
        let title = book.title.unwrap_or_else(|| "anything".to_owned());
        let text = format!("I liked {title} by {}. What is next?", book.author);
        let messages = vec![
            PromptMessage::new_text(Role::User, text),
            PromptMessage::new_text(Role::Assistant, "Let me think."),
        ];
        GetPromptResult::new(messages).with_description("A recommendation")
    }
}

#[prompt_handler(router = self.prompt_router)]
impl ServerHandler for Library {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_prompts().enable_completions();
        ServerConfig::new(capabilities.build())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let Reference::Prompt(_) = request.r#ref else {
            return Err(ErrorData::invalid_params("only prompts are completed", None));
        };
        // The titles are those of the author that was chosen before.
        let context = request.context.and_then(|context| context.arguments).unwrap_or_default();
        let all: &[&str] = match (request.argument.name.as_str(), context.get("author")) {
            ("author", _) => &["Lem", "Le Guin", "Lessing"],
            ("title", Some(author)) if author == "Lem" => &["Solaris", "Fiasco"],
            _ => &[],
        };
        let fitting = all.iter().filter(|value| value.starts_with(&request.argument.value));
        let values = fitting.map(|value| (*value).to_owned()).collect();
        let values = CompletionInfo::with_all_values(values);
        Ok(CompleteResult::new(values.map_err(|error| ErrorData::internal_error(error, None))?))
    }
}

/// A server that asks its user, and a model.
#[derive(Clone)]
struct Curious;

/// Answers to a form.
#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Table {
    /// Number of guests
    guests: u32,
    /// Outside, if the weather allows it
    outside: bool,
}

elicit_safe!(Table);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Message {
    text: String,
}

#[tool_router(server_handler)]
impl Curious {
    #[rmcp::tool(description = "Reserves a table, after asking for how many")]
    async fn reserve(
        &self,
        Parameters(Message { text }): Parameters<Message>,
        client: Peer<RoleServer>,
    ) -> Result<String, ErrorData> {
        match client.elicit::<Table>(text).await {
            Ok(Some(Table { guests, outside })) => {
                Ok(format!("{guests} guests, outside: {outside}"))
            }
            Ok(None) => Ok("no answer".to_owned()),
            Err(ElicitationError::UserDeclined) => Ok("declined".to_owned()),
            Err(ElicitationError::UserCancelled) => Ok("cancelled".to_owned()),
            Err(error) => Err(ErrorData::internal_error(error.to_string(), None)),
        }
    }

    #[rmcp::tool(description = "Has a model answer")]
    async fn consult(
        &self,
        Parameters(Message { text }): Parameters<Message>,
        client: Peer<RoleServer>,
    ) -> Result<String, ErrorData> {
        let request = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(text)], 50)
            .with_system_prompt("Be brief.");
        let answer = client.create_message(request).await;
        let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let text = answer.message.content.first().and_then(|content| content.as_text());
        let text = text.map(|text| text.text.clone()).unwrap_or_default();
        Ok(format!("{}: {text}", answer.model))
    }
}

/// A user with a model, who answers by what is asked.
struct User;

impl Host for User {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            elicitation: Some(ElicitationCapability { form: true, url: false }),
            sampling: Some(SamplingCapability::default()),
            ..ClientCapabilities::default()
        }
    }

    fn answer<'a>(
        &'a self,
        _: &'a ServerIdentity,
        method: &'a str,
        params: &'a Value,
    ) -> Option<BoxFuture<'a, Result<Value, RpcError>>> {
        let answer = match (method, params["message"].as_str()) {
            ("elicitation/create", Some("decline")) => json!({"action": "decline"}),
            ("elicitation/create", Some("cancel")) => json!({"action": "cancel"}),
            ("elicitation/create", _) => {
                let form = params["requestedSchema"]["properties"].as_object().cloned();
                let kinds: Vec<_> = form.unwrap_or_default().into_iter().collect();
                assert_eq!(kinds.len(), 2, "{params}");
                json!({"action": "accept", "content": {"guests": 3, "outside": true}})
            }
            ("sampling/createMessage", _) => {
                assert_eq!(
                    (&params["systemPrompt"], &params["maxTokens"]),
                    (&json!("Be brief."), &json!(50))
                );
                let question =
                    params["messages"][0]["content"]["text"].as_str().unwrap_or_default();
                let content = json!({"type": "text", "text": format!("about {question}: yes")});
                json!({"role": "assistant", "content": content, "model": "oracle", "stopReason": "endTurn"})
            }
            _ => return None,
        };
        Some(Box::pin(async { Ok(answer) }))
    }
}

/// Connects a user who speaks a revision.
async fn connect(adapted: &Adapted, revision: Revision) -> Client {
    let builder = Client::builder().host(User);
    let builder = builder.with(|options| options.revision = RevisionPolicy::Only(revision));
    let connecting = builder.connect(in_process(adapted.server()));
    within("a connection", connecting).await.unwrap()
}

const REVISIONS: [Revision; 2] = [Revision::V2025_11_25, Revision::V2026_07_28];

#[tokio::test]
async fn prompts_are_served_and_their_arguments_completed() {
    for revision in REVISIONS {
        let adapted = adapt(Library::new).await.unwrap();
        let client = connect(&adapted, revision).await;
        let prompts = client.prompts().all().await.unwrap();
        let [prompt] = &prompts[..] else { panic!("{prompts:?}") };
        assert_eq!(&*prompt.name, "recommend");
        let arguments = prompt.arguments.iter();
        let arguments: Vec<_> =
            arguments.map(|argument| (&*argument.name, argument.required)).collect();
        assert_eq!(arguments, [("author", true), ("title", false)]);

        let rendered = client.get_prompt("recommend", [("author", "Lem"), ("title", "Solaris")]);
        let rendered = rendered.await.unwrap();
        assert_eq!(rendered.description.as_deref(), Some("A recommendation"));
        assert_eq!(rendered.messages.len(), 2);
        let text = format!("{:?}", rendered.messages[0].content);
        assert!(text.contains("I liked Solaris by Lem"), "{text}");
        let none: [(&str, &str); 0] = [];
        assert!(client.get_prompt("recommend", none).await.is_err(), "an argument is missing");

        let prompt = CompletionReference::Prompt("recommend".to_owned());
        let author = Map::from_iter([("author".to_owned(), json!("Lem"))]);
        for (argument, typed, chosen, expected) in [
            ("author", "Le", Map::new(), &["Lem", "Le Guin", "Lessing"][..]),
            ("author", "Les", Map::new(), &["Lessing"]),
            ("title", "S", author, &["Solaris"]),
            ("title", "S", Map::new(), &[]),
        ] {
            let found = client.complete(&prompt, argument, typed, chosen).await.unwrap();
            assert_eq!(found.values, expected, "{argument}={typed}");
        }
        let template = CompletionReference::Template("none:/{it}".to_owned());
        assert!(client.complete(&template, "it", "", Map::new()).await.is_err());
        client.close().await;
        adapted.close().await;
    }
}

#[tokio::test]
async fn users_are_asked_and_may_decline() {
    check_answers(&[
        ("reserve", "How many?", "3 guests, outside: true"),
        ("reserve", "decline", "declined"),
        ("reserve", "cancel", "cancelled"),
    ])
    .await;
}

#[tokio::test]
async fn the_model_of_the_client_is_used() {
    check_answers(&[("consult", "rain", "oracle: about rain: yes")]).await;
}

/// Calls tools with a text, and compares the results.
async fn check_answers(calls: &[(&str, &str, &str)]) {
    for revision in REVISIONS {
        let adapted = adapt(|| Curious).await.unwrap();
        let client = connect(&adapted, revision).await;
        for (tool, text, expected) in calls {
            let call = client.call_tool(tool, json!({"text": text})).into_future();
            let outcome = within("the call", call).await.unwrap();
            assert_eq!(outcome.text(), *expected, "{revision:?}: {tool} {text}");
        }
        client.close().await;
        adapted.close().await;
    }
}
