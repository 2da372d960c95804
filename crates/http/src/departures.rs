//! What waits until an answer has left.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mcp_flow_server::connection::FlushGuard;

/// What is let go of when everything written to a connection so far is in the hands of the system.
///
/// What waits for that goes by another connection, after the answer on this one. In which order a
/// client then reads the two is its own affair; a head start settles it for those that read as
/// things come.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    waiting: Mutex<Vec<FlushGuard>>,
    /// Spares a lock where nothing waits, which is nearly always.
    any: AtomicBool,
}

impl Departures {
    /// Keeps something until what is being written has left, or the connection ends.
    pub(crate) fn add(&self, kept: Vec<FlushGuard>) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).extend(kept);
        self.any.store(true, Ordering::Release);
    }

    /// All that was written has left.
    pub(crate) fn left(&self) {
        if !self.any.swap(false, Ordering::AcqRel) {
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = std::mem::take(&mut *waiting);
        drop(waiting);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                tokio::time::sleep(HEAD_START).await;
                drop(kept);
            });
        }
    }
}

/// Long enough for a packet on one machine, too short for a person to notice.
const HEAD_START: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::Patient;
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::oneshot;

    /// INT-078: what follows an answer waits until the system has all of the answer.
    #[tokio::test(start_paused = true)]
    async fn nothing_follows_an_answer_that_is_still_here() {
        let departures = Arc::new(Departures::default());
        let (ours, mut theirs) = tokio::io::duplex(8);
        let limit = Duration::from_secs(3600);
        let stream = Patient::new(ours, limit).reporting_to(departures.clone());
        let (kept, mut released) = oneshot::channel::<()>();
        departures.add(vec![Box::new(kept)]);
        let writing = tokio::spawn(async move {
            let mut stream = tokio::io::BufWriter::new(stream);
            stream.write_all(&[0; 16]).await.unwrap();
            stream.flush().await.unwrap();
            stream
        });
        // The other end takes half of it, and then nothing for long.
        theirs.read_exact(&mut [0; 4]).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(released.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        theirs.read_exact(&mut [0; 12]).await.unwrap();
        assert!(released.await.is_err(), "dropped, and so released");
        writing.await.unwrap();
    }
}
