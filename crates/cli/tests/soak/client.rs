//! A client process.

use tokio::io::AsyncReadExt;
use tokio::sync::watch;

use crate::soak::assignment::{Assignment, Implementation};
use crate::soak::{library_client, scripted_client};

/// Works until the input ends. Panics on any unexpected reply, which the load generator detects.
pub(crate) async fn run(assignment: Assignment) {
    let stop = StopSignal::listen();
    match assignment.kind.implementation {
        Implementation::Library => library_client::run(&assignment, stop).await,
        Implementation::Scripted => scripted_client::run(&assignment, stop).await,
    }
}

/// Stop signal for a client: the end of its standard input.
#[derive(Clone, Debug)]
pub(crate) struct StopSignal(watch::Receiver<bool>);

impl StopSignal {
    fn listen() -> Self {
        let (sender, receiver) = watch::channel(false);
        tokio::spawn(async move {
            let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
            sender.send_replace(true);
        });
        Self(receiver)
    }

    pub(crate) fn is_set(&self) -> bool {
        *self.0.borrow()
    }
}
