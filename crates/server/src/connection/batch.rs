//! JSON-RPC batches: several messages in one frame, their replies in one (C-52).

use std::sync::Arc;

use mcp_flow_proto::{Message, Raw, Request, RpcError, method, write};
use parking_lot::Mutex;

use super::exchange::FlushGuard;
use super::output::Output;
use super::{ConnectionInner, Route, dispatch};

/// Collects the replies of one batch until all are there.
#[derive(Debug)]
pub(crate) struct BatchReply {
    collected: Mutex<Collected>,
}

#[derive(Debug)]
struct Collected {
    replies: Vec<Vec<u8>>,
    missing: usize,
    /// Dropped when the whole batch has been flushed.
    flush_guards: Vec<FlushGuard>,
}

impl BatchReply {
    pub(super) fn hold_until_flushed(&self, guard: FlushGuard) {
        self.collected.lock().flush_guards.push(guard);
    }
}

/// Dispatches the messages of a batch, if this connection's revision has batches.
pub(super) fn receive(connection: &Arc<ConnectionInner>, batch: Raw<'_>, route: &Route) {
    let elements = match elements(connection, batch) {
        Ok(elements) => elements,
        Err(details) => {
            let error = RpcError::invalid_request(&details);
            return dispatch::reject(connection, None, error, route);
        }
    };
    // One more than there are elements, so that the reply cannot leave before the last one is
    // dispatched.
    let missing = elements.len() + 1;
    let collected = Collected { replies: Vec::new(), missing, flush_guards: Vec::new() };
    let reply = Arc::new(BatchReply { collected: Mutex::new(collected) });
    let whole = route.within(&reply);
    for element in elements {
        let route = whole.clone();
        match Message::from_raw(element) {
            Ok(Message::Request(request)) => match misplaced(connection, &request) {
                Some(error) => dispatch::reject(connection, Some(&request.id), error, &route),
                None => {
                    let message = Message::Request(request);
                    dispatch::dispatch_message(connection, message, element.bytes(), route);
                }
            },
            Ok(message) => {
                dispatch::dispatch_message(connection, message, element.bytes(), route);
            }
            Err(refusal) => {
                dispatch::reject(connection, refusal.id.as_ref(), refusal.error, &route);
            }
        }
    }
    gather(&connection.output, &whole, None);
}

/// The elements, if a batch is allowed now and not too long.
fn elements<'a>(connection: &ConnectionInner, batch: Raw<'a>) -> Result<Vec<Raw<'a>>, String> {
    let peer = connection.state().lifecycle.peer().cloned();
    let limit = connection.limits.batch;
    match peer {
        None => Err("a batch is not allowed before initialize".to_owned()),
        Some(peer) if !peer.revision.features().batches => {
            Err(format!("revision {} has no batches", peer.revision))
        }
        Some(_) => match batch.elements(limit) {
            Ok(Some(elements)) if elements.is_empty() => Err("the batch is empty".to_owned()),
            Ok(Some(elements)) => Ok(elements),
            Ok(None) => Err(format!("a batch may hold at most {limit} messages")),
            Err(error) => Err(error.to_string()),
        },
    }
}

/// Returns the error of a request that may not be part of a batch.
fn misplaced(connection: &ConnectionInner, request: &Request<'_>) -> Option<RpcError> {
    if request.method == method::INITIALIZE {
        return Some(RpcError::invalid_request("initialize cannot be part of a batch"));
    }
    dispatch::is_stateless(connection, request)
        .then(|| RpcError::invalid_request("a request of this revision cannot be part of a batch"))
}

/// Adds one element's reply, or records that it has none, and sends all of them after the last.
pub(super) fn gather(output: &Output, route: &Route, reply: Option<Vec<u8>>) {
    let Some(batch) = &route.batch else { return };
    let mut collected = batch.collected.lock();
    if let Some(reply) = reply {
        output.outbound.expect(reply.len());
        collected.replies.push(reply);
    }
    collected.missing -= 1;
    if collected.missing > 0 {
        return;
    }
    let whole = route.without_batch();
    let guards = collected.flush_guards.drain(..);
    let guards: Vec<_> = guards.filter_map(|guard| whole.hold_until_flushed(guard)).collect();
    if !collected.replies.is_empty() {
        let size = collected.replies.iter().map(Vec::len).sum();
        let encoding = output.encoding();
        output.send(route, size, || true, |out| write::batch(out, encoding, &collected.replies));
        output.outbound.forget(size);
    }
    output.close_route(route);
    drop(collected);
    drop(guards);
}
