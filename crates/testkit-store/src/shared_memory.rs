//! Model of a store that several nodes share, in memory: each node has a connection of its own,
//! which can be cut.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mcp_flow_session::store::{
    Append, Census, Filter, Head, Heartbeat, LEASE, Listed, Node, NodeInfo, PageRequest, Record,
    RecordChange, SharedStore, StoreChange, StoreChanges, StoreFuture,
};
use mcp_flow_session::{Epoch, JournalEvent, MemoryStore, SessionId, Store, StoreError, Timestamp};
use tokio::sync::broadcast;
use tokio::time::Instant;

/// Store in memory that several nodes share.
#[derive(Debug)]
pub struct SharedMemory {
    kept: MemoryStore,
    nodes: Mutex<Nodes>,
    changes: broadcast::Sender<(Epoch, Option<Epoch>, StoreChange)>,
    mutation: Option<Mutation>,
}

/// A way to break the contract, with which a test shows that it would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Leases expire before nodes stop to rely on them.
    ShortLeases,
    /// Heads are those of half a second ago.
    StaleHeads,
    /// Sessions of live nodes are claimed as well.
    GreedyClaims,
}

#[derive(Debug, Default)]
struct Nodes {
    last: u64,
    live: BTreeMap<Epoch, (NodeInfo, Instant)>,
    holders: BTreeMap<SessionId, Epoch>,
    /// Records with the end of their lifetime.
    records: BTreeMap<String, (Record, Instant)>,
    /// Heads that a mutated store returns for a while.
    heads: BTreeMap<SessionId, (Instant, Option<Head>)>,
}

/// Connection of one node to a [`SharedMemory`].
#[derive(Debug)]
pub struct SharedConnection {
    store: Arc<SharedMemory>,
    is_cut: AtomicBool,
    /// Appends under way, if they are held up.
    held_up: Mutex<Option<Vec<Append>>>,
    /// Set while nobody hears of the appends of this node.
    is_mute: AtomicBool,
}

impl SharedMemory {
    /// Creates an empty store.
    pub fn create() -> Arc<Self> {
        Self::mutated(None)
    }

    /// Creates an empty store that breaks the contract in this way.
    pub fn mutated(mutation: Option<Mutation>) -> Arc<Self> {
        let changes = broadcast::channel(CAPACITY).0;
        let (kept, nodes) = (MemoryStore::new(), Mutex::default());
        Arc::new(Self { kept, nodes, changes, mutation })
    }

    fn lease_end(&self) -> Instant {
        let is_short = self.mutation == Some(Mutation::ShortLeases);
        Instant::now() + if is_short { LEASE / 4 } else { LEASE }
    }

    /// Connects a node.
    pub fn connect(self: &Arc<Self>) -> Arc<SharedConnection> {
        let (store, is_cut) = (Arc::clone(self), AtomicBool::new(false));
        let (held_up, is_mute) = (Mutex::default(), AtomicBool::new(false));
        Arc::new(SharedConnection { store, is_cut, held_up, is_mute })
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, append: Append, is_mute: bool) -> Result<(), StoreError> {
        let mut nodes = self.nodes();
        let (id, fence) = (append.id, append.fence);
        if !fence.permits(nodes.holders.get(&id).copied()) {
            return Err(StoreError::Conflict(id));
        }
        now(self.kept.append(append))?;
        match fence.holder {
            Some(holder) => nodes.holders.insert(id, holder),
            None => nodes.holders.remove(&id),
        };
        if !is_mute {
            // Fails only if nobody listens.
            let _ = self.changes.send((fence.by, None, StoreChange::Session(id)));
        }
        Ok(())
    }
}

