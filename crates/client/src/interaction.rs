//! Conversations: `interaction.*` from the client's end.

use mcp_flow_proto::{Params, Request, RpcError};
use serde_json::Value;
use std::sync::Arc;

use crate::client::Shared;
use crate::link::Link;
use crate::serve::reply;

/// A question of a conversation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Question {
    /// The prompt as it came.
    pub prompt: Value,
}

/// What the person says to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptAnswer {
    /// This.
    Value(Value),
    /// Nothing; the conversation is over.
    Cancel(Option<String>),
}

/// The conversations under way.
#[derive(Debug, Default)]
pub(crate) struct Conversations {}

impl Conversations {
    pub(crate) fn notified(&self, _method: &str, _params: Params<'_>) -> bool {
        false
    }
}

pub(crate) fn pushed(_shared: &Arc<Shared>, link: &Arc<Link>, request: &Request<'_>) {
    reply(link, &request.id, Err(RpcError::method_not_found(&request.method)));
}
