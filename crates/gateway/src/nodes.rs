//! Answers for live calls of other processes that share the store.
//!
//! Whoever takes an answer runs the session. If another process has the call, it gets the answer by
//! an announcement, and announces how the call goes on. Announcements may be lost, so the answer is
//! sent again until there is a reply.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_flow_engine::ClusterMember;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::error;
use crate::recovery::Holder;
use crate::session::{Sessions, Turn, random_key};

/// Answers on their way between processes.
#[derive(Debug, Default)]
pub(crate) struct RemoteAnswers {
    /// Replies to answers of this process, by number.
    awaited: Mutex<HashMap<String, mpsc::Sender<Reply>>>,
    /// Answers of other processes, with the outcome once it is known.
    taken: Mutex<HashMap<String, Option<Reply>>>,
    /// Other processes whose calls have asked again, by the keys of the calls.
    holders: Mutex<HashMap<String, Holder>>,
}

/// Message between the processes.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    Answer { number: String, key: String, server: String, answer: Value },
    Reply { number: String, reply: Reply },
}

/// Reply to an answer.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    /// The call goes on.
    Taken,
    Continued {
        turn: Turn,
        holder: Option<Holder>,
    },
}

impl Sessions {
    /// Takes part in passing answers on.
    pub(crate) fn connect(self: &Arc<Self>, member: &ClusterMember) {
        let sessions = Arc::downgrade(self);
        member.on_announcement(TOPIC, move |content| {
            let Some(sessions) = sessions.upgrade() else { return };
            match serde_json::from_slice(content) {
                Ok(Message::Answer { number, key, server, answer }) => {
                    sessions.take_answer(number, key, server, answer);
                }
                Ok(Message::Reply { number, reply }) => {
                    if let Some(awaited) = sessions.remote.awaited.lock().get(&number) {
                        // If there is no room, the answer is sent again, and so is the reply.
                        let _ = awaited.try_send(reply);
                    }
                }
                Err(error) => tracing::debug!(%error, "cannot read the message of a gateway"),
            }
        });
    }

    /// Has the process that has a live call give it its answer, and waits for what follows; `None` if
    /// that process is gone.
    pub(crate) async fn answer_elsewhere(
        self: &Arc<Self>,
        key: &str,
        holder: Option<&Holder>,
        server: &str,
        answer: &Value,
    ) -> Option<Turn> {
        let (engine, holder) = (self.engine(), holder?);
        let member = engine.cluster()?;
        let number = random_key();
        let (sender, mut replies) = mpsc::channel(REPLIES);
        self.remote.awaited.lock().insert(number.clone(), sender);
        let _awaited = AwaitedReply { remote: &self.remote, number: &number };
        let answer = Message::Answer {
            number: number.clone(),
            key: key.to_owned(),
            server: server.to_owned(),
            answer: answer.clone(),
        };
        let (mut heard, mut announced) = (Instant::now(), None::<Instant>);
        while heard.elapsed() < SILENCE {
            // A process that was killed counts as alive until its lease has expired.
            if !holder.is_elsewhere(engine).await {
                return None;
            }
            if announced.is_none_or(|at| at.elapsed() >= AGAIN) {
                announce(&member, &answer);
                announced = Some(Instant::now());
            }
            let checked = tokio::time::sleep(CHECK);
            tokio::pin!(checked);
            loop {
                tokio::select! {
                    () = &mut checked => break,
                    reply = replies.recv() => match reply? {
                        Reply::Taken => heard = Instant::now(),
                        Reply::Continued { turn, holder } => {
                            let holder = holder.map(|holder| (key.to_owned(), holder));
                            self.remote.holders.lock().extend(holder);
                            return Some(turn);
                        }
                    },
                }
            }
        }
        let what = "the process that has the call does not reply";
        Some(Turn::Failed(error::to_journal(&error::lost(server, what))))
    }

    /// The process that has a live call, whose next question was just raised.
    pub(crate) async fn holder(self: &Arc<Self>, key: &str) -> Option<Holder> {
        let elsewhere = self.remote.holders.lock().remove(key);
        match elsewhere {
            Some(holder) => Some(holder),
            None => Holder::own(self.engine()).await,
        }
    }

    /// Gives a call of this process an answer that another process took, and announces what follows.
    fn take_answer(self: &Arc<Self>, number: String, key: String, server: String, answer: Value) {
        let Some(member) = self.engine().cluster() else { return };
        let reply = {
            let mut taken = self.remote.taken.lock();
            let is_full = taken.len() >= MAX_TAKEN;
            match taken.entry(number.clone()) {
                Entry::Occupied(known) => Some(known.get().clone().unwrap_or(Reply::Taken)),
                // Another process has the call.
                Entry::Vacant(_) if is_full || !self.parked.contains(&key) => return,
                Entry::Vacant(new) => {
                    new.insert(None);
                    None
                }
            }
        };
        let is_new = reply.is_none();
        let reply = reply.unwrap_or(Reply::Taken);
        announce(&member, &Message::Reply { number: number.clone(), reply });
        if !is_new {
            return;
        }
        let sessions = self.clone();
        tokio::spawn(async move {
            let turn = sessions.answer_here(&key, &server, answer).await;
            let holder = match sessions.parked.contains(&key) {
                true => Holder::own(sessions.engine()).await,
                false => None,
            };
            let reply = Reply::Continued { turn, holder };
            sessions.remote.taken.lock().insert(number.clone(), Some(reply.clone()));
            announce(&member, &Message::Reply { number: number.clone(), reply });
            tokio::time::sleep(RETENTION).await;
            sessions.remote.taken.lock().remove(&number);
        });
    }
}

/// Removes an answer from those that wait for a reply.
struct AwaitedReply<'a> {
    remote: &'a RemoteAnswers,
    number: &'a str,
}

impl Drop for AwaitedReply<'_> {
    fn drop(&mut self) {
        self.remote.awaited.lock().remove(self.number);
    }
}

fn announce(member: &ClusterMember, message: &Message) {
    // Cannot fail: all keys are strings.
    member.announce(TOPIC, serde_json::to_vec(message).unwrap_or_default());
}

const TOPIC: &str = "gateway";

/// Replies that wait to be read.
const REPLIES: usize = 8;

/// Time after which an answer is sent again.
const AGAIN: Duration = Duration::from_secs(3);

/// Time after which the process that has the call is looked for again.
const CHECK: Duration = Duration::from_millis(500);

/// Time without any reply after which the call is lost.
const SILENCE: Duration = Duration::from_secs(30);

/// Limit on answers of other processes that are remembered.
const MAX_TAKEN: usize = 1000;

/// Time that the outcome of an answer is remembered for.
const RETENTION: Duration = Duration::from_secs(60);
