//! A server program whose processes can be ended while its clients stay.

use std::sync::{Arc, Weak};
use std::time::Instant;

use futures_util::future::{BoxFuture, join_all};
use mcp_flow::client::Program;
use mcp_flow::client::transport::{Connector, Inbox, Transport, TransportError};
use parking_lot::Mutex;

/// Starts the program for each connection, and ends all of them on demand. Clients then connect again,
/// which starts it anew.
#[derive(Debug)]
pub(super) struct Restarting {
    program: Program,
    open: Mutex<Vec<Weak<dyn Transport>>>,
    /// Time of the last start.
    started: Mutex<Option<Instant>>,
}

impl Restarting {
    pub(super) fn new(program: Program) -> Self {
        Self { program, open: Mutex::default(), started: Mutex::default() }
    }

    /// Time at which the program was started last.
    pub(super) fn started(&self) -> Option<Instant> {
        *self.started.lock()
    }

    /// Ends all processes. Requests that they have not answered are lost.
    pub(super) async fn close(&self) {
        let open = std::mem::take(&mut *self.open.lock());
        let open: Vec<_> = open.iter().filter_map(Weak::upgrade).collect();
        join_all(open.iter().map(|transport| transport.close())).await;
    }
}

impl Connector for Restarting {
    fn target(&self) -> &str {
        self.program.target()
    }

    fn connect(&self, inbox: Inbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        Box::pin(async move {
            // Before it can write anything.
            *self.started.lock() = Some(Instant::now());
            let transport = self.program.connect(inbox).await?;
            let mut open = self.open.lock();
            open.retain(|transport| transport.strong_count() > 0);
            open.push(Arc::downgrade(&transport));
            Ok(transport)
        })
    }
}
