//! Telling those who listen to a session what happens in it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use mcp_flow_session::event::Ended;
use mcp_flow_session::prompt::Progress;
use mcp_flow_session::store::Listed;
use mcp_flow_session::{Owner, Session, SessionId, Timestamp, Violation};
use tokio::sync::broadcast;

use crate::change::{Change, Watchers};
use crate::view::{OpenQuestion, open_question};

/// Something that happened in a session. It is in the journal before anyone hears of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A question was asked.
    Asked(OpenQuestion),
    /// An answer was taken and the flow is at work on it.
    Accepted,
    /// An answer was not taken; the question is still open.
    Rejected(Violation),
    /// The flow says how far it has come. Not kept in the journal.
    Progress(Progress),
    /// Without an answer the session will expire (INT-073). Not kept in the journal.
    Expiring {
        /// When.
        at: Timestamp,
        /// In how many milliseconds.
        remaining: u64,
    },
    /// The session is over.
    Ended(Ended),
}

/// What happens in one session, from the moment of subscribing.
#[derive(Debug)]
pub struct Subscription {
    receiver: broadcast::Receiver<Notice>,
}

impl Subscription {
    /// Waits for the next thing to happen; None when nothing more will.
    ///
    /// Who falls too far behind misses the oldest notices and goes on with the newer ones; the
    /// state of the session always tells what counts.
    pub async fn next(&mut self) -> Option<Notice> {
        loop {
            match self.receiver.recv().await {
                Ok(notice) => return Some(notice),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

/// Who listens to what. A session nobody listens to has no entry.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    channels: Mutex<HashMap<SessionId, Channel>>,
    pub(crate) watchers: Watchers,
}

#[derive(Debug)]
struct Channel {
    sender: broadcast::Sender<Notice>,
    deadline: Option<Timestamp>,
    /// How long before its deadline the owner is warned.
    lead: u64,
    /// The deadline that was last warned of.
    warned: Option<Timestamp>,
}

impl Hub {
    pub(crate) fn subscribe(&self, id: SessionId, session: &Session, lead: u64) -> Subscription {
        let mut channels = self.lock();
        let channel = channels.entry(id).or_insert_with(|| Channel {
            sender: broadcast::channel(CAPACITY).0,
            deadline: None,
            lead,
            warned: None,
        });
        channel.deadline = deadline(session);
        Subscription { receiver: channel.sender.subscribe() }
    }

    /// Tells how far the flow of a session has come.
    pub(crate) fn progressed(&self, id: SessionId, owner: &Owner, progress: &Progress) {
        if let Some(channel) = self.lock().get(&id) {
            let _ = channel.sender.send(Notice::Progress(progress.clone()));
        }
        let (owner, progress) = (owner.clone(), progress.clone());
        self.watchers.tell(|| Change::Progress { id, owner, progress });
    }

    /// Tells what became of a session after a turn.
    pub(crate) fn turned(&self, id: SessionId, session: &Session, notices: Vec<Notice>) {
        self.watchers.tell(|| Change::Turned(Listed { id, summary: session.summary() }));
        let mut channels = self.lock();
        let Some(channel) = channels.get_mut(&id) else { return };
        channel.deadline = deadline(session);
        for notice in notices {
            let _ = channel.sender.send(notice);
        }
        if session.ended.is_some() {
            channels.remove(&id);
        }
    }

    /// Warns of sessions that are about to expire, and forgets those nobody listens to.
    pub(crate) fn sweep(&self, now: Timestamp) {
        self.lock().retain(|_, channel| {
            let due = channel.deadline.filter(|deadline| {
                deadline.as_millis().saturating_sub(channel.lead) <= now.as_millis()
                    && *deadline > now
                    && channel.warned != Some(*deadline)
            });
            if let Some(at) = due {
                channel.warned = Some(at);
                let remaining = at.as_millis() - now.as_millis();
                let _ = channel.sender.send(Notice::Expiring { at, remaining });
            }
            channel.sender.receiver_count() > 0
        });
    }

    pub(crate) fn listens(&self, id: SessionId) -> bool {
        self.lock().contains_key(&id)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Channel>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The question to tell of, if one is open.
pub(crate) fn asked(session: &Session) -> Option<Notice> {
    open_question(session).map(Notice::Asked)
}

/// Nobody is warned that the memory of an ended session will fade.
fn deadline(session: &Session) -> Option<Timestamp> {
    if session.ended.is_some() { None } else { session.deadline() }
}

/// How many notices a listener may be behind.
const CAPACITY: usize = 64;
