//! Windows: widgets read the console itself. That of a withdrawn question stays until it is answered,
//! and the answer is discarded.

use inquire::InquireError;

use super::Withdrawal;

/// The console.
#[derive(Debug)]
pub(crate) struct Keyboard;

impl Keyboard {
    /// Returns the keyboard of this process.
    pub(crate) fn get() -> Option<&'static Self> {
        Some(&Self)
    }

    /// Runs a widget to its end; none if its question was or is withdrawn.
    pub(crate) fn ask<T>(
        &self,
        withdrawal: &Withdrawal,
        widget: impl FnOnce() -> Result<T, InquireError>,
    ) -> Result<Option<T>, InquireError> {
        if !withdrawal.begin() {
            return Ok(None);
        }
        let answered = widget();
        if withdrawal.end() { Ok(None) } else { answered.map(Some) }
    }

    /// Does nothing: a key of our own would need a pseudo-terminal.
    pub(super) fn interrupt(&self) {}
}
