//! Messages without secrets, in the order in which they were sent.
//!
//! What was removed from a message is removed from later ones of its connection as well: servers repeat
//! what they were sent.
//!
//! Answers to questions of flows are secrets if the keys of their questions say so. An answer does not name
//! its question: the last one that its session was asked is remembered. Answers of sessions whose question
//! was not seen are masked.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};

use crate::format::Side;
use crate::mask::{MASK, Masker, mask_all};
use crate::removed::RemovedTexts;
use crate::tap::sha256;

/// Masks the messages of connections, in the order in which they were sent.
#[derive(Debug)]
pub struct MessageMasker {
    masker: Masker,
    /// Sessions and their tokens, and whether the open question of each is a secret.
    sessions: Bounded<bool>,
    /// Sessions of requests without a response, by connection and id.
    requests: Bounded<Vec<String>>,
    /// Secrets that were removed, by connection.
    removed: Bounded<RemovedTexts>,
}

impl MessageMasker {
    /// Masks by these rules, and answers by the keys of their questions.
    pub fn new(masker: Masker) -> Self {
        let (sessions, requests) = (Bounded::new(MAX_ENTRIES), Bounded::new(MAX_ENTRIES));
        Self { masker, sessions, requests, removed: Bounded::new(MAX_CONNECTIONS) }
    }

    /// Masks a text beside the messages of a connection.
    pub(crate) fn mask_text(&self, connection: u64, text: &str) -> String {
        let mut masked = self.masker.mask_text(text);
        if let Some(removed) = self.removed.get(&connection.to_string()) {
            removed.remove_from_text(&mut masked);
        }
        masked
    }

    /// Masks a captured exchange: its `params` and `result` are texts, which may be cut off.
    pub fn mask_exchange(&mut self, exchange: &mut Value) {
        let method = exchange["method"].as_str().unwrap_or_default().to_owned();
        if method.starts_with("interaction.") {
            let parse = |name: &str| -> Option<Value> {
                exchange[name].as_str().and_then(|text| serde_json::from_str(text).ok())
            };
            let (params, result) = (parse("params"), parse("result"));
            let is_cut = params.is_none();
            let mut request = json!({"id": 0, "method": method, "params": params});
            self.mask(Side::Client, 0, &mut request);
            if !is_cut {
                exchange["params"] = request["params"].to_string().into();
            } else if method == "interaction.respond" && exchange["params"].is_string() {
                exchange["params"] = MASK.into();
            }
            self.mask(Side::Server, 0, &mut json!({"id": 0, "result": result}));
        }
        let mut removed = Vec::new();
        self.masker.mask_and_collect(exchange, &mut removed);
        self.remove_again(0, exchange, &removed);
    }

    /// Masks a message, or each one of a batch.
    pub(crate) fn mask(&mut self, from: Side, connection: u64, message: &mut Value) {
        if let Value::Array(messages) = message {
            messages.iter_mut().for_each(|message| self.mask(from, connection, message));
            return;
        }
        let mut removed = Vec::new();
        let id = |message: &Value| short(&format!("{connection} {}", message["id"]));
        match (from, message["method"].as_str().map(str::to_owned)) {
            (Side::Client, Some(method)) if method.starts_with("interaction.") => {
                let sessions = sessions_in(&message["params"]);
                if method == "interaction.respond" {
                    let known = sessions.iter().find_map(|session| self.sessions.get(session));
                    if known.copied().unwrap_or(true) {
                        let answer = message.pointer_mut("/params/response/value");
                        answer.map(|answer| mask_all(answer, &mut removed));
                    }
                }
                self.requests.insert(id(message), sessions);
            }
            (Side::Client, _) => {}
            (Side::Server, Some(_)) => self.read(&message["params"], Vec::new()),
            (Side::Server, None) => {
                let sessions = self.requests.remove(&id(message)).unwrap_or_default();
                self.read(&message["result"], sessions);
            }
        }
        self.masker.mask_and_collect(message, &mut removed);
        self.remove_again(connection, message, &removed);
    }

    /// Remembers what was removed from a message of a connection, and removes what it repeats.
    fn remove_again(&mut self, connection: u64, message: &mut Value, removed: &[String]) {
        let key = connection.to_string();
        if !removed.is_empty() {
            let known = self.removed.entry(key.clone());
            removed.iter().for_each(|text| known.add(text));
        }
        let Some(known) = self.removed.get(&key) else { return };
        for part in ["params", "result", "error"] {
            if let Some(part) = message.get_mut(part) {
                known.remove_from(part);
            }
        }
    }

    /// Remembers the question in what the server sent about sessions.
    fn read(&mut self, about: &Value, mut sessions: Vec<String>) {
        let next = &about["next"];
        let questions = [
            &next["prompt"],
            &about["prompt"],
            &about["nextPrompt"],
            &about["currentPrompt"],
            &about["initialPrompt"],
        ];
        let question = questions.into_iter().find(|question| question["metadata"].is_object());
        let Some(question) = question else { return };
        let is_secret = self.masker.is_key_secret(&question["metadata"]);
        sessions.extend(sessions_in(about));
        for session in sessions {
            self.sessions.insert(session, is_secret);
        }
    }
}

/// The names that a message gives to its session.
fn sessions_in(about: &Value) -> Vec<String> {
    let names = ["sessionId", "sessionToken"].iter().filter_map(|name| about[*name].as_str());
    names.map(short).collect()
}

/// A key of bounded length: tokens are long.
fn short(text: &str) -> String {
    if text.len() <= 64 { text.to_owned() } else { sha256(text.as_bytes()) }
}

