//! Notices of one session, for its subscribers, and the only source of expiry warnings.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use hashbrown::HashMap;
use mcp_flow_session::event::SessionEnded;
use mcp_flow_session::prompt::FlowProgress;
use mcp_flow_session::store::Listed;
use mcp_flow_session::{Divergence, InvalidAnswer, Owner, Session, SessionId, Timestamp};
use parking_lot::Mutex;
use tokio::sync::{broadcast, mpsc};

use crate::session_changes::{ChangePublisher, SessionChange};
use crate::view::{OpenQuestion, open_question};

/// Something that happened in a session. It is in the journal before it is published.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A question was asked.
    Asked(OpenQuestion),
    /// An answer was accepted and the flow is working.
    Accepted,
    /// An answer was rejected; the question is still open.
    Rejected(InvalidAnswer),
    /// The questions behind the open one have changed: [`View::queued`](crate::View::queued) has
    /// them.
    QueueChanged,
    /// The flow sleeps until this time.
    Sleeping(Timestamp),
    /// The session was set aside: its flow does not fit its journal.
    Stuck(Box<Divergence>),
    /// The flow reported progress. Not in the journal.
    Progress(FlowProgress),
    /// The session will expire unless its question is answered (INT-073). Not in the journal.
    Expiring {
        /// Time at which it expires.
        at: Timestamp,
        /// Milliseconds until then. Zero only on an [`ExpirySender`], for a session that is past
        /// its deadline and was not expired by this engine: another process has changed it.
        remaining: u64,
    },
    /// The session has ended.
    Ended(SessionEnded),
}

/// Notices of one session from the moment of subscribing.
#[derive(Debug)]
pub struct SessionSubscription {
    receiver: broadcast::Receiver<Notice>,
}

impl SessionSubscription {
    /// Waits for the next notice; None when there will be no more.
    ///
    /// A subscriber that falls behind misses the oldest notices. Read the status of the session
    /// after each notice rather than relying on every one.
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

/// Channel for the expiry notices of many sessions: [`Notice::Expiring`] before the deadline, and
/// [`Notice::Ended`] at the end.
pub type ExpirySender = mpsc::UnboundedSender<(SessionId, Notice)>;

/// Subscribers by session. A session without any has no entry.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    channels: Mutex<HashMap<SessionId, Channel>>,
    pub(crate) changes: ChangePublisher,
    shared_progress: OnceLock<SharedProgress>,
}

/// Publisher of progress to the subscribers of other nodes.
struct SharedProgress(Box<ShareProgress>);

type ShareProgress = dyn Fn(SessionId, &Owner, &FlowProgress) + Send + Sync;

impl fmt::Debug for SharedProgress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SharedProgress")
    }
}

#[derive(Debug)]
struct Channel {
    subscribers: Option<broadcast::Sender<Notice>>,
    expiry: Option<ExpirySender>,
    deadline: Option<Timestamp>,
    /// Milliseconds between the warning and the deadline.
    lead: u64,
    /// Deadline that was last warned of.
    warned: Option<Timestamp>,
}

impl Channel {
    fn new(lead: u64) -> Self {
        Self { subscribers: None, expiry: None, deadline: None, lead, warned: None }
    }

    fn send(&self, id: SessionId, notice: Notice) {
        if let Some(expiry) = &self.expiry
            && matches!(notice, Notice::Expiring { .. } | Notice::Ended(_))
        {
            let _ = expiry.send((id, notice.clone()));
        }
        if let Some(subscribers) = &self.subscribers {
            let _ = subscribers.send(notice);
        }
    }

    /// Time of the next warning or end.
    fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let deadline = self.deadline?;
        [self.warns_at(deadline), deadline].into_iter().find(|at| *at > now)
    }

    fn warns_at(&self, deadline: Timestamp) -> Timestamp {
        Timestamp::from_millis(deadline.as_millis().saturating_sub(self.lead))
    }

    fn is_watched(&self) -> bool {
        let has_subscribers = |sender: &broadcast::Sender<_>| sender.receiver_count() > 0;
        self.expiry.as_ref().is_some_and(|expiry| !expiry.is_closed())
            || self.subscribers.as_ref().is_some_and(has_subscribers)
    }
}

impl Hub {
    pub(crate) fn subscribe(
        &self,
        id: SessionId,
        session: &Session,
        lead: u64,
    ) -> SessionSubscription {
        let mut channels = self.channels.lock();
        let channel = channels.entry(id).or_insert_with(|| Channel::new(lead));
        channel.deadline = deadline(session);
        let sender = channel.subscribers.get_or_insert_with(|| broadcast::channel(CAPACITY).0);
        SessionSubscription { receiver: sender.subscribe() }
    }

