//! Reports for people and result files for programs.

use std::{fmt, fs, process::Command, thread};

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;

use crate::binary::{self, Target};

/// A measured number and the limit it must keep.
#[derive(Debug, Serialize)]
pub(crate) struct Threshold {
    what: String,
    bound: Bound,
    limit: f64,
    measured: f64,
    held: bool,
}

/// The direction of a limit.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum Bound {
    AtMost,
    AtLeast,
}

impl Threshold {
    /// Creates an upper limit.
    pub(crate) fn new(what: impl Into<String>, limit: f64, measured: f64) -> Self {
        let held = measured <= limit;
        Self { what: what.into(), bound: Bound::AtMost, limit, measured, held }
    }

    /// Creates a lower limit.
    pub(crate) fn at_least(what: impl Into<String>, limit: f64, measured: f64) -> Self {
        let held = measured >= limit;
        Self { what: what.into(), bound: Bound::AtLeast, limit, measured, held }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, bound, limit, measured, held } = self;
        // One digit more than the limit, so that a value just beyond it does not look equal.
        let digits = if *limit < 1.0 { 2 } else { 1 };
        let sign = match bound {
            Bound::AtMost => "<=",
            Bound::AtLeast => ">=",
        };
        let verdict = if *held { "held" } else { "NOT held" };
        write!(formatter, "{what} {sign} {limit:.digits$}: {measured:.*} {verdict}", digits + 1)
    }
}

/// The machine, the compiler and the profile, which later comparisons need.
#[derive(Debug, Serialize)]
pub(crate) struct Environment {
    rustc: String,
    profile: String,
    cores: usize,
}

impl Environment {
    pub(crate) fn describe() -> anyhow::Result<Self> {
        let version = Command::new("rustc").arg("--version").output();
        let version = version.context("cannot ask rustc for its version")?;
        Ok(Self {
            rustc: String::from_utf8_lossy(&version.stdout).trim().to_owned(),
            profile: binary::profile()?,
            cores: thread::available_parallelism()?.get(),
        })
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, profile {}, on {} cores", self.rustc, self.profile, self.cores)
    }
}

/// Aligns rows in columns, the first to the left and all others to the right.
pub(crate) fn table<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    });
    let mut text = String::new();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            text +=
                &if column == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
        }
        text.push('\n');
    }
    text
}

/// Writes a result file and returns a line with its path.
pub(crate) fn save(
    target: &Target,
    name: &str,
    results: &impl Serialize,
) -> anyhow::Result<String> {
    let directory = target.results();
    let path = directory.join(name);
    let json = serde_json::to_string_pretty(results)?;
    fs::create_dir_all(&directory)
        .and_then(|()| fs::write(&path, json + "\n"))
        .with_context(|| format!("cannot write {path:?}"))?;
    Ok(format!("written to {}", path.display()))
}

/// Returns the name of a choice on the command line.
pub(crate) fn name(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().expect("no choice is hidden").get_name().to_owned()
}

/// Returns the middle value, or the mean of the middle two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// Converts bytes to decimal megabytes.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_says_whether_it_holds() {
        let shown = |limit, measured| Threshold::new("a / b", limit, measured).to_string();
        assert_eq!(shown(2.0, 1.431), "a / b <= 2.0: 1.43 held");
        assert_eq!(shown(2.0, 2.0), "a / b <= 2.0: 2.00 held");
        assert_eq!(shown(0.1, 0.104), "a / b <= 0.10: 0.104 NOT held");
        let shown = |limit, measured| Threshold::at_least("a / b", limit, measured).to_string();
        assert_eq!(shown(0.85, 0.91), "a / b >= 0.85: 0.910 held");
        assert_eq!(shown(2.2, 2.19), "a / b >= 2.2: 2.19 NOT held");
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn columns_line_up() {
        let rows = [["a", "10"], ["long", "9"]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "a     10\nlong   9\n");
    }
}
