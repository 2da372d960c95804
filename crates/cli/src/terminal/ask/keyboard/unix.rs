//! Unix: a pseudo-terminal replaces standard input and receives what the person types while a question
//! is open.

use std::io::{self, PipeReader};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyModifiers};
use inquire::InquireError;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};

use super::Withdrawal;

/// Relay from the person's terminal to the widgets.
#[derive(Debug)]
pub(crate) struct Keyboard {
    /// The person's terminal.
    terminal: OwnedFd,
    /// The end of the pseudo-terminal that keys are written to.
    keys: OwnedFd,
}

impl Keyboard {
    /// Returns the keyboard of this process; none on a system without pseudo-terminals.
    ///
    /// Standard input is the pseudo-terminal from here on.
    pub(crate) fn get() -> Option<&'static Self> {
        KEYBOARD.get_or_init(|| Self::open().ok()).as_ref()
    }

    fn open() -> rustix::io::Result<Self> {
        let terminal = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        rustix::io::fcntl_setfd(&keys, FdFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&keys, true)?;
        grantpt(&keys)?;
        unlockpt(&keys)?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let input = rustix::fs::open(ptsname(&keys, Vec::new())?, flags, Mode::empty())?;
        // A key that arrives before a widget reads is a key all the same, and no signal.
        set_raw(input.as_fd())?;
        rustix::stdio::dup2_stdin(&input)?;
        Ok(Self { terminal, keys })
    }

    /// Runs a widget to its end; none if its question was or is withdrawn.
    pub(crate) fn ask<T>(
        &self,
        withdrawal: &Withdrawal,
        widget: impl FnOnce() -> Result<T, InquireError>,
    ) -> Result<Option<T>, InquireError> {
        let (stopped, stop) = io::pipe()?;
        if !withdrawal.begin() {
            return Ok(None);
        }
        let raw = RawMode::enter(self.terminal.as_fd()).map_err(io::Error::from)?;
        let answered = std::thread::scope(|scope| {
            scope.spawn(|| self.relay(&stopped));
            let answered = widget();
            drop(stop);
            answered
        });
        drop(raw);
        if !withdrawal.end() {
            return answered.map(Some);
        }
        // The answer and the withdrawal met: the key that was to end the widget is still unread.
        if !matches!(answered, Err(InquireError::OperationInterrupted)) {
            while !is_ctrl_c(&event::read()?) {}
        }
        self.discard_input()?;
        Ok(None)
    }

    /// Ends the widget that is shown, by a key.
    pub(super) fn interrupt(&self) {
        // A few bytes always fit, and a pseudo-terminal that is gone has no reader.
        let _ = rustix::io::write(&self.keys, CTRL_C);
    }

    /// Discards keys that were typed for a withdrawn question, so that they do not answer the next.
    fn discard_input(&self) -> io::Result<()> {
        tcflush(&self.terminal, QueueSelector::IFlush)?;
        tcflush(rustix::stdio::stdin(), QueueSelector::IFlush)?;
        while event::poll(Duration::ZERO)? {
            event::read()?;
        }
        Ok(())
    }

    /// Passes on what is typed until the other end of `stop` is closed.
    fn relay(&self, stop: &PipeReader) {
        let mut typed = [0; 1024];
        while is_ready(self.terminal.as_fd(), PollFlags::IN, stop) {
            let Ok(count @ 1..) = rustix::io::read(&self.terminal, &mut typed) else { return };
            let mut rest = &typed[..count];
            while !rest.is_empty() && is_ready(self.keys.as_fd(), PollFlags::OUT, stop) {
                match rustix::io::write(&self.keys, rest) {
                    Ok(count) => rest = &rest[count..],
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(_) => return,
                }
            }
        }
    }
}

/// Waits until a descriptor is ready; false if there is nothing more to wait for.
fn is_ready(descriptor: BorrowedFd<'_>, flags: PollFlags, stop: &PipeReader) -> bool {
    loop {
        let mut both = [PollFd::new(&descriptor, flags), PollFd::new(stop, PollFlags::IN)];
        match poll(&mut both, None) {
            Ok(_) => return both[1].revents().is_empty(),
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Raw mode of the person's terminal, left on drop.
struct RawMode<'a> {
    terminal: BorrowedFd<'a>,
    before: Termios,
}

impl<'a> RawMode<'a> {
    fn enter(terminal: BorrowedFd<'a>) -> rustix::io::Result<Self> {
        let before = set_raw(terminal)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for RawMode<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs no mode.
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Switches a terminal to raw mode; returns the mode it had.
fn set_raw(terminal: BorrowedFd<'_>) -> rustix::io::Result<Termios> {
    let before = tcgetattr(terminal)?;
    let mut raw = before.clone();
    raw.make_raw();
    tcsetattr(terminal, OptionalActions::Now, &raw)?;
    Ok(before)
}

fn is_ctrl_c(event: &Event) -> bool {
    event
        .as_key_press_event()
        .is_some_and(|key| key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL)
}

static KEYBOARD: OnceLock<Option<Keyboard>> = OnceLock::new();

const CTRL_C: &[u8] = b"\x03";
