//! The other nodes that share the store, for what engines have no part in: transports that continue
//! connections of another node, and announcements to the clients of all nodes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow_rate::{Buckets, Rate};
use mcp_flow_session::prompt::FlowProgress;
use mcp_flow_session::store::{Node, Record, RecordChange, SharedStore, StoreError};
use mcp_flow_session::{Epoch, Owner, SessionId};
use parking_lot::RwLock;
use tokio::time::{Instant, timeout};

use crate::engine::Engine;
use crate::forward::encode_announcement;
use crate::membership::{Membership, unavailable};

/// This process as one of several nodes that share a store. A handle; clones share one membership.
#[derive(Clone, Debug)]
pub struct ClusterMember {
    engine: Engine,
}

impl Engine {
    /// Returns the membership of this process among the nodes of its store, if that is shared.
    pub fn cluster(&self) -> Option<ClusterMember> {
        self.shared()?;
        Some(ClusterMember { engine: self.clone() })
    }
}

impl Engine {
    /// Passes the progress of flows on to subscribers of other nodes, a few times per second.
    pub(crate) fn share_progress(&self) {
        let Some(member) = self.cluster() else { return };
        // Weak: the engine owns what holds these.
        let (sharing, receiving) = (Arc::downgrade(&self.inner), Arc::downgrade(&self.inner));
        let shared = Buckets::<SessionId>::default();
        self.inner.hub.share_progress(move |id, owner, progress| {
            let now = Instant::now().into_std();
            if let Some(inner) = sharing.upgrade()
                && shared.take(&id, PROGRESS, now).is_ok()
                && let Ok(content) = serde_json::to_vec(&(id, owner, progress))
            {
                ClusterMember { engine: Self { inner } }.announce(PROGRESS_TOPIC, content);
            }
        });
        member.on_announcement(PROGRESS_TOPIC, move |content| {
            let progress = serde_json::from_slice::<(SessionId, Owner, FlowProgress)>(content);
            if let (Ok((id, owner, progress)), Some(inner)) = (progress, receiving.upgrade()) {
                inner.hub.publish_progress_here(id, &owner, &progress);
            }
        });
    }
}

impl ClusterMember {
    /// Sets the URL at which other nodes reach this one. To be called before the engine is used.
    pub fn set_url(&self, url: String) {
        self.membership().set_url(url);
    }

    /// Waits until this process has joined, a few seconds at most. Returns whether it has.
    pub async fn joined(&self) -> bool {
        matches!(self.engine.held_lease().await, Ok(Some(_)))
    }

    /// Returns the epoch of this process; none while its lease cannot be relied on.
    pub fn epoch(&self) -> Option<Epoch> {
        self.membership().valid_epoch()
    }

    /// Returns the nodes that were alive at the last heartbeat, oldest first.
    pub fn known_nodes(&self) -> Vec<Node> {
        self.membership().known_nodes()
    }

    /// Asks the store for the live nodes, oldest first.
    pub async fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        self.within(self.store().nodes()).await
    }

    /// Reads a record that nodes share.
    pub async fn record(&self, key: &str) -> Result<Option<Record>, StoreError> {
        self.within(self.store().record(key.to_owned())).await
    }

    /// Changes a record that nodes share, if it is held as expected. Returns whether it was.
    pub async fn change_record(&self, change: RecordChange) -> Result<bool, StoreError> {
        self.within(self.store().change_record(change)).await
    }

    /// Announces something to all other nodes. It may be lost.
    pub fn announce(&self, topic: &'static str, content: Vec<u8>) {
        if self.known_nodes().len() < 2 {
            return;
        }
        let engine = self.engine.clone();
        let message = encode_announcement(self.membership().epoch(), topic, &content);
        self.engine.inner.tasks.spawn(async move {
            let Some(shared) = engine.shared() else { return };
            if let Err(error) = shared.post(None, message).await {
                tracing::debug!(%error, topic, "cannot announce a change to the other nodes");
            }
        });
    }

    /// Sets what is done with announcements of other nodes on a topic.
    pub fn on_announcement(
        &self,
        topic: &'static str,
        receive: impl Fn(&[u8]) + Send + Sync + 'static,
    ) {
        self.membership().receivers.0.write().push((topic, Box::new(receive)));
    }

    /// Sets what is done after each heartbeat, which has read the live nodes.
    pub fn on_heartbeat(&self, act: impl Fn() + Send + Sync + 'static) {
        self.membership().receivers.1.write().push(Box::new(act));
    }

    /// A cluster member has a membership, or it would not have been created.
    fn membership(&self) -> &Membership {
        self.engine.inner.membership.as_ref().expect("the store is shared")
    }

    fn store(&self) -> &dyn SharedStore {
        self.engine.shared().expect("the store is shared")
    }

    async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match timeout(STORE_TIMEOUT, work).await {
            Ok(done) => done,
            Err(_) => Err(unavailable("it does not respond")),
        }
    }
}

/// Receivers of announcements by topic, and of heartbeats.
#[derive(Default)]
pub(crate) struct Receivers(
    RwLock<Vec<(&'static str, Box<Receive>)>>,
    RwLock<Vec<Box<dyn Fn() + Send + Sync>>>,
);

type Receive = dyn Fn(&[u8]) + Send + Sync;

impl Receivers {
    pub(crate) fn receive(&self, topic: &str, content: &[u8]) {
        // Announcements of topics without a receiver are ignored: they are of newer nodes.
        for (known, receive) in &*self.0.read() {
            if *known == topic {
                receive(content);
            }
        }
    }
}

impl Receivers {
    pub(crate) fn heard(&self) {
        self.1.read().iter().for_each(|act| act());
    }
}

impl fmt::Debug for Receivers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Receivers")
    }
}

const PROGRESS_TOPIC: &str = "progress";

/// Progress of one session that other nodes learn of.
const PROGRESS: Rate = Rate { burst: 2, per_second: 4.0 };

/// Longest time to wait for the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);