impl SharedConnection {
    /// Cuts or restores the connection. While it is cut, every call fails.
    pub fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::SeqCst);
    }

    /// Holds up appends, which fail meanwhile, or delivers them.
    pub fn hold_up(&self, is_held_up: bool) {
        let held_up = is_held_up.then(Vec::new);
        let delivered = std::mem::replace(&mut *self.held_up(), held_up);
        for append in delivered.into_iter().flatten() {
            // Nobody waits for the reply any more.
            let _ = self.store.append(append, false);
        }
    }

    /// Has nobody hear of the appends of this node, as if it had died after each of them.
    pub fn mute(&self, is_mute: bool) {
        self.is_mute.store(is_mute, Ordering::SeqCst);
    }

    fn held_up(&self) -> MutexGuard<'_, Option<Vec<Append>>> {
        self.held_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs work on the store, unless the connection is cut.
    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SharedMemory) -> Result<T, StoreError>,
    ) -> StoreFuture<'_, T> {
        let done = match self.is_cut.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("the connection is cut".into())),
            false => work(&self.store),
        };
        Box::pin(std::future::ready(done))
    }
}

impl Store for SharedConnection {
    fn read(&self, id: SessionId) -> StoreFuture<'_, Vec<JournalEvent>> {
        self.with(|store| now(store.kept.read(id)))
    }

    fn append(&self, append: Append) -> StoreFuture<'_, ()> {
        if let Some(held_up) = &mut *self.held_up() {
            held_up.push(append);
            let failed = StoreError::Unavailable("the server does not respond".into());
            return Box::pin(std::future::ready(Err(failed)));
        }
        let is_mute = self.is_mute.load(Ordering::SeqCst);
        self.with(|store| store.append(append, is_mute))
    }

    fn list(&self, filter: Filter, page: PageRequest) -> StoreFuture<'_, Vec<Listed>> {
        self.with(|store| now(store.kept.list(filter, page)))
    }

    fn due(&self, time: Timestamp, most: usize) -> StoreFuture<'_, Vec<SessionId>> {
        self.with(|store| now(store.kept.due(time, most)))
    }

    fn census(&self) -> StoreFuture<'_, Census> {
        self.with(|store| now(store.kept.census()))
    }

    fn erase(&self, id: SessionId) -> StoreFuture<'_, ()> {
        self.with(|store| {
            store.nodes().holders.remove(&id);
            now(store.kept.erase(id))
        })
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        Some(self)
    }
}

