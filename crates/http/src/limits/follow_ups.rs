//! Holds back follow-up messages until the response they follow has been flushed.

use std::time::Duration;

use mcp_flow_server::connection::FlushGuard;
use parking_lot::Mutex;

/// Follow-up messages that wait for a flush of one HTTP connection. Dropping a guard sends its
/// message.
///
/// Follow-ups leave over another connection, such as the session's event stream. They are written
/// [`DELAY`] after the operating system has taken all of the response: a client that finds data on
/// both of its sockets reads them in any order, and must find the response alone first (INT-078).
#[derive(Debug, Default)]
pub(crate) struct FollowUps(Mutex<Vec<FlushGuard>>);

impl FollowUps {
    /// Holds messages back until the next flush, or until the connection is dropped.
    pub(crate) fn add(&self, messages: Vec<FlushGuard>) {
        self.0.lock().extend(messages);
    }

    /// Releases the messages: everything written to the connection has been flushed.
    pub(crate) fn on_flush(&self) {
        let released = std::mem::take(&mut *self.0.lock());
        if !released.is_empty() {
            tokio::spawn(async move {
                tokio::time::sleep(DELAY).await;
                drop(released);
            });
        }
    }
}

/// Time for a client to read a response before a message that follows it arrives.
///
/// The one wait by time in the path of a message. No event can replace it: HTTP does not tell when a
/// client has read a response, and its next request may never come, for it may wait for this very
/// message. The order of writing alone does not help, since both sockets are readable when the client
/// looks at them; in the tests a third of the prompts were. The delay is spent after the response has
/// left, so no call is slower for it.
const DELAY: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::FollowUps;
    use crate::limits::write_timeout::WriteTimeout;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::oneshot;

    /// INT-078: follow-ups wait until the operating system has all of the response.
    #[tokio::test(start_paused = true)]
    async fn follow_ups_wait_for_the_flush_of_the_response() {
        let follow_ups = Arc::new(FollowUps::default());
        let (ours, mut theirs) = tokio::io::duplex(8);
        let limit = Duration::from_secs(3600);
        let stream = WriteTimeout::new(ours, limit).on_flush(follow_ups.clone());
        let (message, mut released) = oneshot::channel::<()>();
        follow_ups.add(vec![Box::new(message)]);
        let writing = tokio::spawn(async move {
            let mut stream = tokio::io::BufWriter::new(stream);
            stream.write_all(&[0; 16]).await.unwrap();
            stream.flush().await.unwrap();
            stream
        });
        // The client reads half of the response, then pauses.
        theirs.read_exact(&mut [0; 4]).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(released.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        theirs.read_exact(&mut [0; 12]).await.unwrap();
        assert!(released.await.is_err(), "dropped, and so released");
        writing.await.unwrap();
    }
}
