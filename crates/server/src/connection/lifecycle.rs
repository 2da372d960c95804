//! Lifecycle of a connection: handshake, operation, draining, end.
//!
//! Owns the phase, and what changes with it. Requests are admitted or rejected by phase in `dispatch`.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_proto::{RequestId, method};
use tokio::sync::SetOnce;
use tokio::time::Instant;

use super::call::Call;
use super::calls::Stage;
use super::dispatch::{self, shutting_down};
use super::{ConnectionInner, subscriptions};
use crate::event::ConnectionEvent;
use crate::identity::Peer;

/// The lifecycle state of one connection.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    peer: Option<Arc<Peer>>,
    /// Set once the client may be sent unsolicited messages (C-21).
    ready: Arc<SetOnce<()>>,
    ending: Option<Ending>,
    ended: Option<ConnectionEnd>,
}

#[derive(Debug)]
struct Ending {
    /// The end of the drain time.
    deadline: Instant,
    /// The `shutdown` request, answered when everything before it is.
    shutdown: Option<Arc<Call>>,
    shutdown_requested: bool,
}

/// The way a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// Everything was answered: after the end of input or a `shutdown`.
    Drained,
    /// The client sent `exit`, after a `shutdown` or without one.
    Exit {
        /// Set if a `shutdown` came before it.
        after_shutdown: bool,
    },
    /// A hook of the host application vetoed it.
    Vetoed,
    /// The transport was lost while calls were open.
    Lost,
}

impl Lifecycle {
    /// The client, once it has initialized.
    pub(crate) fn peer(&self) -> Option<&Arc<Peer>> {
        self.peer.as_ref()
    }

    /// The client; records that it has sent a request, which shows that it is ready.
    pub(crate) fn peer_of_request(&self, method: &str) -> Option<Arc<Peer>> {
        if method != method::PING {
            self.set_ready();
        }
        self.peer.clone()
    }

    /// Completes the handshake, once.
    pub(crate) fn initialize(&mut self, peer: Peer) -> Result<(), AlreadyInitialized> {
        if self.peer.is_some() {
            return Err(AlreadyInitialized);
        }
        self.peer = Some(Arc::new(peer));
        Ok(())
    }

    /// Records that the client is ready: it said so, or sent its first request.
    fn set_ready(&self) {
        if self.peer.is_some() && !self.ready.initialized() {
            // Both signs of readiness may come.
            let _ = self.ready.set(());
        }
    }

    /// Wakes tasks that wait for a client that will never be ready.
    fn wake_waiting(&self) {
        let _ = self.ready.set(());
    }

    /// Set when the client may be sent unsolicited messages.
    pub(crate) fn ready(&self) -> Arc<SetOnce<()>> {
        self.ready.clone()
    }

    /// Returns whether the client may be sent unsolicited messages.
    pub(crate) fn is_ready(&self) -> bool {
        self.peer.is_some() && self.ready.initialized()
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_some() || self.ended.is_some()
    }

    pub(crate) fn ended(&self) -> Option<ConnectionEnd> {
        self.ended
    }

    /// Returns whether this is the id of the pending `shutdown`.
    pub(crate) fn is_shutting_down_by(&self, id: &RequestId) -> bool {
        let shutdown = self.ending.as_ref().and_then(|ending| ending.shutdown.as_ref());
        shutdown.is_some_and(|shutdown| shutdown.id == *id)
    }

    fn begin_ending(&mut self, drain_time: Duration) -> &mut Ending {
        self.ending.get_or_insert_with(|| Ending {
            deadline: Instant::now() + drain_time,
            shutdown: None,
            shutdown_requested: false,
        })
    }
}

/// A second `initialize`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AlreadyInitialized;

/// Stops accepting requests; running calls may finish within the drain time.
pub(super) fn begin_closing(connection: &ConnectionInner) {
    let drain_time = connection.limits.drain_time;
    connection.state().lifecycle.begin_ending(drain_time);
    // The client will not respond any more, so nothing should wait for it.
    connection.client.close();
    subscriptions::end_all(connection);
    connection.output.wake();
}

/// Closes now. Running and parked requests are answered with an error and stopped.
pub(super) fn close_now(connection: &ConnectionInner) {
    begin_closing(connection);
    reject_calls(connection);
    finish_closing(connection);
    connection.output.wake();
}

