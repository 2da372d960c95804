//! Questions to go to a URL, by the id under which the upstream reports their end.

use std::collections::VecDeque;

use mcp_flow_proto::{Revision, RpcError};
use mcp_flow_server::Context;
use mcp_flow_server::context::Client;
use parking_lot::Mutex;
use serde_json::Value;

/// Callers with a handshake that were asked to go to a URL, the latest ones. They hear when the upstream
/// reports the end of that, also after their call.
#[derive(Debug, Default)]
pub(crate) struct UrlQuestions {
    asked: Mutex<VecDeque<(String, Client)>>,
}

impl UrlQuestions {
    /// Notes the caller that an upstream's question is for.
    pub(crate) fn note(&self, question: &Value, context: &Context) {
        let Some(id) = question["elicitationId"].as_str() else { return };
        if context.revision().is_stateless() || id.len() > MAX_ID_LENGTH {
            return;
        }
        let mut asked = self.asked.lock();
        asked.retain(|(known, client)| known != id && !client.is_closed());
        if asked.len() >= MAX_QUESTIONS {
            asked.pop_front();
        }
        asked.push_back((id.to_owned(), context.client().outside_the_call()));
    }

    /// Notes the caller of a request that failed because somebody has to go to URLs first.
    pub(crate) fn note_required(&self, error: &RpcError, context: &Context) {
        if error.code() != URL_ELICITATION_REQUIRED {
            return;
        }
        let wire = serde_json::to_value(error.wire(Revision::BASE)).unwrap_or_default();
        let questions = wire["data"]["elicitations"].as_array();
        questions.into_iter().flatten().for_each(|question| self.note(question, context));
    }

    /// Passes on that what a URL was for is done.
    pub(crate) fn complete(&self, params: &Value) {
        let Some(id) = params["elicitationId"].as_str() else { return };
        let client = {
            let mut asked = self.asked.lock();
            let at = asked.iter().position(|(known, _)| known == id);
            at.and_then(|at| asked.remove(at)).map(|(_, client)| client)
        };
        if let Some(client) = client {
            let params = serde_json::json!({"elicitationId": id});
            tokio::spawn(async move { client.notify(COMPLETE, &params).await });
        }
    }
}

/// Method by which a server reports that what a URL was for is done.
pub(crate) const COMPLETE: &str = "notifications/elicitation/complete";

/// Code of the error for a request that needs somebody to go to URLs first, in all revisions.
pub(crate) const URL_ELICITATION_REQUIRED: i32 = -32042;

/// Limit on questions that are remembered per upstream.
const MAX_QUESTIONS: usize = 1000;

/// Limit on the length of an id.
const MAX_ID_LENGTH: usize = 256;
