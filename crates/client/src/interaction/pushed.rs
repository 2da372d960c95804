//! Pushed messages of interaction sessions: prompts, progress, completion and expiry.
//!
//! Delivers each to the handle of its session. Messages that arrive before `interaction.start` has
//! returned the session's id are held back until it does.

use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use mcp_flow_proto::error::RpcErrorKind;
use mcp_flow_proto::{Request, RequestId, RpcError};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::prompt::PendingPrompt;
use super::session::SessionResult;
use crate::client::ClientInner;
use crate::connection::Connection;
use crate::connection::server_requests::reply;
use crate::error::ServerError;

/// Content of a pushed message.
#[derive(Debug)]
pub(super) enum Pushed {
    Prompt(Box<PendingPrompt>),
    Progress,
    Finished(SessionResult),
    Expired(Box<ServerError>),
}

/// Sessions that have a handle in this client.
#[derive(Debug, Default)]
pub(crate) struct OpenSessions {
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    sessions: HashMap<String, mpsc::Sender<Pushed>>,
    /// Number of pending `interaction.start` requests, whose session ids are unknown.
    starting: usize,
    /// Messages for unknown sessions, held back while a start is pending.
    early: Vec<PushedMessage>,
}

/// A pushed message on its way to its session.
#[derive(Debug)]
struct PushedMessage {
    session: String,
    pushed: Pushed,
    /// None for a notification.
    request: Option<PushedRequest>,
}

#[derive(Debug)]
struct PushedRequest {
    id: RequestId,
    acknowledgement: Value,
    connection: Weak<Connection>,
}

/// Handles a pushed request (INT-029, INT-030).
///
/// It is acknowledged once its session is known; the user's answer follows by
/// `interaction.respond`.
pub(crate) fn pushed(
    inner: &Arc<ClientInner>,
    connection: &Arc<Connection>,
    request: &Request<'_>,
) {
    let Ok(params) = request.params.decode::<Value>() else {
        let error = RpcError::invalid_params("params must be an object");
        return reply(connection, &request.id, Err(error));
    };
    let Some((pushed, acknowledgement)) = read(&request.method, &params) else {
        let error = RpcError::method_not_found(&request.method);
        return reply(connection, &request.id, Err(error));
    };
    let session = params.get("sessionId").and_then(Value::as_str).unwrap_or_default().to_owned();
    let id = request.id.clone();
    let request =
        Some(PushedRequest { id, acknowledgement, connection: Arc::downgrade(connection) });
    inner.sessions.deliver(PushedMessage { session, pushed, request });
}

/// Reads `interaction.expired` as the error that any later request for the session gets.
fn read_expired(params: &Value) -> Option<(&str, ServerError)> {
    let session = params.get("sessionId")?.as_str()?;
    let limit = params.get("limit").and_then(Value::as_str).unwrap_or("unknown");
    let details = match limit {
        "inactivity" => "no answer was given in time",
        "duration" => "it reached its maximum duration",
        _ => "the server gave no reason",
    };
    let data = json!({"domain": "interaction", "name": "SESSION_EXPIRED", "sessionId": session,
        "limit": limit, "details": details});
    let message = format!("Session expired: {session}");
    Some((session, ServerError { code: SESSION_EXPIRED, message, data }))
}

fn read(method: &str, params: &Value) -> Option<(Pushed, Value)> {
    let acknowledged = json!({"acknowledged": true});
    let question = |prompt: &Value| {
        let question = PendingPrompt::read(prompt.clone(), params.get("progress"));
        Pushed::Prompt(Box::new(question))
    };
    let is_there = |name: &str| params.get(name).filter(|prompt| prompt.is_object());
    match method {
        "interaction.prompt" => Some((question(is_there("prompt")?), acknowledged)),
        "interaction.continue" => match is_there("nextPrompt") {
            Some(prompt) => Some((question(prompt), acknowledged)),
            None => Some((Pushed::Progress, acknowledged)),
        },
        "interaction.complete" => {
            let finished = SessionResult::read(params);
            let answer = json!({"success": true, "finalResult": finished.data});
            Some((Pushed::Finished(finished), answer))
        }
        _ => None,
    }
}