/// A map that forgets the oldest of too many entries.
#[derive(Debug)]
struct Bounded<T> {
    entries: HashMap<String, T>,
    order: VecDeque<String>,
    limit: usize,
}

impl<T> Bounded<T> {
    fn new(limit: usize) -> Self {
        Self { entries: HashMap::new(), order: VecDeque::new(), limit }
    }

    fn get(&self, key: &str) -> Option<&T> {
        self.entries.get(key)
    }

    fn insert(&mut self, key: String, value: T) {
        if self.entries.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > self.limit {
            if let Some(oldest) = self.order.pop_front() {
                self.entries.remove(&oldest);
            }
        }
    }

    /// The entry of a key, which is created if there is none.
    fn entry(&mut self, key: String) -> &mut T
    where
        T: Default,
    {
        if !self.entries.contains_key(&key) {
            self.insert(key.clone(), T::default());
        }
        self.entries.entry(key).or_default()
    }

    fn remove(&mut self, key: &str) -> Option<T> {
        // Its place in the order stays until it is the oldest.
        self.entries.remove(key)
    }
}

/// Limit on sessions and requests that are remembered.
const MAX_ENTRIES: usize = 10_000;

/// Limit on connections whose secrets are remembered.
const MAX_CONNECTIONS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::MessageMasker;
    use crate::format::Side;
    use crate::mask::Masker;
    use serde_json::{Value, json};

    #[test]
    fn answers_to_secret_questions_are_masked() {
        let asked = |key: &str| json!({"message": "?", "metadata": {"key": key, "turnId": 0}});
        let pushed = |key: &str| {
            let params = json!({"sessionId": "s", "prompt": asked(key)});
            json!({"id": 1, "method": "interaction.prompt", "params": params})
        };
        let inline = |key: &str| json!({"id": 7, "result": {"accepted": true, "next": {"prompt": asked(key)}}});
        let respond = |id: u64, session: Value| {
            let mut params = session;
            params["response"] = json!({"value": "hunter2", "turnId": 0});
            json!({"id": id, "method": "interaction.respond", "params": params})
        };
        let session = || json!({"sessionId": "s"});
        let ask = || json!({"id": 7, "method": "interaction.respond", "params": session()});
        let token = json!({"sessionToken": "t", "next": {"prompt": asked("name")}});
        for (before, answer, is_masked) in [
            (vec![(Side::Server, pushed("password"))], respond(1, session()), true),
            (vec![(Side::Server, pushed("name"))], respond(1, session()), false),
            (vec![(Side::Server, pushed("secret_plan"))], respond(1, session()), true),
            (vec![(Side::Server, pushed("customer"))], respond(1, session()), true),
            (vec![], respond(1, session()), true),
            (
                vec![(Side::Client, ask()), (Side::Server, inline("name"))],
                respond(8, session()),
                false,
            ),
            (
                vec![
                    (Side::Server, pushed("name")),
                    (Side::Client, ask()),
                    (Side::Server, inline("otp")),
                ],
                respond(8, session()),
                true,
            ),
            (
                vec![(Side::Server, json!({"id": 1, "result": token}))],
                respond(8, json!({"sessionToken": "t"})),
                false,
            ),
        ] {
            let mut masker = MessageMasker::new(Masker::new(&["customer".to_owned()]));
            for (side, mut message) in before {
                masker.mask(side, 1, &mut message);
            }
            let mut masked = answer;
            masker.mask(Side::Client, 1, &mut masked);
            assert_eq!(!masked.to_string().contains("hunter2"), is_masked, "{masked}");
            assert_eq!(masked["params"]["response"]["turnId"], 0);
        }
    }

    /// Servers repeat what they were sent, in texts that do not name it.
    #[test]
    fn secrets_that_are_repeated_are_masked() {
        let call = |arguments: Value| json!({"id": 1, "method": "tools/call", "params": {"arguments": arguments}});
        let said =
            |text: &str| json!({"id": 1, "result": {"content": [{"type": "text", "text": text}]}});
        let log =
            json!({"method": "notifications/message", "params": {"data": "got topsecretXYZ"}});
        let failed = json!({"id": 1, "error": {"code": -1, "message": "not topsecretXYZ"}});
        for name in ["customer", "password", "token", "client_secret", "private_key"] {
            let mut masker = MessageMasker::new(Masker::new(&["customer".to_owned()]));
            let mut asked = call(json!({"text": "I am topsecretXYZ", name: "topsecretXYZ"}));
            masker.mask(Side::Client, 1, &mut asked);
            assert!(!asked.to_string().contains("topsecret"), "{asked}");
            for mut message in [said("Echo: topsecretXYZ"), log.clone(), failed.clone()] {
                let mut other = message.clone();
                masker.mask(Side::Server, 1, &mut message);
                assert!(!message.to_string().contains("topsecret"), "{message}");
                assert!(message.to_string().contains("[masked]"), "{message}");
                masker.mask(Side::Server, 2, &mut other);
                assert!(other.to_string().contains("topsecret"), "another connection: {other}");
            }
        }
        let mut masker = MessageMasker::new(Masker::new(&[]));
        let mut exchange = json!({
            "method": "tools/call", "params": "{\"password\":\"topsecretXYZ\"}",
            "result": "{\"text\":\"Echo: topsecretXYZ\"}",
        });
        masker.mask_exchange(&mut exchange);
        assert!(!exchange.to_string().contains("topsecret"), "{exchange}");
    }
}
