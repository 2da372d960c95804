//! Registry of open requests: running, or parked until they may run.
//!
//! Pure bookkeeping: nothing here runs, sends or waits.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use mcp_flow_proto::{Encoding, RequestId, Revision, RpcError};
use tokio::task::AbortHandle;

use super::Route;
use super::call::Call;
use crate::limits::Limits;
use crate::load::{Load, Tally};

/// The open requests of one connection.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    open: HashMap<RequestId, Open>,
    parked: VecDeque<Parked>,
    parked_bytes: Tally,
    tickets: u64,
}

/// Distinguishes requests that use the same id one after the other.
pub(crate) type Ticket = u64;

#[derive(Debug)]
struct Open {
    ticket: Ticket,
    stage: Stage,
}

/// The stage of an open request.
#[derive(Debug)]
pub(crate) enum Stage {
    /// It waits for a permit.
    Parked(Waiting),
    /// It runs.
    Running(Running),
}

/// A parked request.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The route of its reply.
    pub(crate) route: Route,
    /// The revision to encode an error in.
    pub(crate) revision: Revision,
    /// Set if it may be cancelled: all but `initialize` may.
    pub(crate) cancellable: bool,
}

/// A running call, and the means to stop it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) call: Arc<Call>,
    /// Set once it runs as a task.
    pub(crate) abort: Option<AbortHandle>,
}

impl Running {
    /// Stops the call: a future is dropped, a blocking function sees its cancellation token.
    pub(crate) fn stop(self) {
        self.call.cancel();
        if let Some(abort) = self.abort {
            abort.abort();
        }
    }
}

/// Parked work, in its turn.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) ticket: Ticket,
    pub(crate) work: ParkedWork,
}

#[derive(Debug)]
pub(crate) enum ParkedWork {
    /// A request, still encoded, and its encoding.
    Request(Box<[u8]>, Encoding),
    /// An error that must not overtake the replies before it.
    Error(Box<(Option<RequestId>, RpcError, Route)>),
}

impl Calls {
    /// No requests; parked bytes are counted in the load of the server.
    pub(crate) fn new(load: &Load) -> Self {
        Self { parked_bytes: Tally::new(load), ..Self::default() }
    }

    /// Returns whether a request with this id is still unanswered.
    pub(crate) fn is_open(&self, id: &RequestId) -> bool {
        !self.open.is_empty() && self.open.contains_key(id)
    }

    /// Returns whether the request with this id and ticket is still unanswered.
    pub(crate) fn has(&self, id: &RequestId, ticket: Ticket) -> bool {
        self.open.get(id).is_some_and(|open| open.ticket == ticket)
    }

