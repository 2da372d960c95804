//! What answers a request.

use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;

use mcp_flow_proto::model::SubscriptionFilter;
use mcp_flow_proto::{Encoding, Params, Raw, RpcError};
use serde_json::Value;

use crate::context::Context;

/// Answers requests of one method.
///
/// Params are borrowed from the message and gone when `call` returns, so a handler decodes what
/// it needs before it starts waiting.
pub trait Handler: Send + Sync + 'static {
    /// Answers at once, or returns the work that will.
    fn call(&self, context: &Context, params: Params<'_>) -> Reply;
}

impl<F: Fn(&Context, Params<'_>) -> Reply + Send + Sync + 'static> Handler for F {
    fn call(&self, context: &Context, params: Params<'_>) -> Reply {
        self(context, params)
    }
}

/// How a handler answers.
pub enum Reply {
    /// Here it is.
    Ready(Outcome),
    /// This future has it. It is polled on the spot, and becomes a task only if it must wait.
    Later(Pin<Box<dyn Future<Output = Outcome> + Send>>),
    /// This function computes it, and may block while it does.
    Blocking(Box<dyn FnOnce() -> Outcome + Send>),
    /// The caller is told of changes until it cancels or the connection ends.
    Listen(SubscriptionFilter),
}

impl Reply {
    /// The outcome, when it is there. Whoever listens has none.
    pub(crate) async fn outcome(self) -> Outcome {
        match self {
            Self::Ready(outcome) => outcome,
            Self::Later(future) => future.await,
            Self::Blocking(work) => {
                let done = tokio::task::spawn_blocking(work).await;
                done.unwrap_or_else(|_| Err(RpcError::internal()))
            }
            Self::Listen(_) => Err(RpcError::internal()),
        }
    }

    /// The outcome, waited for on a thread that may block.
    pub(crate) fn wait(self) -> Outcome {
        match self {
            Self::Ready(outcome) => outcome,
            later => tokio::runtime::Handle::current().block_on(later.outcome()),
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(outcome) => formatter.debug_tuple("Ready").field(outcome).finish(),
            Self::Later(_) => formatter.write_str("Later"),
            Self::Blocking(_) => formatter.write_str("Blocking"),
            Self::Listen(filter) => formatter.debug_tuple("Listen").field(filter).finish(),
        }
    }
}

/// A result, already encoded for its connection, or an error.
pub type Outcome = Result<Payload, RpcError>;

/// A result in the encoding of the connection it goes out on; made by [`Context::reply`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    pub(crate) bytes: Vec<u8>,
    pub(crate) encoding: Encoding,
    /// How everything after it is written, if that changes with it.
    pub(crate) then: Option<Encoding>,
    /// Whether it is the result of a tool which says that it failed.
    pub(crate) failed: bool,
}

impl Payload {
    pub(crate) fn new(bytes: Vec<u8>, encoding: Encoding) -> Self {
        Self { bytes, encoding, then: None, failed: false }
    }

    /// The same result in the encoding its connection has by now; `None` if that cannot say it.
    pub(crate) fn in_encoding(&self, encoding: Encoding) -> Option<Cow<'_, [u8]>> {
        if encoding == self.encoding {
            return Some(Cow::Borrowed(&self.bytes));
        }
        let value: Option<Value> = match self.encoding {
            Encoding::Json => serde_json::from_slice(&self.bytes).ok(),
            Encoding::Cbor => Raw::Cbor(&self.bytes).decode().ok(),
        };
        encoding.encode(&value?).ok().map(Cow::Owned)
    }
}
