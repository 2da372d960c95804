//! Questions to the client while a call runs: elicitation, sampling, roots.
//!
//! [`Context::elicit`], [`Context::sample`] and [`Context::roots`] work in every revision. A
//! handshake client is sent a request, and the function continues with its response. A stateless
//! client (2026-07-28) gets an `input_required` result and sends the same call again with the
//! answers; the function then **runs again from the top**, and each question returns its answer at
//! once. Therefore:
//!
//! - code before a question runs again, so its effects must be idempotent;
//! - a question must read the same in each run; an answer to another question is rejected;
//! - questions are identified by their order, or by the key given with [`Context::ask`];
//! - questions asked concurrently, as with `join!`, reach the client together.
//!
//! A client is asked only for capabilities it declares. [`AskError::Missing`] reports others; a
//! stateless call that then fails is answered with error -32021 and the capability it needs.
//!
//! ```
//! use mcp_flow_server::{AskError, Context, Elicited, Tool};
//! use serde_json::Value;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Contact {
//!     /// Your name
//!     name: String,
//! }
//!
//! async fn greet(context: Context, _: Value) -> Result<String, AskError> {
//!     Ok(match context.elicit::<Contact>("Who are you?").await? {
//!         Elicited::Accepted(contact) => format!("Hello, {}!", contact.name),
//!         Elicited::Declined | Elicited::Cancelled => "Hello, stranger!".to_owned(),
//!     })
//! }
//!
//! let tool = Tool::builder("greet").handler(greet).unwrap();
//! ```

mod capability;
mod error;
mod form;
mod send;

use mcp_flow_proto::method;
use mcp_flow_proto::model::{
    CreateMessage, ElicitForm, ElicitResult, ElicitUrl, ListRootsResult, Root, SampleResult,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::context::Context;
use crate::tool::answer::read_form;

pub use capability::Capability;
pub use error::{AskError, NotAccepted};
pub use form::{Elicited, Form};

/// A question with its own key; see [`Context::ask`].
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Ask<'a> {
    context: &'a Context,
    key: Option<&'a str>,
}

impl Context {
    /// Sets the key of the next question.
    ///
    /// Stateless clients see it, and match answers by it over the rounds of a call. Needed where
    /// the order of questions differs between runs of the function.
    pub fn ask<'a>(&'a self, key: &'a str) -> Ask<'a> {
        Ask { context: self, key: Some(key) }
    }

    /// Asks the client's user to fill in a form (elicitation).
    ///
    /// The answer is checked against the form before it is decoded. Do not ask for passwords or
    /// keys this way: use [`elicit_url`](Self::elicit_url) for those.
    pub async fn elicit<T: DeserializeOwned>(
        &self,
        form: impl Into<Form<T>>,
    ) -> Result<Elicited<T>, AskError> {
        self.unkeyed().elicit(form).await
    }

    /// Asks the client's user to open a URL, for input that the client must not see.
    ///
    /// Acceptance means that the user agreed to open it, not that they completed anything there.
    pub async fn elicit_url(
        &self,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> Result<Elicited<()>, AskError> {
        self.unkeyed().elicit_url(message, url).await
    }

    /// Asks the client's model (sampling).
    pub async fn sample(&self, request: CreateMessage) -> Result<SampleResult, AskError> {
        self.unkeyed().sample(request).await
    }

    /// Asks the client for its roots. They are a hint, and grant nothing.
    pub async fn roots(&self) -> Result<Vec<Root>, AskError> {
        self.unkeyed().roots().await
    }

    /// Returns whether the client declares a capability.
    pub fn client_can(&self, capability: Capability) -> bool {
        self.peer().is_some_and(|peer| capability.is_declared_by(peer))
    }

    fn unkeyed(&self) -> Ask<'_> {
        Ask { context: self, key: None }
    }
}

impl Ask<'_> {
    /// As [`Context::elicit`].
    pub async fn elicit<T: DeserializeOwned>(
        self,
        form: impl Into<Form<T>>,
    ) -> Result<Elicited<T>, AskError> {
        let (message, schema) = form.into().into_parts()?;
        self.need(Capability::ElicitationForm)?;
        let form = ElicitForm { message, schema };
        let params = form.wire(self.context.revision())?;
        let result: ElicitResult = self.send(method::ELICITATION_CREATE, params).await?;
        let content = result.content.unwrap_or_default();
        Elicited::new(result.action, || read_form(&form.schema, content))
            .map_err(AskError::Unusable)
    }

    /// As [`Context::elicit_url`].
    pub async fn elicit_url(
        self,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> Result<Elicited<()>, AskError> {
        let (message, url) = (message.into(), url.into());
        if !is_url(&url) {
            return Err(AskError::NotAUrl(url));
        }
        self.need(Capability::ElicitationUrl)?;
        let id = send::fresh_id().map_err(AskError::Randomness)?;
        let params = ElicitUrl { message, url, id }.wire(self.context.revision());
        let result: ElicitResult = self.send(method::ELICITATION_CREATE, params).await?;
        Elicited::new(result.action, || Ok(())).map_err(AskError::Unusable)
    }

    /// As [`Context::sample`].
    pub async fn sample(self, request: CreateMessage) -> Result<SampleResult, AskError> {
        self.need(Capability::Sampling)?;
        if request.needs_tools() {
            self.need(Capability::SamplingTools)?;
        }
        let params = to_value(&request.wire(self.context.revision()))?;
        self.send(method::SAMPLING_CREATE_MESSAGE, params).await
    }

    /// As [`Context::roots`].
    pub async fn roots(self) -> Result<Vec<Root>, AskError> {
        self.need(Capability::Roots)?;
        let result: ListRootsResult = self.send(method::ROOTS_LIST, json!({})).await?;
        result.checked().map_err(AskError::Unusable)
    }
}

fn to_value(params: &impl Serialize) -> Result<Value, AskError> {
    serde_json::to_value(params).map_err(|error| AskError::Unwritable(error.to_string()))
}

/// Returns whether this is a URL that a browser can open.
fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let has_host = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', '#']));
    has_host && text.chars().all(|character| character.is_ascii_graphic())
}
