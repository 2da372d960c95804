//! Questions: asked by the session's clients, or by a link.

use std::pin::Pin;
use std::task::{Context, Poll};

use mcp_flow_session::Question;
use mcp_flow_session::prompt::Prompt;

use super::{Flow, FlowError, FlowResult};
use crate::execution::Execution;
use crate::links::LinkTarget;

/// A question that a flow asks when it is awaited. Withdrawn if dropped before the answer.
#[must_use = "a question is asked when it is awaited"]
pub struct FlowAsk<'a, Q> {
    flow: &'a Flow,
    question: Q,
    /// Key, or why it is no key.
    asking: Result<Asking<'a>, Option<FlowError>>,
}

impl<'a, Q: Question> FlowAsk<'a, Q> {
    pub(super) fn new(flow: &'a Flow, key: &str, question: Q) -> Self {
        let asking = flow.key(key).map(|key| Asking {
            execution: &flow.execution,
            key,
            link: None,
            number: None,
            is_polled: false,
            is_done: false,
        });
        Self { flow, question, asking: asking.map_err(Some) }
    }

    /// Makes a link to a page on which a person answers this question, once, without another access to
    /// the session. Whoever knows the URL may answer.
    ///
    /// The clients of the session can answer, too; the first answer counts. The link can be revoked
    /// like any [link](Flow::link).
    ///
    /// ```
    /// # use mcp_flow_engine::{Flow, FlowResult};
    /// # use mcp_flow_session::question::confirm;
    /// # async fn mail(url: &str) -> std::io::Result<()> { Ok(()) }
    /// async fn approval(flow: Flow) -> FlowResult<bool> {
    ///     let ask = flow.ask("approve", confirm("Approve the budget?")).by_link()?;
    ///     let url = ask.url().to_owned();
    ///     flow.step("mail", || mail(&url)).await?;
    ///     ask.await
    /// }
    /// ```
    pub fn by_link(self) -> FlowResult<LinkedAsk<'a, Q>> {
        self.linked(false)
    }

    /// Makes a link like [`by_link`](Self::by_link) whose page needs a login: a principal that the
    /// server accepts. It is recorded with the answer.
    pub fn by_link_after_login(self) -> FlowResult<LinkedAsk<'a, Q>> {
        self.linked(true)
    }

    fn linked(mut self, needs_login: bool) -> FlowResult<LinkedAsk<'a, Q>> {
        let asking = match &mut self.asking {
            Ok(asking) => asking,
            Err(error) => return Err(error.take().unwrap_or_else(was_polled)),
        };
        let target = LinkTarget { is_question: true, needs_login };
        let made = self.flow.execution.make_link(&asking.key, target);
        let (number, url) = made.map_err(FlowError::new)?;
        asking.link = Some(number);
        Ok(LinkedAsk { ask: self, url })
    }
}

impl<Q: Question> Future for FlowAsk<'_, Q> {
    type Output = FlowResult<Q::Answer>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let asking = match &mut this.asking {
            Ok(asking) => asking,
            Err(error) => return Poll::Ready(Err(error.take().unwrap_or_else(was_polled))),
        };
        asking.poll(this.question.prompt(), context).map(|value| {
            this.question.read(value).ok_or_else(|| {
                let key = &asking.key;
                FlowError::new(format!(
                    "the answer to `{key}` does not fit the type of its question"
                ))
            })
        })
    }
}

// The question is only borrowed.
impl<Q> Unpin for FlowAsk<'_, Q> {}

impl<Q> std::fmt::Debug for FlowAsk<'_, Q> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = self.asking.as_ref().ok().map(|asking| &asking.key);
        formatter.debug_struct("FlowAsk").field("key", &key).finish_non_exhaustive()
    }
}

/// A question that can be answered by a link. It is asked when it is awaited.
#[must_use = "a question is asked when it is awaited"]
#[derive(Debug)]
pub struct LinkedAsk<'a, Q> {
    ask: FlowAsk<'a, Q>,
    url: String,
}

impl<Q> LinkedAsk<'_, Q> {
    /// Returns the URL of the link.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl<Q: Question> Future for LinkedAsk<'_, Q> {
    type Output = FlowResult<Q::Answer>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.ask).poll(context)
    }
}

/// A question that the flow waits with. Withdrawn if dropped before the answer.
struct Asking<'a> {
    execution: &'a Execution,
    key: String,
    /// Number of the link that answers it.
    link: Option<u32>,
    number: Option<u32>,
    is_polled: bool,
    is_done: bool,
}

impl Asking<'_> {
    fn poll(&mut self, prompt: &Prompt, context: &mut Context<'_>) -> Poll<serde_json::Value> {
        self.is_polled = true;
        let (key, link) = (&self.key, self.link);
        let polled = self.execution.poll_ask(key, link, &mut self.number, prompt, context);
        self.is_done = polled.is_ready();
        polled
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.is_polled && !self.is_done {
            self.execution.drop_question(&self.key, self.number);
        }
    }
}

fn was_polled() -> FlowError {
    FlowError::new("the question was polled after its end")
}
