//! Links of flows over HTTP: `GET` shows a page and changes nothing, `POST` uses the link.

mod page;

use std::time::Duration;

use mcp_flow_engine::{Engine, EngineError, FoundLink, LinkReply};
use mcp_flow_server::endpoint::{Endpoint, EndpointFuture, EndpointRequest, EndpointResponse};
use mcp_flow_session::{InvalidAnswer, LinkState, PromptType};
use serde_json::{Map, Value, json};

/// Endpoint of the links of an engine.
pub(crate) struct LinkEndpoint {
    engine: Engine,
}

impl LinkEndpoint {
    pub(crate) fn new(engine: &Engine) -> Self {
        Self { engine: engine.clone() }
    }

    async fn serve(&self, request: EndpointRequest<'_>) -> EndpointResponse {
        if request.path == page::STYLE_PATH && !request.is_post {
            return respond(200, "text/css; charset=utf-8", page::STYLE.to_owned());
        }
        let link = match self.engine.find_link(request.path).await {
            Ok(link) => link,
            Err(error) => return refused(request, &error),
        };
        if link.needs_login && request.principal.is_none() {
            return say(request, 401, "This link needs a login.");
        }
        match link.state {
            LinkState::Open => {}
            LinkState::NotAsked => return refused(request, &EngineError::LinkNotAsked),
            LinkState::Used => return refused(request, &EngineError::LinkUsed),
            LinkState::Revoked => return refused(request, &EngineError::LinkRevoked),
        }
        if !request.is_post {
            return show(request, 200, &link, None);
        }
        let value = match read_value(request, &link) {
            Ok(value) => value,
            Err((status, problem)) => return say(request, status, problem),
        };
        match self.engine.use_link(request.path, value, request.principal).await {
            Ok(LinkReply::Rejected(violation)) => show(request, 422, &link, Some(&violation)),
            Ok(_) if request.accepts_html => {
                html(200, page::message("Thank you. It was received."))
            }
            Ok(_) => json_of(200, &json!({"accepted": true})),
            Err(error) => refused(request, &error),
        }
    }
}

impl Endpoint for LinkEndpoint {
    fn handle<'a>(&'a self, request: EndpointRequest<'a>) -> EndpointFuture<'a> {
        Box::pin(self.serve(request))
    }

    fn served_at(&self, url: &str) {
        self.engine.set_link_base(url);
    }
}

/// Shows a link that can be used, after an answer that was invalid.
fn show(
    request: EndpointRequest<'_>,
    status: u16,
    link: &FoundLink,
    violation: Option<&InvalidAnswer>,
) -> EndpointResponse {
    if request.accepts_html {
        return html(status, page::form(link, violation));
    }
    let mut shown = json!({"state": link.state.name(), "name": link.name, "flow": link.flow});
    if let Some(question) = &link.question {
        shown["prompt"] = serde_json::to_value(&*question.prompt).unwrap_or_default();
    }
    if let Some(InvalidAnswer { error, suggestion }) = violation {
        shown = json!({"accepted": false, "error": error, "suggestion": suggestion});
    }
    json_of(status, &shown)
}

/// Reads the value in a body: JSON, a form, a plain text, or nothing. Of a form, a question takes the
/// field `answer`; a signal takes all of them.
fn read_value(
    request: EndpointRequest<'_>,
    link: &FoundLink,
) -> Result<Value, (u16, &'static str)> {
    let body = request.body;
    match request.media_type {
        "" | FORM if body.is_empty() => Ok(Value::Null),
        "application/json" => {
            serde_json::from_slice(body).map_err(|_| (400, "The body is not valid JSON."))
        }
        "text/plain" => match std::str::from_utf8(body) {
            Ok(text) => Ok(text.into()),
            Err(_) => Err((400, "The body is not UTF-8.")),
        },
        FORM => {
            let mut fields = url::form_urlencoded::parse(body);
            let Some(question) = &link.question else {
                let fields = fields.map(|(name, value)| (name.into_owned(), Value::from(&*value)));
                return Ok(Value::Object(fields.collect::<Map<_, _>>()));
            };
            let answer = fields.find(|(name, _)| name == "answer");
            let (_, answer) = answer.ok_or((400_u16, "The field `answer` is missing."))?;
            Ok(match question.prompt.kind {
                PromptType::Text | PromptType::Date => answer.into_owned().into(),
                _ => serde_json::from_str(&answer).unwrap_or_else(|_| answer.into_owned().into()),
            })
        }
        _ => Err((415, "Send JSON, a form, plain text, or nothing.")),
    }
}

/// Says why a link cannot be used. Guessed, ended and erased links are not told apart.
fn refused(request: EndpointRequest<'_>, error: &EngineError) -> EndpointResponse {
    let retry =
        |response, retry_after| EndpointResponse { retry_after: Some(retry_after), ..response };
    match error {
        EngineError::LinkUsed => say(request, 410, "This link was used before."),
        EngineError::LinkRevoked => say(request, 410, "This link was revoked."),
        EngineError::LinkNotAsked => {
            say(request, 409, "There is no open question for this link now.")
        }
        EngineError::Stuck(_) => {
            say(request, 409, "This link cannot be used now. Try again later.")
        }
        EngineError::TooLarge { .. } => say(request, 413, "This is too large."),
        EngineError::BadSignal { reason, .. } => {
            say(request, 422, &format!("This does not fit: {reason}."))
        }
        EngineError::TooManySignals => {
            retry(say(request, 429, "Too much has arrived. Try again later."), RETRY)
        }
        EngineError::RateLimited { retry_after } => {
            retry(say(request, 429, "Too many requests. Try again later."), *retry_after)
        }
        EngineError::Busy
        | EngineError::ShuttingDown
        | EngineError::UnknownFlow(_)
        | EngineError::Store(_) => retry(say(request, 503, "Try again later."), RETRY),
        _ => say(request, 404, "There is no such link, or it has ended."),
    }
}

fn say(request: EndpointRequest<'_>, status: u16, text: &str) -> EndpointResponse {
    match request.accepts_html {
        true => html(status, page::message(text)),
        false => json_of(status, &json!({"accepted": false, "error": text})),
    }
}

fn html(status: u16, page: String) -> EndpointResponse {
    respond(status, "text/html; charset=utf-8", page)
}

fn json_of(status: u16, value: &Value) -> EndpointResponse {
    respond(status, "application/json", value.to_string())
}

fn respond(status: u16, media_type: &'static str, body: String) -> EndpointResponse {
    EndpointResponse { status, media_type, body, retry_after: None }
}

const FORM: &str = "application/x-www-form-urlencoded";

/// Time after which to try again.
const RETRY: Duration = Duration::from_secs(1);
