//! Messages first: what is large waits while a message cannot be sent.
//!
//! All streams of a session share what the other end is willing to take. Without this, large
//! results would take all of it as it becomes free, and a ping would wait behind them.

use tokio::sync::watch;

/// Closed while a message waits to be sent.
#[derive(Debug)]
pub(crate) struct Gate {
    closed: watch::Sender<bool>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { closed: watch::Sender::new(false) }
    }

    pub(crate) fn close(&self) {
        self.set(true);
    }

    pub(crate) fn open(&self) {
        self.set(false);
    }

    /// Waits until no message waits.
    pub(crate) async fn pass(&self) {
        if *self.closed.borrow() {
            // It cannot fail: the sender is here.
            let _ = self.closed.subscribe().wait_for(|closed| !closed).await;
        }
    }

    fn set(&self, closed: bool) {
        self.closed.send_if_modified(|now| std::mem::replace(now, closed) != closed);
    }
}

#[cfg(test)]
mod tests {
    use super::Gate;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn a_closed_gate_lets_nothing_pass() {
        let gate = Gate::new();
        assert!(gate.pass().now_or_never().is_some());
        gate.close();
        let mut waiting = Box::pin(gate.pass());
        assert!(waiting.as_mut().now_or_never().is_none());
        gate.open();
        waiting.await;
    }
}
