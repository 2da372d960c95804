//! The keyboard of a terminal, relayed to the widgets that read it.
//!
//! A widget blocks in a read of standard input, which only a key ends. Where the system allows it, a
//! withdrawn question is ended by a key of our own, and the next question gets what is typed next.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use parking_lot::Mutex;

#[cfg(unix)]
pub(super) use unix::Keyboard;
#[cfg(windows)]
pub(super) use windows::Keyboard;

/// Progress of a question in the terminal, shared by the widget and by those who may withdraw it.
#[derive(Debug, Default)]
pub(super) struct Withdrawal(Mutex<Progress>);

#[derive(Debug, Default, PartialEq, Eq)]
enum Progress {
    #[default]
    Queued,
    Shown,
    Withdrawn,
    Closed,
}

impl Withdrawal {
    /// Ends the question, whether it is shown already or waits for its turn.
    pub(super) fn withdraw(&self) {
        let mut progress = self.0.lock();
        if *progress == Progress::Shown
            && let Some(keyboard) = Keyboard::get()
        {
            keyboard.interrupt();
        }
        if *progress != Progress::Closed {
            *progress = Progress::Withdrawn;
        }
    }

    /// Returns whether the question is still wanted.
    fn begin(&self) -> bool {
        let mut progress = self.0.lock();
        let is_wanted = *progress == Progress::Queued;
        if is_wanted {
            *progress = Progress::Shown;
        }
        is_wanted
    }

    /// Returns whether the question was withdrawn while it was shown.
    fn end(&self) -> bool {
        std::mem::replace(&mut *self.0.lock(), Progress::Closed) == Progress::Withdrawn
    }
}
