//! JSON-RPC batches: several messages in one frame, their replies in one (C-52).

use std::sync::{Arc, Mutex, PoisonError};

use mcp_flow_proto::{Message, Raw, Request, RpcError, method, write};

use super::exchange::FlushGuard;
use super::{Route, Shared};

/// Gathers the replies of one batch until all are there.
#[derive(Debug)]
pub(crate) struct BatchReply {
    gathered: Mutex<Gathered>,
}

#[derive(Debug)]
struct Gathered {
    replies: Vec<Vec<u8>>,
    missing: usize,
    /// What is dropped when the whole has left.
    kept: Vec<FlushGuard>,
}

impl BatchReply {
    pub(super) fn keep(&self, kept: FlushGuard) {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner).kept.push(kept);
    }
}

impl Shared {
    /// Takes up the messages of a batch, if this connection's revision has batches.
    pub(super) fn receive_batch(self: &Arc<Self>, batch: Raw<'_>, route: &Route) {
        let elements = match self.batch_elements(batch) {
            Ok(elements) => elements,
            Err(details) => {
                let error = RpcError::invalid_request(&details);
                return self.take_up_fault(None, error, route);
            }
        };
        // One more than there are elements, so that the reply cannot leave before the last one
        // is taken up.
        let gathered =
            Gathered { replies: Vec::new(), missing: elements.len() + 1, kept: Vec::new() };
        let reply = Arc::new(BatchReply { gathered: Mutex::new(gathered) });
        let whole = route.within(&reply);
        for element in elements {
            let route = whole.clone();
            match Message::from_raw(element) {
                Ok(Message::Request(request)) => match self.out_of_place(&request) {
                    Some(error) => self.take_up_fault(Some(&request.id), error, &route),
                    None => self.take_up(Message::Request(request), element.bytes(), route),
                },
                Ok(message) => self.take_up(message, element.bytes(), route),
                Err(refusal) => self.take_up_fault(refusal.id.as_ref(), refusal.error, &route),
            }
        }
        self.gather(&whole, None);
    }

    /// The elements, if a batch may come now and is not too long.
    fn batch_elements<'a>(&self, batch: Raw<'a>) -> Result<Vec<Raw<'a>>, String> {
        let peer = self.state().lifecycle.peer().cloned();
        let limit = self.limits.batch;
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
    fn out_of_place(&self, request: &Request<'_>) -> Option<RpcError> {
        if request.method == method::INITIALIZE {
            return Some(RpcError::invalid_request("initialize cannot be part of a batch"));
        }
        self.stands_alone(request).then(|| {
            RpcError::invalid_request("a request of this revision cannot be part of a batch")
        })
    }

    /// Adds one element's reply, or notes that it has none, and sends them all after the last.
    pub(super) fn gather(&self, route: &Route, reply: Option<Vec<u8>>) {
        let Some(batch) = &route.batch else { return };
        let mut gathered = batch.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reply) = reply {
            self.outbound.expect(reply.len());
            gathered.replies.push(reply);
        }
        gathered.missing -= 1;
        if gathered.missing > 0 {
            return;
        }
        let whole = route.without_batch();
        let kept: Vec<_> = gathered.kept.drain(..).filter_map(|kept| whole.keep(kept)).collect();
        if !gathered.replies.is_empty() {
            let size = gathered.replies.iter().map(Vec::len).sum();
            let encoding = self.encoding();
            self.send(route, size, || true, |out| write::batch(out, encoding, &gathered.replies));
            self.outbound.forget(size);
        }
        self.close_route(route);
        drop(gathered);
        drop(kept);
    }
}
