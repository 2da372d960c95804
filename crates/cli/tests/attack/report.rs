//! Results of a table of attacks, collected so that one run reports every failed row.

use std::fmt::{Debug, Display};

/// Counts the rows of a table, and collects those with an unexpected result.
#[derive(Default)]
pub(crate) struct TableReport {
    ran: usize,
    failed: Vec<String>,
}

impl TableReport {
    /// Compares the result of a row with the expected one.
    pub(crate) fn compare<T: Debug + PartialEq>(
        &mut self,
        row: impl Display,
        actual: T,
        expected: T,
    ) {
        self.check(row, actual == expected, format_args!("got {actual:?}, not {expected:?}"));
    }

    /// Records a row that passed or failed; `actual` describes the result of a failed one.
    pub(crate) fn check(&mut self, row: impl Display, passed: bool, actual: impl Display) {
        self.ran += 1;
        if !passed {
            self.failed.push(format!("{row}: {actual}"));
        }
    }

    /// Panics if a row failed, or if fewer than `rows` ran.
    pub(crate) fn finish(self, rows: usize) {
        let Self { ran, failed } = self;
        assert!(failed.is_empty(), "{} of {ran}:\n{}", failed.len(), failed.join("\n"));
        assert!(ran >= rows, "{ran} rows ran, expected at least {rows}");
    }
}
