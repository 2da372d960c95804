//! Signals that end a command: ctrl-c, SIGTERM and SIGHUP.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Exit, Failure};

/// Listener for the signals that end a command. Signals that arrive after `listen` are not lost.
#[derive(Debug)]
pub(crate) struct Interrupts {
    signals: [Signal; 3],
}

impl Interrupts {
    /// Listens for ctrl-c, SIGTERM and the end of the terminal.
    pub(crate) fn listen() -> io::Result<Self> {
        let listen = |kind: SignalKind| signal(kind);
        let (interrupt, terminate, hangup) =
            (SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup());
        Ok(Self { signals: [listen(interrupt)?, listen(terminate)?, listen(hangup)?] })
    }

    /// Completes at the next signal.
    pub(crate) async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }

    /// Runs work until a signal drops it, which cancels its requests.
    pub(crate) async fn run<T>(
        &mut self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        self.run_or(work, interrupted).await
    }

    /// Runs work until a signal drops it, with an error of the caller's for that case.
    pub(crate) async fn run_or<T>(
        &mut self,
        work: impl Future<Output = anyhow::Result<T>>,
        interrupted: impl FnOnce() -> anyhow::Error,
    ) -> anyhow::Result<T> {
        let signal = async {
            self.next().await;
            // Before the work is dropped, and its open questions with it.
            IS_INTERRUPTED.store(true, Ordering::Relaxed);
        };
        tokio::select! {
            biased;
            () = signal => Err(interrupted()),
            done = work => done,
        }
    }

    /// Waits for a connection to close: for the server `to` do something. Another ctrl-c ends the
    /// wait.
    pub(crate) async fn wait_for_close(
        &mut self,
        close: impl Future<Output = ()>,
        to: &str,
    ) -> anyhow::Result<()> {
        let notice = async {
            tokio::time::sleep(NOTICE_AFTER).await;
            eprintln!("mcp-flow: waiting for the server to {to}; press ctrl-c to quit now");
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = self.next() => {
                let message = format!("interrupted; did not wait for the server to {to}");
                Err(Failure::new(Exit::Interrupted, message).into())
            }
            () = close => Ok(()),
            () = notice => Ok(()),
        }
    }
}

/// Error for a command that a signal ended.
pub(crate) fn interrupted() -> anyhow::Error {
    Failure::new(Exit::Interrupted, "interrupted; pending requests were cancelled").into()
}

/// Returns whether a signal ends the command. Questions that are open then were not withdrawn by the
/// server.
pub(crate) fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Ordering::Relaxed)
}

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Last act of a server that a command has started.
pub(crate) const EXIT: &str = "exit";

/// Last act of a server that runs on its own.
pub(crate) const CLOSE: &str = "close the connection";

/// Delay before the notice that the server is waited for.
const NOTICE_AFTER: Duration = Duration::from_millis(500);
