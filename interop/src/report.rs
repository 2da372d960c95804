//! What a client saw.

use serde::Deserialize;
use serde_json::{Value, json};

/// What the scripts print, the same for all of them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Report {
    /// The revision agreed on.
    pub revision: String,
    /// The names of all tools listed.
    pub tools: Vec<String>,
    /// The result of adding 2 and 3.
    pub sum: Value,
    /// The result of a tool that fails.
    pub failure: Value,
    /// The code of the error that calling an unknown tool gives.
    pub unknown: i64,
    /// The progress reported during a call of 300 ms.
    pub progress: Vec<f64>,
    /// Whether cancelling a call of a minute ended it.
    pub cancelled: bool,
    /// The result of adding 2 and 3 after that.
    pub sum_after_cancel: Value,
    /// What the SDK found wrong with what the server sent.
    pub complaints: Vec<String>,
}

impl Report {
    /// Panics unless the client saw what every client should see.
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

/// Panics unless progress was reported more than once, and each time there was more of it.
pub fn rises(progress: &[f64]) {
    assert!(progress.len() >= 2, "{progress:?}");
    assert!(progress.is_sorted_by(|earlier, later| earlier < later), "{progress:?}");
}
