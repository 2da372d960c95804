//! What was tried, and what came of it.

use std::fmt::{Debug, Display};

/// Rows of a table that were tried, and those that came out otherwise than expected.
#[derive(Default)]
pub(crate) struct Book {
    tried: usize,
    wrong: Vec<String>,
}

impl Book {
    /// Notes a row.
    pub(crate) fn note<T: Debug + PartialEq>(&mut self, row: impl Display, came: T, expected: T) {
        self.check(row, came == expected, format_args!("{came:?} came, not {expected:?}"));
    }

    /// Notes a row that is right or not; `came` says what it is if not.
    pub(crate) fn check(&mut self, row: impl Display, is_right: bool, came: impl Display) {
        self.tried += 1;
        if !is_right {
            self.wrong.push(format!("{row}: {came}"));
        }
    }

    /// Fails if any row was wrong, or if the table has fewer than it is known to have.
    pub(crate) fn close(self, rows: usize) {
        let Self { tried, wrong } = self;
        assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
        assert!(tried >= rows, "{tried} rows were tried, and there should be {rows}");
    }
}
