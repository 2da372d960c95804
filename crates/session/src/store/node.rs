//! Nodes: the processes that share a store. Leases say which of them are alive, holders which of
//! them works on a session.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::StoreFuture;
use crate::{SessionId, Timestamp};

/// Number of a node: each process that joins a store gets a greater one than all before it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize,
)]
#[serde(transparent)]
pub struct Epoch(u64);

impl Epoch {
    /// Stands for no node: a process that has a store for itself, or work that nobody does.
    pub const NONE: Self = Self(0);

    /// Creates an epoch from its number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns its number, for use as a fencing token.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Condition of an append beside the length of the journal, and the holder after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    /// Node that appends.
    pub by: Epoch,
    /// Node that works on the session after the append; none if the session waits or has ended.
    /// [`Epoch::NONE`] leaves work to whoever [claims](SharedStore::claim) it.
    pub holder: Option<Epoch>,
    /// Set if the append is made even though another node works on the session: its end.
    pub steal: bool,
}

impl Fence {
    /// Returns whether a session with this holder may be appended to.
    pub fn permits(&self, holder: Option<Epoch>) -> bool {
        self.steal || holder.is_none_or(|holder| holder == Epoch::NONE || holder == self.by)
    }
}

/// Length and holder of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Number of events.
    pub length: usize,
    /// Set if the session has ended, so that nothing can be appended.
    pub is_ended: bool,
    /// Node that works on the session; [`Epoch::NONE`] if there is work and nobody does it.
    pub holder: Option<Epoch>,
}

/// Description of a node for the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct NodeInfo {
    /// Name for people, such as its host and process id.
    pub name: String,
    /// URL at which the other nodes reach it, if they can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Version of its program.
    pub version: String,
}

/// A live node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub epoch: Epoch,
    /// Its description.
    pub info: NodeInfo,
}

/// Result of renewing a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// False if the lease has expired and another node has noticed: join again.
    pub is_member: bool,
    /// Time by the clock of the store, if it has one of its own.
    pub clock: Option<Timestamp>,
}

/// A small value that nodes share beside journals, and that one of them holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Node that may replace or remove it; [`Epoch::NONE`] if it was released to whoever takes it.
    pub holder: Epoch,
    /// Content, which the store encrypts.
    pub value: Vec<u8>,
}

/// Change of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordChange {
    /// Key of the record, unique in the store.
    pub key: String,
    /// Holder of the record that is replaced; None if there must be no such record.
    pub from: Option<Epoch>,
    /// The new record; None removes it.
    pub record: Option<Record>,
    /// Time after which nobody needs the record any more.
    pub lifetime: Duration,
}

/// Methods of a store that several processes use at once.
///
/// A node joins, then renews its lease by heartbeats. A lease lasts [`LEASE`](super::LEASE) by the
/// store's clock. Sessions of nodes whose lease has expired can be claimed. A node that still
/// believes to be alive then is refused by the [`Fence`] of its appends.
pub trait SharedStore: Send + Sync {
    /// Reads the head of a journal; none if there is no such session.
    fn head(&self, id: SessionId) -> StoreFuture<'_, Option<Head>>;

    /// Adds a node with a fresh lease.
    fn join(&self, info: NodeInfo) -> StoreFuture<'_, Epoch>;

    /// Renews the lease of a node. It waits for nothing else that the store does.
    fn beat(&self, epoch: Epoch) -> StoreFuture<'_, Heartbeat>;

    /// Removes a node. Its sessions can be claimed at once.
    fn leave(&self, epoch: Epoch) -> StoreFuture<'_, ()>;

    /// Returns whether there may be sessions to claim.
    fn has_orphans(&self) -> StoreFuture<'_, bool>;

    /// Removes nodes whose lease has expired, and makes a node the holder of up to `most` sessions
    /// with work that no live node holds, other than `except`. No two nodes get the same session.
    fn claim(
        &self,
        by: Epoch,
        most: usize,
        except: Vec<SessionId>,
    ) -> StoreFuture<'_, Vec<SessionId>>;

    /// Gives back a session that a node holds, so that it can be claimed. Does nothing if it holds
    /// it no more.
    fn release(&self, by: Epoch, id: SessionId) -> StoreFuture<'_, ()>;

    /// Returns the sessions that a node holds.
    fn held(&self, by: Epoch) -> StoreFuture<'_, Vec<SessionId>>;

    /// Returns the live nodes, oldest first.
    fn nodes(&self) -> StoreFuture<'_, Vec<Node>>;

    /// Reads a record, unless its lifetime is over.
    fn record(&self, key: String) -> StoreFuture<'_, Option<Record>>;

    /// Changes a record if it is held as expected. Returns whether it was. A record survives the
    /// nodes, but perhaps not the machine of the store.
    fn change_record(&self, change: RecordChange) -> StoreFuture<'_, bool>;

    /// Posts a message to one node, or to all. It may be lost.
    fn post(&self, to: Option<Epoch>, message: Vec<u8>) -> StoreFuture<'_, ()>;

    /// Follows what other nodes do, from now on.
    fn changes(&self, of: Epoch) -> Box<dyn StoreChanges>;

    /// Looks for settings and privileges with which the store would lose data or fail later.
    fn examine(&self) -> StoreFuture<'_, StoreExamination> {
        Box::pin(std::future::ready(Ok(StoreExamination::default())))
    }
}

/// Findings about a store, for its operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreExamination {
    /// Time by the clock of the store, if it has one of its own.
    pub clock: Option<Timestamp>,
    /// Problems, with what to do about them.
    pub problems: Vec<String>,
}

/// Something that another node did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreChange {
    /// The journal of a session has changed.
    Session(SessionId),
    /// A message was posted to this node.
    Posted(Vec<u8>),
    /// Changes were missed, and any session may have changed.
    Missed,
}

/// Changes by other nodes. Each is returned, or [`StoreChange::Missed`] in its place.
pub trait StoreChanges: Send {
    /// Waits for the next change.
    fn next(&mut self) -> Pin<Box<dyn Future<Output = StoreChange> + Send + '_>>;
}
