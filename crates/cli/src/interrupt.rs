//! ctrl-c, and the other ways in which a command is asked to end.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Exit, Failure};

/// The signals that ask a command to end. None is missed from the moment this is made.
#[derive(Debug)]
pub(crate) struct Interrupts {
    signals: [Signal; 3],
}

impl Interrupts {
    /// Hears ctrl-c, a polite kill, and the end of the terminal.
    pub(crate) fn listen() -> io::Result<Self> {
        let listen = |kind: SignalKind| signal(kind);
        let (interrupt, terminate, hangup) =
            (SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup());
        Ok(Self { signals: [listen(interrupt)?, listen(terminate)?, listen(hangup)?] })
    }

    /// Completes with the next one.
    pub(crate) async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }

    /// Does the work, which the next one drops: what is under way is cancelled by that.
    pub(crate) async fn or<T>(
        &mut self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        self.or_else(work, interrupted).await
    }

    /// The same, for work that knows better what it is left in.
    pub(crate) async fn or_else<T>(
        &mut self,
        work: impl Future<Output = anyhow::Result<T>>,
        interrupted: impl FnOnce() -> anyhow::Error,
    ) -> anyhow::Result<T> {
        tokio::select! {
            biased;
            () = self.next() => Err(interrupted()),
            done = work => done,
        }
    }

    /// Takes leave of a server, until the next one: whoever presses ctrl-c again waits no longer.
    pub(crate) async fn or_leave(&mut self, leave: impl Future<Output = ()>) -> anyhow::Result<()> {
        let told = async {
            tokio::time::sleep(SOON).await;
            eprintln!("mcp-flow: waiting for the server to end; ctrl-c quits at once");
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = self.next() => {
                let message = "interrupted; the server was not waited for";
                Err(Failure::new(Exit::Interrupted, message).into())
            }
            () = leave => Ok(()),
            () = told => Ok(()),
        }
    }
}

/// What ctrl-c ends in.
pub(crate) fn interrupted() -> anyhow::Error {
    Failure::new(Exit::Interrupted, "interrupted; what was under way is cancelled").into()
}

/// A server that ends within this time is not worth a word.
const SOON: Duration = Duration::from_millis(500);
