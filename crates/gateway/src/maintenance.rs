//! Maintenance of one upstream, in the background.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::breaker::backoff;
use crate::upstream::Upstream;

/// Lists an upstream when it is first needed and when it changes, tries again while that fails, and
/// closes idle connections.
pub(crate) async fn maintain(upstream: Weak<Upstream>, changed: Arc<Notify>) {
    let mut failures = 0;
    loop {
        let Some(current) = upstream.upgrade() else { return };
        let refreshed = current.refresh().await;
        current.note_listing(refreshed.as_ref().err());
        let retry = match refreshed {
            Ok(()) => {
                failures = 0;
                None
            }
            Err(failure) => {
                let details = current.describe(&failure);
                tracing::warn!(
                    server = current.name(),
                    "cannot list the upstream server: {details}"
                );
                current.metrics.record_failure(failure.name(), &details);
                failures += 1;
                Some(tokio::time::Instant::now() + backoff(failures))
            }
        };
        current.was_tried.send_replace(true);
        let step = (current.settings.idle_timeout / 4).max(MIN_IDLE_CHECK_INTERVAL);
        drop(current);
        loop {
            let again = async {
                match retry {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = changed.notified() => {
                    // Changes come in bursts.
                    tokio::time::sleep(BURST).await;
                    break;
                }
                () = again => break,
                () = tokio::time::sleep(step) => {
                    let Some(current) = upstream.upgrade() else { return };
                    current.close_idle().await;
                }
            }
        }
    }
}

/// Interval in which changes of an upstream's lists are taken together.
const BURST: Duration = Duration::from_millis(100);

/// Shortest interval between checks for idle connections.
const MIN_IDLE_CHECK_INTERVAL: Duration = Duration::from_millis(250);
