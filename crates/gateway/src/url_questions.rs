//! URL elicitations, by the id under which the upstream reports that they are complete.

use std::collections::VecDeque;

use mcp_flow_proto::{Revision, RpcError};
use mcp_flow_server::Context;
use mcp_flow_server::context::Client;
use parking_lot::Mutex;
use serde_json::Value;

/// Callers with a handshake that were sent a URL elicitation, the latest ones. They are notified when the
/// upstream reports it complete, even after their call has ended.
#[derive(Debug, Default)]
pub(crate) struct UrlQuestions {
    asked: Mutex<VecDeque<(String, Client)>>,
}

impl UrlQuestions {
    /// Remembers the caller of a URL elicitation.
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

    /// Remembers the caller of a request that failed because it requires URL elicitations first.
    pub(crate) fn note_required(&self, error: &RpcError, context: &Context) {
        if error.code() != URL_ELICITATION_REQUIRED {
            return;
        }
        let wire = serde_json::to_value(error.wire(Revision::BASE)).unwrap_or_default();
        let questions = wire["data"]["elicitations"].as_array();
        questions.into_iter().flatten().for_each(|question| self.note(question, context));
    }

    /// Notifies the caller that a URL elicitation is complete.
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

/// Notification that a URL elicitation is complete.
pub(crate) const COMPLETE: &str = "notifications/elicitation/complete";

/// Code of the error for a request that requires URL elicitations first, in all revisions.
pub(crate) const URL_ELICITATION_REQUIRED: i32 = -32042;

/// Limit on elicitations that are remembered per upstream.
const MAX_QUESTIONS: usize = 1000;

/// Limit on the length of an id.
const MAX_ID_LENGTH: usize = 256;