/// Like [`begin_closing`], on behalf of the client; its `shutdown` request, if it was one, is
/// answered when all calls are (C-20).
pub(super) fn shut_down(connection: &ConnectionInner, shutdown: Option<Arc<Call>>) {
    let drain_time = connection.limits.drain_time;
    let mut state = connection.state();
    let ending = state.lifecycle.begin_ending(drain_time);
    ending.shutdown_requested = true;
    // A notification may follow the request, which is still to be answered.
    ending.shutdown = ending.shutdown.take().or(shutdown);
    drop(state);
    subscriptions::end_all(connection);
    finish_closing(connection);
    connection.output.wake();
}

/// Closes now without answering anything, because the client sent `exit`.
pub(super) fn exit(connection: &ConnectionInner) {
    let mut state = connection.state();
    let after_shutdown =
        state.lifecycle.ending.as_ref().is_some_and(|ending| ending.shutdown_requested);
    state.lifecycle.ended.get_or_insert(ConnectionEnd::Exit { after_shutdown });
    drop(state);
    stop_all(connection);
}

/// Handles `notifications/initialized`.
pub(super) fn client_is_ready(connection: &ConnectionInner) {
    let Some(peer) = connection.state().lifecycle.peer().cloned() else { return };
    let event = ConnectionEvent::Initialized(&peer);
    if connection.server.emit(&connection.info, &event).is_err() {
        connection.state().lifecycle.ended.get_or_insert(ConnectionEnd::Vetoed);
        return stop_all(connection);
    }
    connection.state().lifecycle.set_ready();
}

/// Closes a connection that is draining, if no call is left or its time is over.
pub(super) fn finish_closing(connection: &ConnectionInner) {
    let mut state = connection.state();
    if state.lifecycle.ended.is_some() {
        return;
    }
    let idle = state.calls.is_idle();
    let Some(ending) = &mut state.lifecycle.ending else { return };
    if !idle && Instant::now() < ending.deadline {
        return;
    }
    let shutdown = ending.shutdown.take();
    state.lifecycle.ended.get_or_insert(ConnectionEnd::Drained);
    drop(state);
    if !idle {
        tracing::warn!("calls were still running when the drain time ended");
        reject_calls(connection);
    }
    if let Some(shutdown) = shutdown {
        // Only `shutdown` has `null` as its result.
        shutdown.complete(&shutdown.encode(&()));
    }
}

/// Answers all calls with an error, running ones before parked ones.
fn reject_calls(connection: &ConnectionInner) {
    let running = connection.state().calls.stop_running();
    for running in running {
        running.call.complete(&Err(shutting_down()));
        running.stop();
    }
    dispatch::reject_parked(connection);
}

/// Waits to be woken, for the next change notification, or for the end of the drain time.
pub(super) async fn changed(connection: &ConnectionInner) {
    let deadline = {
        let state = connection.state();
        let ending = state.lifecycle.ending.as_ref();
        let ending = ending.filter(|_| state.lifecycle.ended.is_none());
        let deadlines = [ending.map(|ending| ending.deadline), state.subscriptions.due()];
        deadlines.into_iter().flatten().min()
    };
    match deadline {
        None => connection.output.woken().await,
        Some(deadline) => {
            // Whichever comes first: the caller looks at the state again in both cases.
            let _ = tokio::time::timeout_at(deadline, connection.output.woken()).await;
        }
    }
}

/// Closes on behalf of the transport. Returns how the connection ended.
pub(super) fn close(connection: &ConnectionInner) -> ConnectionEnd {
    let ended = *connection.state().lifecycle.ended.get_or_insert(ConnectionEnd::Lost);
    stop_all(connection);
    connection.tasks.close();
    ended
}

/// Stops all calls without answering them.
fn stop_all(connection: &ConnectionInner) {
    let mut state = connection.state();
    let open = state.calls.stop_all();
    let subscriptions = state.subscriptions.take();
    // It refers back to the connection and would keep it alive.
    let shutdown = state.lifecycle.ending.as_mut().and_then(|ending| ending.shutdown.take());
    state.lifecycle.wake_waiting();
    drop((state, subscriptions));
    if let Some(shutdown) = shutdown {
        shutdown.abandon();
    }
    for stage in open {
        match stage {
            Stage::Running(running) => {
                running.call.abandon();
                running.stop();
            }
            Stage::Parked(waiting) => connection.output.skip(&waiting.route),
        }
    }
    connection.client.close();
    connection.output.wake();
}
