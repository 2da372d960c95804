//! Handlers: functions from a request to its outcome.

use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;

use mcp_flow_proto::model::SubscriptionFilter;
use mcp_flow_proto::{Encoding, Params, Raw, RpcError};
use serde_json::Value;

use crate::context::Context;

/// Handles the requests of one method.
///
/// Params are borrowed from the message and gone when `call` returns, so a handler decodes what
/// it needs before it starts waiting.
pub trait Handler: Send + Sync + 'static {
    /// Returns the outcome, or the work that produces it.
    fn call(&self, context: &Context, params: Params<'_>) -> Reply;
}

impl<F: Fn(&Context, Params<'_>) -> Reply + Send + Sync + 'static> Handler for F {
    fn call(&self, context: &Context, params: Params<'_>) -> Reply {
        self(context, params)
    }
}

/// A handler's reply: an outcome, or the work that produces one.
pub enum Reply {
    /// The outcome.
    Ready(Outcome),
    /// A future of the outcome. It is polled once on the spot, and spawned only if it is pending.
    Later(Pin<Box<dyn Future<Output = Outcome> + Send>>),
    /// A function that computes the outcome and may block.
    Blocking(Box<dyn FnOnce() -> Outcome + Send>),
    /// No outcome yet: the caller is notified of changes until it cancels or the connection closes.
    Listen(SubscriptionFilter),
}

impl Reply {
    /// Waits for the outcome. `Listen` has none.
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

    /// Waits for the outcome on a thread that may block.
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
    /// The encoding of all later messages, if it changes with this one.
    pub(crate) then: Option<Encoding>,
    /// Set if this is the result of a tool call that reports failure (`isError`).
    pub(crate) failed: bool,
}

impl Payload {
    pub(crate) fn new(bytes: Vec<u8>, encoding: Encoding) -> Self {
        Self { bytes, encoding, then: None, failed: false }
    }

    /// The result as JSON text, if that is its encoding.
    pub fn as_json(&self) -> Option<&str> {
        (self.encoding == Encoding::Json).then(|| std::str::from_utf8(&self.bytes).ok())?
    }

    /// The result as a value; `None` if it cannot be represented as JSON.
    pub fn to_value(&self) -> Option<Value> {
        match self.encoding {
            Encoding::Json => serde_json::from_slice(&self.bytes).ok(),
            Encoding::Cbor => Raw::Cbor(&self.bytes).decode().ok(),
        }
    }

    /// The result in the connection's present encoding; `None` if it cannot be represented in it.
    pub(crate) fn in_encoding(&self, encoding: Encoding) -> Option<Cow<'_, [u8]>> {
        if encoding == self.encoding {
            return Some(Cow::Borrowed(&self.bytes));
        }
        encoding.encode(&self.to_value()?).ok().map(Cow::Owned)
    }
}
