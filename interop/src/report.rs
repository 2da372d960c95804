//! Report of a client.

use serde::Deserialize;
use serde_json::{Value, json};

/// Output of the scripts, the same for all of them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Report {
    /// Negotiated revision.
    pub revision: String,
    /// Names of all tools.
    pub tools: Vec<String>,
    /// Result of adding 2 and 3.
    pub sum: Value,
    /// Result of a failing tool.
    pub failure: Value,
    /// Error code for an unknown tool.
    pub unknown: i64,
    /// Progress reported during a call of 300 ms.
    pub progress: Vec<f64>,
    /// True if cancelling a call of a minute ended it.
    pub cancelled: bool,
    /// Result of adding 2 and 3 after that.
    pub sum_after_cancel: Value,
    /// Problems the SDK found with the server.
    pub complaints: Vec<String>,
}

impl Report {
    /// Panics unless the report is what every client should see.
    pub fn check(&self, revision: &str) {
        assert_eq!(self.revision, revision);
        assert_eq!(self.complaints, [""; 0]);
        for name in ["calculator.add", "calculator.divide", "sleep", "fail"] {
            assert!(self.tools.iter().any(|tool| tool == name), "no {name} in {:?}", self.tools);
        }
        for sum in [&self.sum, &self.sum_after_cancel] {
            assert_eq!(sum["content"], json!([{"type": "text", "text": "5"}]));
            assert_eq!(sum["isError"], false);
        }
        assert_eq!(self.failure["isError"], true);
        let message = self.failure["content"][0]["text"].as_str().unwrap_or_default();
        assert!(message.contains("always fails"), "{:?}", self.failure);
        assert_eq!(self.unknown, -32602);
        rises(&self.progress);
        assert!(self.cancelled);
    }
}

/// Panics unless progress was reported more than once, and rises.
pub fn rises(progress: &[f64]) {
    assert!(progress.len() >= 2, "{progress:?}");
    assert!(progress.is_sorted_by(|earlier, later| earlier < later), "{progress:?}");
}
