//! Accounts of users: each principal uses an upstream with its own, and is asked to log in before its
//! first request.
//!
//! The caller's client opens the page of the login (elicitation by URL). The request goes on when the
//! login has ended, wherever that was.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_flow_client::transport::Connector;
use mcp_flow_proto::model::{ElicitUrl, InputRequest, ToolDefinition};
use mcp_flow_proto::{RpcError, method};
use mcp_flow_server::ask::Capability;
use mcp_flow_server::input::InputRequired;
use mcp_flow_server::{Context, Outcome, ToolOutput};
use serde_json::{Value, json};

use crate::definitions::Definitions;
use crate::error;
use crate::settings::UpstreamSettings;
use crate::upstream::Upstream;
use crate::url_questions::COMPLETE;

/// Accounts of users at one upstream.
pub trait UserAccounts: Send + Sync + 'static {
    /// Connects with the account of a principal.
    fn connector(&self, principal: &str) -> Arc<dyn Connector>;

    /// Begins the login of a principal, or joins the one that runs; `None` if it is logged in. An
    /// account that the upstream has rejected needs another login. An error is a sentence for the user.
    fn begin_login<'a>(
        &'a self,
        principal: &'a str,
        was_rejected: bool,
    ) -> BoxFuture<'a, Result<Option<Login>, String>>;
}

/// Login that waits for its user.
pub struct Login {
    /// Identifies it.
    pub id: String,
    /// Page that the user opens.
    pub url: String,
    /// Ends with the login.
    pub ended: BoxFuture<'static, Result<(), String>>,
}

impl Upstream {
    /// Makes sure that a caller is logged in, if it needs an account of its own; returns the reply to
    /// its request if it is not.
    pub(crate) async fn require_login(
        &self,
        context: &Context,
        was_rejected: bool,
    ) -> Option<Outcome> {
        let accounts = self.settings.accounts.as_ref()?;
        let begun = accounts.begin_login(context.principal().name(), was_rejected).await;
        let login = match begun {
            Ok(login) => login?,
            Err(problem) => return Some(Err(error::unavailable(self.name(), &problem, None))),
        };
        let question = ElicitUrl {
            message: format!("Log in to {} to use it with your own account", self.name()),
            url: login.url,
            id: login.id,
        };
        if !context.client_can(Capability::ElicitationUrl) {
            return Some(Err(error::login_required(
                self.name(),
                question.wire(context.revision()),
            )));
        }
        match context.revision().is_stateless() {
            true => self.require_by_result(context, &question, login.ended).await,
            false => self.require_by_request(context, &question, login.ended).await,
        }
    }

    /// Asks a client with a handshake, while its request waits.
    async fn require_by_request(
        &self,
        context: &Context,
        question: &ElicitUrl,
        ended: BoxFuture<'static, Result<(), String>>,
    ) -> Option<Outcome> {
        let (client, limit) = (context.client(), self.settings.answer_timeout);
        let params = question.wire(context.revision());
        let asked = client.request_within::<Value>(limit, method::ELICITATION_CREATE, &params);
        let mut ended = tokio::spawn(tokio::time::timeout(limit, ended));
        let ended = tokio::select! {
            ended = &mut ended => ended,
            answer = asked => match answer {
                Ok(answer) if answer["action"] == "accept" => ended.await,
                Ok(_) => return Some(Err(self.not_logged_in("The user did not log in"))),
                Err(refused) => return Some(Err(self.not_logged_in(&refused.to_string()))),
            },
        };
        let outcome = self.end_login(ended.ok().and_then(Result::ok));
        let params = json!({"elicitationId": question.id});
        // One that has ended its connection needs no notification.
        let _ = client.notify(COMPLETE, &params).await;
        outcome
    }

    /// Asks a stateless client by the result of its request, which it repeats with the answer.
    async fn require_by_result(
        &self,
        context: &Context,
        question: &ElicitUrl,
        ended: BoxFuture<'static, Result<(), String>>,
    ) -> Option<Outcome> {
        let Some(answer) = context.input_response(LOGIN) else {
            let params = question.wire(context.revision());
            let question = InputRequest { method: method::ELICITATION_CREATE, params };
            let required = InputRequired::new().ask(LOGIN, question).carry(json!({LOGIN: true}));
            return Some(required.reply(context));
        };
        if answer["action"] != "accept" {
            return Some(Err(self.not_logged_in("The user did not log in")));
        }
        let limit = self.settings.answer_timeout;
        self.end_login(tokio::time::timeout(limit, ended).await.ok())
    }

    /// The reply if a login has failed, or has not ended in time.
    fn end_login(&self, ended: Option<Result<(), String>>) -> Option<Outcome> {
        match ended {
            Some(Ok(())) => None,
            Some(Err(problem)) => Some(Err(self.not_logged_in(&problem))),
            None => Some(Err(self.not_logged_in("The login did not end in time"))),
        }
    }

    fn not_logged_in(&self, problem: &str) -> RpcError {
        error::not_answered(self.name(), problem)
    }

    /// The reply to a call of the tool to log in, by a caller that is logged in by now; `None` for
    /// another tool.
    pub(crate) fn reply_login(self: &Arc<Self>, context: &Context, tool: &str) -> Option<Outcome> {
        let is_login = self.settings.accounts.is_some()
            && tool == LOGIN
            && self.definitions().tools.iter().all(|known| known.name == LOGIN);
        let text = format!("Logged in to {}. Its tools are listed in a moment.", self.name());
        is_login.then(|| {
            self.note_principal(context.principal().name());
            context.reply_output(&ToolOutput::text(text))
        })
    }
}

/// The definitions that are served: those that are exposed, or the tool to log in while nothing is
/// known, since an account is needed to list the others.
pub(crate) fn offered(
    known: Definitions,
    settings: &UpstreamSettings,
    prefix: &str,
) -> Definitions {
    let mut offered = known.exposed(settings, prefix);
    if settings.accounts.is_some() && offered == Definitions::default() {
        offered.tools.push(login_tool(&settings.name));
    }
    offered
}

fn login_tool(server: &str) -> ToolDefinition {
    let description = format!(
        "Logs you in to {server} with your own account. Its other tools are listed after that."
    );
    let schema = [("type".to_owned(), "object".into()), ("properties".to_owned(), json!({}))];
    ToolDefinition {
        name: LOGIN.to_owned(),
        description: Some(description),
        input_schema: schema.into_iter().collect(),
        ..ToolDefinition::default()
    }
}

/// Name of the tool to log in, and key of the question.
const LOGIN: &str = "login";
