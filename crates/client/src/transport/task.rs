//! Transports that a task drives: messages wait in an outbox, and the task sends them in order.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};

use crate::transport::{Outgoing, OutgoingKind, Transport, TransportError};

/// Creates a transport driven by a task that sends the messages in the outbox.
///
/// Closing it lets the task send the remaining messages and shut down, for at most `close_timeout`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::time::Duration;
/// use mcp_flow_client::transport::task_transport;
///
/// let transport = task_transport("void", Duration::from_secs(1), |outbox| async move {
///     while outbox.take().is_some() {
///         outbox.changed().await;
///     }
/// });
/// transport.close().await;
/// # }
/// ```
pub fn task_transport<F>(
    name: &'static str,
    close_timeout: Duration,
    carry: impl FnOnce(Arc<Outbox>) -> F,
) -> Arc<dyn Transport>
where
    F: Future<Output = ()> + Send + 'static,
{
    let outbox = Arc::new(Outbox::default());
    let (ended, over) = watch::channel(false);
    let carrying = carry(outbox.clone());
    tokio::spawn(async move {
        carrying.await;
        ended.send_replace(true);
    });
    Arc::new(TaskTransport { name, close_timeout, outbox, over })
}

struct TaskTransport {
    name: &'static str,
    close_timeout: Duration,
    outbox: Arc<Outbox>,
    over: watch::Receiver<bool>,
}

impl Transport for TaskTransport {
    fn name(&self) -> &'static str {
        self.name
    }

    fn send(&self, message: Outgoing) {
        self.outbox.push(message);
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.outbox.close();
        let mut over = self.over.clone();
        Box::pin(async move {
            let _ = tokio::time::timeout(self.close_timeout, over.wait_for(|over| *over)).await;
        })
    }
}

impl Drop for TaskTransport {
    fn drop(&mut self) {
        self.outbox.close();
    }
}

/// Queue of messages to be sent.
#[derive(Debug, Default)]
pub struct Outbox {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    frames: Vec<Vec<u8>>,
    /// Bytes of responses among them: a server may send requests without reading the responses.
    answers: usize,
    is_closing: bool,
}

impl Outbox {
    fn push(&self, message: Outgoing) {
        {
            let mut waiting = self.lock();
            if matches!(message.kind, OutgoingKind::Response) {
                waiting.answers += message.frame.len();
            }
            waiting.frames.push(message.frame);
        }
        self.changed.notify_one();
    }

    fn close(&self) {
        self.lock().is_closing = true;
        self.changed.notify_one();
    }

    /// Takes all queued messages, perhaps none; `None` once it is closed and empty.
    pub fn take(&self) -> Option<Vec<Vec<u8>>> {
        let mut waiting = self.lock();
        waiting.answers = 0;
        let frames = std::mem::take(&mut waiting.frames);
        (!frames.is_empty() || !waiting.is_closing).then_some(frames)
    }

    /// Fails if the server leaves too many responses unread.
    pub fn check(&self) -> Result<(), TransportError> {
        match self.lock().answers > MAX_ANSWERS {
            true => {
                let what = "the server sends requests without reading the responses";
                Err(TransportError::InvalidMessage(what.to_owned()))
            }
            false => Ok(()),
        }
    }

    /// Waits until a message is queued or the outbox is closed.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }
}

/// Maximum size of queued responses, in bytes.
const MAX_ANSWERS: usize = 4 << 20;
