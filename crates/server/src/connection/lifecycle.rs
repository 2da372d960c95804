//! How far a connection has come: handshake, operation, end.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_proto::{RequestId, method};
use tokio::sync::SetOnce;
use tokio::time::Instant;

use crate::context::Context;
use crate::event::ConnectionEvent;
use crate::identity::Peer;

use super::Shared;
use super::calls::Stage;
use super::dispatch::shutting_down;

/// The states of one connection, from handshake to end.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    peer: Option<Arc<Peer>>,
    /// Set once the client may be sent what it did not ask for (C-21).
    ready: Arc<SetOnce<()>>,
    ending: Option<Ending>,
    ended: Option<ConnectionEnd>,
}

#[derive(Debug)]
struct Ending {
    /// When waiting for running calls stops.
    deadline: Instant,
    /// The `shutdown` request that is answered when everything before it is.
    shutdown: Option<Context>,
    shutdown_requested: bool,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// Everything was answered: after the end of input or a `shutdown`.
    Drained,
    /// The client sent `exit`, after a `shutdown` or without one.
    Exit {
        /// Whether a `shutdown` came before it.
        after_shutdown: bool,
    },
    /// A hook of the host application ended it.
    Vetoed,
    /// The transport went away while something was still to be done.
    Lost,
}

impl Lifecycle {
    /// The client, once it has said who it is.
    pub(crate) fn peer(&self) -> Option<&Arc<Peer>> {
        self.peer.as_ref()
    }

    /// The client, noting that it has begun to send requests.
    pub(crate) fn peer_taking_up(&self, method: &str) -> Option<Arc<Peer>> {
        if method != method::PING {
            self.set_ready();
        }
        self.peer.clone()
    }

    /// Ends the handshake. A connection can only do so once.
    pub(crate) fn initialize(&mut self, peer: Peer) -> Result<(), AlreadyInitialized> {
        if self.peer.is_some() {
            return Err(AlreadyInitialized);
        }
        self.peer = Some(Arc::new(peer));
        Ok(())
    }

    /// Notes that the client is ready: it said so, or sent its first request.
    fn set_ready(&self) {
        if self.peer.is_some() && !self.ready.initialized() {
            // Setting it twice is no fault: both signs of readiness may come.
            let _ = self.ready.set(());
        }
    }

    /// Lets those who wait for a client that will never be ready find out.
    fn wake_waiting(&self) {
        let _ = self.ready.set(());
    }

    /// What to wait for before sending the client something it did not ask for.
    pub(crate) fn ready(&self) -> Arc<SetOnce<()>> {
        self.ready.clone()
    }

    /// Whether the client may be sent what it did not ask for.
    pub(crate) fn is_ready(&self) -> bool {
        self.peer.is_some() && self.ready.initialized()
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_some() || self.ended.is_some()
    }

    pub(crate) fn ended(&self) -> Option<ConnectionEnd> {
        self.ended
    }

    /// Whether this is the id of the `shutdown` that waits for the rest.
    pub(crate) fn is_shutting_down_by(&self, id: &RequestId) -> bool {
        let shutdown = self.ending.as_ref().and_then(|ending| ending.shutdown.as_ref());
        shutdown.is_some_and(|shutdown| shutdown.id() == id)
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

impl Shared {
    /// No more requests are taken up; what is running may finish within its time.
    pub(super) fn begin_ending(&self) {
        let drain_time = self.limits.drain_time;
        self.state().lifecycle.begin_ending(drain_time);
        // The client will not answer any more, so nothing should wait for it.
        self.client.close();
        self.end_subscriptions();
        self.wake.notify_one();
    }

    /// Ends now. What is running or waiting is answered with an error and stopped.
    pub(super) fn end_now(&self) {
        self.begin_ending();
        self.give_up_calls();
        self.settle();
        self.wake.notify_one();
    }

    /// As [`begin_ending`](Self::begin_ending), because the client asked for it; its request, if
    /// it was one, is answered when all is done (C-20).
    pub(super) fn shut_down(&self, shutdown: Option<Context>) {
        let drain_time = self.limits.drain_time;
        let mut state = self.state();
        let ending = state.lifecycle.begin_ending(drain_time);
        ending.shutdown_requested = true;
        // A notification may follow the request, which is still to be answered.
        ending.shutdown = ending.shutdown.take().or(shutdown);
        drop(state);
        self.end_subscriptions();
        self.settle();
        self.wake.notify_one();
    }

    /// Ends now, whatever is running.
    pub(super) fn exit(&self) {
        let mut state = self.state();
        let after_shutdown =
            state.lifecycle.ending.as_ref().is_some_and(|ending| ending.shutdown_requested);
        state.lifecycle.ended.get_or_insert(ConnectionEnd::Exit { after_shutdown });
        drop(state);
        self.stop_everything();
    }

    pub(super) fn client_is_ready(&self) {
        let Some(peer) = self.state().lifecycle.peer().cloned() else { return };
        if self.server.raise(&self.info, &ConnectionEvent::Initialized(&peer)).is_err() {
            self.state().lifecycle.ended.get_or_insert(ConnectionEnd::Vetoed);
            return self.stop_everything();
        }
        self.state().lifecycle.set_ready();
    }

    /// Ends a connection that is ending, if nothing is left to do or its time is over.
    pub(super) fn settle(&self) {
        let mut state = self.state();
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
            tracing::warn!("calls were still running when the time to drain ended");
            self.give_up_calls();
        }
        if let Some(shutdown) = shutdown {
            shutdown.finish_null();
        }
    }

    /// Answers everything with an error. What runs came before what waits, and so do their answers.
    fn give_up_calls(&self) {
        let running = self.state().calls.stop_running();
        for call in running {
            call.context.finish(&Err(shutting_down()));
            call.stop();
        }
        self.give_up_parked();
    }

    /// Waits for a change, for news to be told, or for the end of the time to drain.
    pub(super) async fn changed(&self) {
        let deadline = {
            let state = self.state();
            let ending = state.lifecycle.ending.as_ref();
            let ending = ending.filter(|_| state.lifecycle.ended.is_none());
            let deadlines = [ending.map(|ending| ending.deadline), state.subscriptions.due()];
            deadlines.into_iter().flatten().min()
        };
        match deadline {
            None => self.wake.notified().await,
            Some(deadline) => {
                // Whichever comes first: both only mean that it is time to look again.
                let _ = tokio::time::timeout_at(deadline, self.wake.notified()).await;
            }
        }
    }

    /// The transport lets go. Returns how the connection ended.
    pub(super) fn close(&self) -> ConnectionEnd {
        let ended = *self.state().lifecycle.ended.get_or_insert(ConnectionEnd::Lost);
        self.stop_everything();
        self.tasks.close();
        ended
    }

    fn stop_everything(&self) {
        let mut state = self.state();
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
                Stage::Running(call) => {
                    call.context.abandon();
                    call.stop();
                }
                Stage::Parked(waiting) => self.skip(&waiting.route),
            }
        }
        self.client.close();
        self.wake.notify_one();
    }
}
