//! What servers send about conversations unasked: questions, progress, the end.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use hashbrown::HashMap;
use mcp_flow_proto::error::RpcErrorKind;
use mcp_flow_proto::{Request, RequestId, RpcError};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::conversation::Finished;
use super::question::Question;
use crate::client::Shared;
use crate::link::Link;
use crate::serve::reply;

/// Something a conversation is told.
#[derive(Debug)]
pub(super) enum Pushed {
    Question(Box<Question>),
    Progress,
    Finished(Finished),
}

/// The conversations under way.
#[derive(Debug, Default)]
pub(crate) struct Conversations {
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    sessions: HashMap<String, mpsc::Sender<Pushed>>,
    /// How many are beginning, whose names nobody here knows yet.
    starting: usize,
    /// What came for sessions nobody knows while some are beginning.
    early: Vec<Early>,
}

#[derive(Debug)]
struct Early {
    session: String,
    pushed: Pushed,
    answer: Value,
    id: RequestId,
    link: Weak<Link>,
}

/// Takes a request of the server about a conversation (INT-029, INT-030).
///
/// It is acknowledged as soon as it is known whom it is for; the person's answer goes its own way.
pub(crate) fn pushed(shared: &Arc<Shared>, link: &Arc<Link>, request: &Request<'_>) {
    let Ok(params) = request.params.decode::<Value>() else {
        let error = RpcError::invalid_params("params must be an object");
        return reply(link, &request.id, Err(error));
    };
    let Some((pushed, answer)) = read(&request.method, &params) else {
        let error = RpcError::method_not_found(&request.method);
        return reply(link, &request.id, Err(error));
    };
    let session = params.get("sessionId").and_then(Value::as_str).unwrap_or_default().to_owned();
    let early =
        Early { session, pushed, answer, id: request.id.clone(), link: Arc::downgrade(link) };
    shared.conversations.take(early);
}

fn read(method: &str, params: &Value) -> Option<(Pushed, Value)> {
    let acknowledged = json!({"acknowledged": true});
    let question = |prompt: &Value| {
        let question = Question::read(prompt.clone(), params.get("progress"));
        Pushed::Question(Box::new(question))
    };
    let is_there = |name: &str| params.get(name).filter(|prompt| prompt.is_object());
    match method {
        "interaction.prompt" => Some((question(is_there("prompt")?), acknowledged)),
        "interaction.continue" => match is_there("nextPrompt") {
            Some(prompt) => Some((question(prompt), acknowledged)),
            None => Some((Pushed::Progress, acknowledged)),
        },
        "interaction.complete" => {
            let finished = Finished::read(params);
            let answer = json!({"success": true, "finalResult": finished.data});
            Some((Pushed::Finished(finished), answer))
        }
        _ => None,
    }
}

impl Conversations {
    /// Holds back what comes for unknown sessions until it is registered or given up.
    pub(super) fn starting(&self) -> Starting {
        self.lock().starting += 1;
        Starting { table: self.table.clone() }
    }

    fn take(&self, early: Early) {
        let mut table = self.lock();
        if !table.sessions.contains_key(&early.session)
            && table.starting > 0
            && table.early.len() < MOST_EARLY
        {
            table.early.push(early);
            return;
        }
        let session = table.sessions.get(&early.session).cloned();
        drop(table);
        early.settle(session.as_ref());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Early {
    /// Hands it to its conversation, or refuses it if there is none (INT-033).
    fn settle(self, session: Option<&mpsc::Sender<Pushed>>) {
        let Some(link) = self.link.upgrade() else { return };
        let taken = session.is_some_and(|session| session.try_send(self.pushed).is_ok());
        let outcome = match taken {
            true => Ok(self.answer),
            false => Err(RpcError::new(SESSION_NOT_FOUND)),
        };
        reply(&link, &self.id, outcome);
    }
}

/// A conversation that is beginning.
#[derive(Debug)]
pub(super) struct Starting {
    table: Arc<Mutex<Table>>,
}

impl Starting {
    /// Names the conversation; what is sent for it is found in the channel.
    pub(super) fn register(
        self,
        shared: &Shared,
        session: &str,
    ) -> (Registration, mpsc::Receiver<Pushed>) {
        let (sender, receiver) = mpsc::channel(MOST_EARLY);
        shared.conversations.lock().sessions.insert(session.to_owned(), sender.clone());
        let table = self.table.clone();
        (Registration { table, session: session.to_owned(), sender }, receiver)
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        let settled: Vec<_> = {
            let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
            table.starting -= 1;
            let last = table.starting == 0;
            let early = std::mem::take(&mut table.early);
            let (now, later): (Vec<_>, Vec<_>) = early
                .into_iter()
                .partition(|early| last || table.sessions.contains_key(&early.session));
            table.early = later;
            now.into_iter()
                .map(|early| (table.sessions.get(&early.session).cloned(), early))
                .collect()
        };
        for (session, early) in settled {
            early.settle(session.as_ref());
        }
    }
}

/// Keeps a conversation known.
#[derive(Debug)]
pub(super) struct Registration {
    table: Arc<Mutex<Table>>,
    session: String,
    sender: mpsc::Sender<Pushed>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions = &mut table.sessions;
        if sessions.get(&self.session).is_some_and(|known| known.same_channel(&self.sender)) {
            sessions.remove(&self.session);
        }
    }
}

/// No conversation has this name.
const SESSION_NOT_FOUND: RpcErrorKind = RpcErrorKind {
    domain: "interaction",
    name: "SESSION_NOT_FOUND",
    code: -32001,
    stateless_code: -31001,
    message: "Session not found",
};

/// How many messages may wait for a conversation, known or beginning.
const MOST_EARLY: usize = 32;

#[cfg(test)]
mod tests {
    use super::read;
    use serde_json::json;

    /// INT-030, INT-046, INT-048: what the server sends is answered as the document says.
    #[test]
    fn each_request_has_its_answer() {
        let result = json!({"success": true, "data": {"name": "Ada"}});
        for (method, params, answer) in [
            ("interaction.prompt", json!({"prompt": {}}), json!({"acknowledged": true})),
            ("interaction.continue", json!({"nextPrompt": {}}), json!({"acknowledged": true})),
            ("interaction.continue", json!({}), json!({"acknowledged": true})),
            (
                "interaction.complete",
                json!({"sessionId": "s", "result": result, "summary": "done"}),
                json!({"success": true, "finalResult": {"name": "Ada"}}),
            ),
        ] {
            assert_eq!(read(method, &params).unwrap().1, answer, "{method}");
        }
        assert!(read("interaction.prompt", &json!({})).is_none());
        assert!(read("interaction.other", &json!({})).is_none());
    }
}