impl SharedStore for SharedConnection {
    fn head(&self, id: SessionId) -> StoreFuture<'_, Option<Head>> {
        self.with(|store| {
            let mut nodes = store.nodes();
            let events = now(store.kept.read(id))?;
            let is_ended = matches!(events.last(), Some(JournalEvent::Ended(_)));
            let holder = nodes.holders.get(&id).copied();
            let length = events.len();
            let head = (length > 0).then_some(Head { length, is_ended, holder });
            if store.mutation == Some(Mutation::StaleHeads) {
                let known = nodes.heads.entry(id).or_insert((Instant::now(), head));
                if known.0.elapsed() > Duration::from_millis(500) {
                    *known = (Instant::now(), head);
                }
                return Ok(known.1);
            }
            Ok(head)
        })
    }

    fn join(&self, info: NodeInfo) -> StoreFuture<'_, Epoch> {
        self.with(|store| {
            let mut nodes = store.nodes();
            nodes.last += 1;
            let epoch = Epoch::new(nodes.last);
            nodes.live.insert(epoch, (info, store.lease_end()));
            Ok(epoch)
        })
    }

    fn beat(&self, epoch: Epoch) -> StoreFuture<'_, Heartbeat> {
        self.with(|store| {
            let mut nodes = store.nodes();
            let renewed = nodes.live.get_mut(&epoch);
            let is_member = renewed.is_some();
            if let Some((_, until)) = renewed {
                *until = store.lease_end();
            }
            Ok(Heartbeat { is_member, clock: None })
        })
    }

    fn has_orphans(&self) -> StoreFuture<'_, bool> {
        self.with(|store| {
            let mut nodes = store.nodes();
            nodes.expire();
            Ok(nodes.holders.values().any(|by| !nodes.live.contains_key(by)))
        })
    }

    fn leave(&self, epoch: Epoch) -> StoreFuture<'_, ()> {
        self.with(|store| {
            store.nodes().live.remove(&epoch);
            Ok(())
        })
    }

    fn claim(
        &self,
        by: Epoch,
        most: usize,
        except: Vec<SessionId>,
    ) -> StoreFuture<'_, Vec<SessionId>> {
        self.with(move |store| {
            let mut nodes = store.nodes();
            nodes.expire();
            let Nodes { live, holders, .. } = &mut *nodes;
            let is_greedy = store.mutation == Some(Mutation::GreedyClaims);
            let orphans = holders.iter_mut().filter(|(id, holder)| {
                (is_greedy || !live.contains_key(*holder)) && !except.contains(id)
            });
            let claimed = orphans.take(most).map(|(id, holder)| {
                *holder = by;
                *id
            });
            Ok(claimed.collect())
        })
    }

    fn release(&self, by: Epoch, id: SessionId) -> StoreFuture<'_, ()> {
        self.with(|store| {
            if let Some(holder) = store.nodes().holders.get_mut(&id).filter(|holder| **holder == by)
            {
                *holder = Epoch::NONE;
            }
            Ok(())
        })
    }

    fn held(&self, by: Epoch) -> StoreFuture<'_, Vec<SessionId>> {
        self.with(|store| {
            let nodes = store.nodes();
            let held = nodes.holders.iter().filter(|(_, holder)| **holder == by);
            Ok(held.map(|(id, _)| *id).collect())
        })
    }

    fn nodes(&self) -> StoreFuture<'_, Vec<Node>> {
        self.with(|store| Ok(store.nodes().list()))
    }

    fn record(&self, key: String) -> StoreFuture<'_, Option<Record>> {
        self.with(|store| {
            let found = store.nodes().records.get(&key).cloned();
            Ok(found.filter(|(_, until)| *until > Instant::now()).map(|(record, _)| record))
        })
    }

    fn change_record(&self, change: RecordChange) -> StoreFuture<'_, bool> {
        self.with(|store| {
            let mut nodes = store.nodes();
            nodes.records.retain(|_, (_, until)| *until > Instant::now());
            let holder = nodes.records.get(&change.key).map(|(record, _)| record.holder);
            if holder != change.from {
                return Ok(false);
            }
            match change.record {
                Some(record) => {
                    let until = Instant::now() + change.lifetime;
                    nodes.records.insert(change.key, (record, until));
                }
                None => _ = nodes.records.remove(&change.key),
            }
            Ok(true)
        })
    }

    fn post(&self, to: Option<Epoch>, message: Vec<u8>) -> StoreFuture<'_, ()> {
        self.with(|store| {
            let _ = store.changes.send((Epoch::NONE, to, StoreChange::Posted(message)));
            Ok(())
        })
    }

    fn changes(&self, of: Epoch) -> Box<dyn StoreChanges> {
        Box::new(Changes { receiver: self.store.changes.subscribe(), of })
    }
}

impl Nodes {
    fn expire(&mut self) {
        let now = Instant::now();
        self.live.retain(|_, (_, until)| *until > now);
    }

    fn list(&self) -> Vec<Node> {
        let node = |(epoch, (info, _)): (&Epoch, &(NodeInfo, _))| Node {
            epoch: *epoch,
            info: info.clone(),
        };
        self.live.iter().map(node).collect()
    }
}

struct Changes {
    receiver: broadcast::Receiver<(Epoch, Option<Epoch>, StoreChange)>,
    of: Epoch,
}

impl StoreChanges for Changes {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = StoreChange> + Send + '_>> {
        Box::pin(async {
            loop {
                match self.receiver.recv().await {
                    Ok((by, to, change)) => {
                        if by != self.of && to.is_none_or(|to| to == self.of) {
                            return change;
                        }
                    }
                    Err(broadcast::error::RecvError::Lagged(_)) => return StoreChange::Missed,
                    Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                }
            }
        })
    }
}

/// Result of a future that does not wait.
fn now<T>(future: StoreFuture<'_, T>) -> Result<T, StoreError> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("memory does not wait"),
    }
}

/// Changes a node may be behind.
const CAPACITY: usize = 1024;