    /// Sends the expiry notices of a session to a channel, in place of the one before.
    pub(crate) fn watch_expiry(
        &self,
        id: SessionId,
        at: Timestamp,
        lead: u64,
        expiry: &ExpirySender,
    ) {
        let mut channels = self.channels.lock();
        let channel = channels.entry(id).or_insert_with(|| Channel::new(lead));
        channel.deadline = Some(at);
        channel.expiry = Some(expiry.clone());
    }

    pub(crate) fn unwatch_expiry(&self, id: SessionId) {
        let mut channels = self.channels.lock();
        if let Some(channel) = channels.get_mut(&id) {
            channel.expiry = None;
            if !channel.is_watched() {
                channels.remove(&id);
            }
        }
    }

    /// Publishes the progress of a flow, to the subscribers of other nodes as well.
    pub(crate) fn publish_progress(&self, id: SessionId, owner: &Owner, progress: &FlowProgress) {
        self.publish_progress_here(id, owner, progress);
        if let Some(SharedProgress(share)) = self.shared_progress.get() {
            share(id, owner, progress);
        }
    }

    /// Sets how the subscribers of other nodes learn of progress.
    pub(crate) fn share_progress(
        &self,
        share: impl Fn(SessionId, &Owner, &FlowProgress) + Send + Sync + 'static,
    ) {
        let _ = self.shared_progress.set(SharedProgress(Box::new(share)));
    }

    /// Publishes the progress of a flow to the subscribers of this node.
    pub(crate) fn publish_progress_here(
        &self,
        id: SessionId,
        owner: &Owner,
        progress: &FlowProgress,
    ) {
        if let Some(channel) = self.channels.lock().get(&id) {
            channel.send(id, Notice::Progress(progress.clone()));
        }
        let (owner, progress) = (owner.clone(), progress.clone());
        self.changes.publish(|| SessionChange::Progress { id, owner, progress });
    }

    /// Publishes what a turn has changed.
    pub(crate) fn publish_turn(&self, id: SessionId, session: &Session, notices: Vec<Notice>) {
        self.changes.publish(|| SessionChange::Updated(Listed { id, summary: session.summary() }));
        let mut channels = self.channels.lock();
        let Some(channel) = channels.get_mut(&id) else { return };
        channel.deadline = deadline(session);
        for notice in notices {
            channel.send(id, notice);
        }
        if session.ended.is_some() {
            channels.remove(&id);
        }
    }

    /// Warns of sessions that are about to expire, and removes channels without subscribers. Returns
    /// the time of the next warning or end.
    pub(crate) fn publish_warnings(&self, now: Timestamp) -> Option<Timestamp> {
        let mut next = None;
        self.channels.lock().retain(|id, channel| {
            let due = channel.deadline.filter(|deadline| {
                channel.warns_at(*deadline) <= now
                    && *deadline > now
                    && channel.warned != Some(*deadline)
            });
            if let Some(at) = due {
                channel.warned = Some(at);
                let remaining = at.as_millis() - now.as_millis();
                channel.send(*id, Notice::Expiring { at, remaining });
            }
            if let Some(at) = channel.deadline
                && now.since(at) > EXPIRY_GRACE
                && let Some(expiry) = channel.expiry.take()
            {
                let _ = expiry.send((*id, Notice::Expiring { at, remaining: 0 }));
            }
            let is_watched = channel.is_watched();
            next = channel.next(now).filter(|_| is_watched).into_iter().chain(next).min();
            is_watched
        });
        next
    }

    /// Returns the time of the next warning or end of a session with subscribers.
    pub(crate) fn next_expiry(&self, id: SessionId, now: Timestamp) -> Option<Timestamp> {
        self.channels.lock().get(&id)?.next(now)
    }

    /// Returns the sessions with subscribers.
    pub(crate) fn watched(&self) -> Vec<SessionId> {
        self.channels.lock().keys().copied().collect()
    }

    pub(crate) fn is_watched(&self, id: SessionId) -> bool {
        self.channels.lock().contains_key(&id)
    }
}

/// Notice of the open question, if there is one.
pub(crate) fn asked(session: &Session) -> Option<Notice> {
    open_question(session).map(Notice::Asked)
}

/// Deadline to warn of. Expiry of a tombstone is not announced.
fn deadline(session: &Session) -> Option<Timestamp> {
    if session.ended.is_some() { None } else { session.deadline() }
}

/// Time after a deadline in which this engine expires a session, unless another process does.
const EXPIRY_GRACE: Duration = Duration::from_secs(10);

/// Notices a subscriber may be behind.
const CAPACITY: usize = 64;
