//! Tasks of a listening transport, drained at shutdown.

use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The tasks of a transport that accepts connections.
///
/// At shutdown, [`drain`](Self::drain) lets them finish within a time limit and aborts the rest.
#[derive(Debug, Default)]
pub struct DrainGroup {
    tasks: TaskTracker,
    draining: CancellationToken,
    aborted: CancellationToken,
}

impl DrainGroup {
    /// Spawns a task that [`drain`](Self::drain) waits for and aborts at the time limit.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let aborted = self.aborted.clone();
        // Boxed, because a future moved into another takes space in both.
        let task = Box::pin(task);
        self.tasks.spawn(async move {
            tokio::select! {
                () = task => {}
                () = aborted.cancelled() => {}
            }
        });
    }

    /// Returns the number of running tasks.
    pub fn task_count(&self) -> usize {
        self.tasks.len()
    }

    /// Returns the token that is cancelled when draining starts: nothing new begins, and running
    /// calls may finish.
    pub fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    /// Starts draining and waits until all tasks have ended. Aborts those that exceed the limit.
    pub async fn drain(&self, limit: Duration) {
        self.draining.cancel();
        self.tasks.close();
        if timeout(limit, self.tasks.wait()).await.is_err() {
            tracing::warn!("connections were still open at the drain limit");
            self.aborted.cancel();
            self.tasks.wait().await;
        }
    }
}
