//! Priority of messages: execution streams pause while a message waits to be sent.
//!
//! All streams of a session share the flow control window of the client. Without this pause, large
//! results would use all of it as it becomes free, and a ping would wait behind them.

use tokio::sync::watch;

/// Pauses execution streams while a message waits to be sent.
#[derive(Debug)]
pub(crate) struct StreamPause {
    paused: watch::Sender<bool>,
}

impl StreamPause {
    pub(crate) fn new() -> Self {
        Self { paused: watch::Sender::new(false) }
    }

    pub(crate) fn pause(&self) {
        self.set(true);
    }

    pub(crate) fn resume(&self) {
        self.set(false);
    }

    /// Waits until streams may continue.
    pub(crate) async fn wait(&self) {
        if *self.paused.borrow() {
            // It cannot fail: the sender is here.
            let _ = self.paused.subscribe().wait_for(|paused| !paused).await;
        }
    }

    fn set(&self, paused: bool) {
        self.paused.send_if_modified(|now| std::mem::replace(now, paused) != paused);
    }
}

#[cfg(test)]
mod tests {
    use super::StreamPause;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn streams_wait_while_paused() {
        let pause = StreamPause::new();
        assert!(pause.wait().now_or_never().is_some());
        pause.pause();
        let mut waiting = Box::pin(pause.wait());
        assert!(waiting.as_mut().now_or_never().is_none());
        pause.resume();
        waiting.await;
    }
}
