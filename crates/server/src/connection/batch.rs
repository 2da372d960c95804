//! JSON-RPC batches: several messages in one frame, their replies in one (C-52).

use std::sync::{Arc, Mutex, PoisonError};

use mcp_flow_proto::{Message, Raw, RpcError, method, write};

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
}

impl Shared {
    /// Takes up the messages of a batch, if this connection's revision has batches.
    pub(super) fn receive_batch(self: &Arc<Self>, elements: Vec<Raw<'_>>) {
        if let Err(details) = self.allows_batch(elements.len()) {
            return self.take_up_fault(None, RpcError::invalid_request(&details), &Route::Direct);
        }
        // One more than there are elements, so that the reply cannot leave before the last one
        // is taken up.
        let gathered = Gathered { replies: Vec::new(), missing: elements.len() + 1 };
        let batch = Arc::new(BatchReply { gathered: Mutex::new(gathered) });
        for element in elements {
            let route = Route::Batch(batch.clone());
            match Message::from_raw(element) {
                Ok(Message::Request(request)) if request.method == method::INITIALIZE => {
                    let error = RpcError::invalid_request("initialize cannot be part of a batch");
                    self.take_up_fault(Some(&request.id), error, &route);
                }
                Ok(message) => self.take_up(message, element.bytes(), route),
                Err(refusal) => self.take_up_fault(refusal.id.as_ref(), refusal.error, &route),
            }
        }
        self.gather(&batch, None);
    }

    fn allows_batch(&self, length: usize) -> Result<(), String> {
        let limit = self.server.limits().batch;
        match self.state().lifecycle.peer() {
            None => Err("a batch is not allowed before initialize".to_owned()),
            Some(peer) if !peer.revision.features().batches => {
                Err(format!("revision {} has no batches", peer.revision))
            }
            Some(_) if length > limit => {
                Err(format!("a batch of {length} messages is too long, the limit is {limit}"))
            }
            Some(_) => Ok(()),
        }
    }

    /// Adds one element's reply, or notes that it has none, and sends them all after the last.
    pub(super) fn gather(&self, batch: &BatchReply, reply: Option<Vec<u8>>) {
        let mut gathered = batch.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        gathered.replies.extend(reply);
        gathered.missing -= 1;
        if gathered.missing == 0 && !gathered.replies.is_empty() {
            let encoding = self.encoding();
            self.send(|| true, |out| write::batch(out, encoding, &gathered.replies));
        }
    }
}