    /// Returns whether nothing is running or parked.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.parked.is_empty()
    }

    pub(crate) fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    /// Returns whether no more may be parked.
    pub(crate) fn is_full(&self, limits: &Limits) -> bool {
        self.parked_bytes.bytes() >= limits.parked_bytes || self.parked.len() >= limits.parked_calls
    }

    /// Parks a request.
    pub(crate) fn park(
        &mut self,
        id: RequestId,
        frame: &[u8],
        encoding: Encoding,
        waiting: Waiting,
    ) {
        let ticket = self.ticket();
        self.parked_bytes.add(frame.len());
        self.open.insert(id, Open { ticket, stage: Stage::Parked(waiting) });
        let work = ParkedWork::Request(frame.into(), encoding);
        self.parked.push_back(Parked { ticket, work });
    }

    /// Parks an error behind the requests before it.
    pub(crate) fn park_error(&mut self, id: Option<RequestId>, error: RpcError, route: Route) {
        let ticket = self.ticket();
        self.parked_bytes.add(ERROR_BYTES);
        let work = ParkedWork::Error(Box::new((id, error, route)));
        self.parked.push_back(Parked { ticket, work });
    }

    /// Takes out the oldest parked work.
    pub(crate) fn unpark(&mut self) -> Option<Parked> {
        let parked = self.parked.pop_front()?;
        self.parked_bytes.remove(match &parked.work {
            ParkedWork::Request(frame, _) => frame.len(),
            ParkedWork::Error(_) => ERROR_BYTES,
        });
        if self.parked.is_empty() {
            // A burst must not keep its memory for the life of the connection.
            self.parked.shrink_to(1024);
            self.open.shrink_to(1024);
        }
        Some(parked)
    }

    /// Starts a parked request and returns its route; `None` if it was stopped meanwhile.
    pub(crate) fn begin(&mut self, id: &RequestId, ticket: Ticket) -> Option<Route> {
        match self.close(id, ticket)? {
            Stage::Parked(waiting) => Some(waiting.route),
            Stage::Running(_) => None,
        }
    }

    /// Adds a call that continues as a task.
    pub(crate) fn run(&mut self, call: Arc<Call>) -> Ticket {
        let ticket = self.ticket();
        let id = call.id.clone();
        let stage = Stage::Running(Running { call, abort: None });
        self.open.insert(id, Open { ticket, stage });
        ticket
    }

    /// Sets the task of a call, unless it is over already.
    pub(crate) fn set_task(&mut self, id: &RequestId, ticket: Ticket, abort: AbortHandle) {
        if let Some(open) = self.open.get_mut(id)
            && open.ticket == ticket
            && let Stage::Running(running) = &mut open.stage
        {
            running.abort = Some(abort);
        }
    }

    /// Removes a request, if it still has this ticket.
    pub(crate) fn close(&mut self, id: &RequestId, ticket: Ticket) -> Option<Stage> {
        self.open.get(id).filter(|open| open.ticket == ticket)?;
        self.open.remove(id).map(|open| open.stage)
    }

    /// Takes out a request to be stopped, if it may be cancelled.
    pub(crate) fn stop(&mut self, id: &RequestId) -> Option<Stage> {
        match self.open.get(id)?.stage {
            Stage::Parked(Waiting { cancellable: false, .. }) => None,
            _ => self.open.remove(id).map(|open| open.stage),
        }
    }

    /// Takes out all requests.
    pub(crate) fn stop_all(&mut self) -> Vec<Stage> {
        self.parked.clear();
        self.parked_bytes.remove(self.parked_bytes.bytes());
        self.open.drain().map(|(_, open)| open.stage).collect()
    }

    /// Takes out all running calls.
    pub(crate) fn stop_running(&mut self) -> Vec<Running> {
        let is_running = |_: &RequestId, open: &mut Open| matches!(open.stage, Stage::Running(_));
        let running = |open: Open| match open.stage {
            Stage::Running(running) => Some(running),
            Stage::Parked(_) => None,
        };
        self.open.extract_if(is_running).filter_map(|(_, open)| running(open)).collect()
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        self.tickets
    }
}

/// Approximate memory of a parked error.
const ERROR_BYTES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::{Calls, ParkedWork, Stage, Waiting};
    use crate::connection::Route;
    use crate::limits::Limits;
    use mcp_flow_proto::{Encoding, Revision};

    #[test]
    fn requests_are_parked_in_order_and_counted() {
        let mut calls = Calls::default();
        let limits = Limits { parked_bytes: 8, ..Limits::default() };
        calls.park(1.into(), b"first", Encoding::Json, waiting());
        assert!(calls.is_open(&1.into()) && !calls.is_full(&limits));
        calls.park(2.into(), b"second", Encoding::Json, waiting());
        assert!(calls.is_full(&limits));
        assert_eq!(next(&mut calls), "first");
        assert!(!calls.is_full(&limits));
        assert_eq!(next(&mut calls), "second");
        assert!(calls.unpark().is_none());
    }

    #[test]
    fn a_ticket_distinguishes_reused_ids() {
        let mut calls = Calls::default();
        calls.park(1.into(), b"old", Encoding::Json, waiting());
        assert!(matches!(calls.stop(&1.into()), Some(Stage::Parked(_))));
        calls.park(1.into(), b"new", Encoding::Json, waiting());
        let old = calls.unpark().unwrap();
        assert!(calls.begin(&1.into(), old.ticket).is_none(), "a stopped request must not run");
        let new = calls.unpark().unwrap();
        assert!(calls.begin(&1.into(), new.ticket).is_some());
        assert!(calls.is_idle());
    }

    #[test]
    fn unknown_requests_cannot_be_stopped() {
        assert!(Calls::default().stop(&1.into()).is_none());
    }

    fn waiting() -> Waiting {
        Waiting { route: Route::default(), revision: Revision::BASE, cancellable: true }
    }

    fn next(calls: &mut Calls) -> String {
        match calls.unpark().unwrap().work {
            ParkedWork::Request(frame, _) => String::from_utf8(frame.into()).unwrap(),
            ParkedWork::Error(_) => "error".to_owned(),
        }
    }
}