impl OpenSessions {
    /// Holds back messages for unknown sessions until the guard is registered or dropped.
    pub(super) fn starting(&self) -> PendingStart {
        self.lock().starting += 1;
        PendingStart { table: self.table.clone() }
    }

    /// Ends the session that the notification `interaction.expired` names, if it is open here.
    pub(crate) fn expire(&self, params: &Value) {
        let Some((session, error)) = read_expired(params) else { return };
        let pushed = Pushed::Expired(Box::new(error));
        self.deliver(PushedMessage { session: session.to_owned(), pushed, request: None });
    }

    fn deliver(&self, early: PushedMessage) {
        let mut table = self.lock();
        if !table.sessions.contains_key(&early.session)
            && table.starting > 0
            && table.early.len() < MAX_QUEUED
        {
            table.early.push(early);
            return;
        }
        let session = table.sessions.get(&early.session).cloned();
        drop(table);
        early.deliver_to(session.as_ref());
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Table> {
        self.table.lock()
    }
}

impl PushedMessage {
    /// Delivers it to its session, or rejects it if there is none (INT-033).
    fn deliver_to(self, session: Option<&mpsc::Sender<Pushed>>) {
        let is_delivered = session.is_some_and(|session| session.try_send(self.pushed).is_ok());
        let Some(PushedRequest { id, acknowledgement, connection }) = self.request else { return };
        let Some(connection) = connection.upgrade() else { return };
        let outcome = match is_delivered {
            true => Ok(acknowledgement),
            false => Err(RpcError::new(SESSION_NOT_FOUND)),
        };
        reply(&connection, &id, outcome);
    }
}

/// A pending `interaction.start`.
#[derive(Debug)]
pub(super) struct PendingStart {
    table: Arc<Mutex<Table>>,
}

impl PendingStart {
    /// Registers the session; its pushed messages arrive on the channel.
    pub(super) fn register(
        self,
        inner: &ClientInner,
        session: &str,
    ) -> (Registration, mpsc::Receiver<Pushed>) {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED);
        inner.sessions.lock().sessions.insert(session.to_owned(), sender.clone());
        let table = self.table.clone();
        (Registration { table, session: session.to_owned(), sender }, receiver)
    }
}

impl Drop for PendingStart {
    fn drop(&mut self) {
        let settled: Vec<_> = {
            let mut table = self.table.lock();
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
            early.deliver_to(session.as_ref());
        }
    }
}

/// Registration of a session, removed on drop.
#[derive(Debug)]
pub(super) struct Registration {
    table: Arc<Mutex<Table>>,
    session: String,
    sender: mpsc::Sender<Pushed>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        let sessions = &mut table.sessions;
        if sessions.get(&self.session).is_some_and(|known| known.same_channel(&self.sender)) {
            sessions.remove(&self.session);
        }
    }
}

/// The error for a pushed message of an unknown session.
const SESSION_NOT_FOUND: RpcErrorKind = RpcErrorKind {
    domain: "interaction",
    name: "SESSION_NOT_FOUND",
    code: -32001,
    stateless_code: -31001,
    message: "Session not found",
};

/// The code of the error `SESSION_EXPIRED`.
const SESSION_EXPIRED: i64 = -32002;

/// Maximum number of queued messages, for one session and for all unknown ones.
const MAX_QUEUED: usize = 32;

#[cfg(test)]
mod tests {
    use super::read;
    use serde_json::json;

    /// INT-030, INT-046, INT-048: pushed requests are acknowledged as specified.
    #[test]
    fn each_pushed_request_has_its_acknowledgement() {
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
