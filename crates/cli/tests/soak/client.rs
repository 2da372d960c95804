//! One client, in a process of its own.

use tokio::io::AsyncReadExt;
use tokio::sync::watch;

use crate::soak::assignment::{Assignment, Manner};
use crate::soak::{counted, typed};

/// Works until the input ends. Whatever is not as it must be is a panic, which the conductor sees.
pub(crate) async fn run(assignment: Assignment) {
    let leave = Leave::listen();
    match assignment.kind.manner {
        Manner::Typed => typed::run(&assignment, leave).await,
        Manner::Counted => counted::run(&assignment, leave).await,
    }
}

/// Whether the client is asked to leave, which the end of its input says.
#[derive(Clone, Debug)]
pub(crate) struct Leave(watch::Receiver<bool>);

impl Leave {
    fn listen() -> Self {
        let (sender, receiver) = watch::channel(false);
        tokio::spawn(async move {
            let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
            sender.send_replace(true);
        });
        Self(receiver)
    }

    pub(crate) fn is_asked(&self) -> bool {
        *self.0.borrow()
    }
}
