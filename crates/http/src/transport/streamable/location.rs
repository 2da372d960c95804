//! Location of a session among the nodes of a cluster, and adoption of sessions whose node is gone.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderMap;
use mcp_flow_server::Principal;
use tokio::time::timeout;

use super::handshake::drive_session;
use crate::cluster::relay::is_forwarded;
use crate::cluster::session_record::SessionRecord;
use crate::cluster::{ClusterNodes, epoch_of};
use crate::service::Service;
use crate::transport::session::HttpSession;

/// Location of a session.
pub(super) enum Location {
    /// On this node.
    Here(Arc<HttpSession>),
    /// On another node, by its epoch.
    There(u64),
    /// Nowhere, or it belongs to another principal.
    Unknown,
    /// Not known, because the store does not answer.
    Unavailable,
}

/// Finds a session. That of a node that is gone is adopted. A node that did not answer before may
/// have released the session, so that its record is read.
pub(super) async fn locate(
    service: &Arc<Service>,
    headers: &HeaderMap,
    id: &str,
    principal: &Principal,
    silent: Option<u64>,
) -> Location {
    let found = service.sessions.find(id, principal);
    let Some(cluster) = &service.cluster else {
        return found.map_or(Location::Unknown, Location::Here);
    };
    if let Some(session) = found {
        if session.is_held(&**cluster, service.record_lifetime()).await {
            return Location::Here(session);
        }
        // Another node has adopted it while this one was cut off.
        service.sessions.remove(id);
        session.connection.close_now();
    }
    let Some(creator) = epoch_of(id).filter(|_| !is_forwarded(headers)) else {
        return Location::Unknown;
    };
    let is_elsewhere = cluster.epoch() != Some(creator) && silent != Some(creator);
    if is_elsewhere && cluster.find(creator).is_some() {
        return Location::There(creator);
    }
    find_holder(service, cluster, headers, id, principal).await
}

/// Finds the node that holds a session by its record, and adopts the session if there is none.
async fn find_holder(
    service: &Arc<Service>,
    cluster: &Arc<dyn ClusterNodes>,
    headers: &HeaderMap,
    id: &str,
    principal: &Principal,
) -> Location {
    // Before the lock, which guessed ids must not keep from others.
    if matches!(cluster.record(id).await, Ok(None)) {
        return Location::Unknown;
    }
    // One at a time, so that requests of one client do not compete for its session.
    let _adopting = service.adopting.lock().await;
    for _ in 0..ATTEMPTS {
        if let Some(session) = service.sessions.find(id, principal) {
            return Location::Here(session);
        }
        let Some(epoch) = cluster.epoch() else { return Location::Unavailable };
        let (holder, value) = match cluster.record(id).await {
            Ok(Some(record)) => record,
            Ok(None) => return Location::Unknown,
            Err(error) => {
                tracing::warn!(%error, "cannot find the node of a session");
                return Location::Unavailable;
            }
        };
        let Ok(record) = serde_json::from_slice::<SessionRecord>(&value) else {
            return Location::Unknown;
        };
        if record.principal != principal.name() {
            return Location::Unknown;
        }
        if holder != 0 && holder != epoch {
            match cluster.is_alive(holder).await {
                Ok(true) => return Location::There(holder),
                Ok(false) => {}
                Err(_) => return Location::Unavailable,
            }
        }
        let adopted = HeldRecord { id, holder, epoch, record };
        if let Some(session) = adopt(service, &**cluster, headers, adopted, principal).await {
            return Location::Here(session);
        }
    }
    Location::Unavailable
}

/// Waits until a node that does not answer is gone, or has released a session. False if neither
/// happens in time.
pub(super) async fn wait_for_release(service: &Service, id: &str, node: u64) -> bool {
    let Some(cluster) = &service.cluster else { return false };
    let released = async {
        loop {
            let is_held =
                matches!(cluster.record(id).await, Ok(Some((holder, _))) if holder == node);
            let is_alive = !matches!(cluster.is_alive(node).await, Ok(false));
            if !is_held || !is_alive {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    timeout(RELEASE_TIMEOUT, released).await.is_ok()
}

/// Record of a session whose node is gone.
struct HeldRecord<'a> {
    id: &'a str,
    holder: u64,
    /// Epoch of this node.
    epoch: u64,
    record: SessionRecord,
}

/// Takes a session over: a connection in the same state, and an error for each call that was open.
/// None if another node was faster, or this one cannot.
async fn adopt(
    service: &Arc<Service>,
    cluster: &dyn ClusterNodes,
    headers: &HeaderMap,
    held: HeldRecord<'_>,
    principal: &Principal,
) -> Option<Arc<HttpSession>> {
    let HeldRecord { id, holder, epoch, mut record } = held;
    record.generation += 1;
    let value = serde_json::to_vec(&record).ok()?;
    let lifetime = service.record_lifetime();
    let taken = cluster.change_record(id, Some(holder), Some((epoch, value)), lifetime).await;
    if !matches!(taken, Ok(true)) {
        return None;
    }
    let connection = service.connect("http", Some(id), principal.clone(), headers).ok()?;
    for message in record.messages() {
        connection.receive(message.as_bytes());
        let replied = async {
            while !connection.is_over() {
                connection.output().await?;
            }
            Some(())
        };
        let _ = timeout(REPLY_TIMEOUT, replied).await;
    }
    connection.revision()?;
    let open_calls = std::mem::take(&mut record.open_calls);
    let session = HttpSession::new(id.to_owned(), connection, service.options.replay_bytes);
    session.adopt(epoch, record, &open_calls);
    if !service.sessions.add(id, session.clone()) {
        return None;
    }
    tracing::info!(from = holder, calls = open_calls.len(), "adopted a session of another node");
    drive_session(service, &session);
    Some(session)
}

/// Attempts to find a session that nodes adopt from each other.
const ATTEMPTS: usize = 3;

/// Time for the server to answer a message that sets a session up.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest time to wait for a node to be gone: more than a lease and a heartbeat.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

const PAUSE: Duration = Duration::from_millis(50);
