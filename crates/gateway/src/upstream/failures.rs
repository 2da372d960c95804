//! Failures of an upstream: callers learn the reason, and operators the whole text.

use mcp_flow_client::{Error, sanitize};
use mcp_flow_proto::{Revision, RpcError};

use super::Upstream;
use crate::breaker::Reason;
use crate::error;

impl Upstream {
    /// The error for a caller whose request failed. The whole text is for operators.
    pub(crate) fn failed(&self, failure: Error) -> RpcError {
        let full = sanitize::shorten(&failure.to_string(), 1000);
        tracing::debug!(server = self.name(), "a request failed: {full}");
        let reason = Reason { shown: error::reason(&self.settings, &failure), full };
        *self.last_failure.lock() = Some(reason);
        error::from_client(&self.settings, failure)
    }

    /// Describes a failure for operators, with what its caller is not told.
    pub(crate) fn describe(&self, failure: &RpcError) -> String {
        let wire = serde_json::to_value(failure.wire(Revision::BASE)).unwrap_or_default();
        let details = wire["data"]["details"].as_str().unwrap_or(failure.text());
        let started = self.breaker.state.lock().last.as_ref().map(|(_, reason)| reason.clone());
        let reasons = [self.last_failure.lock().clone(), started];
        let mut known = reasons.into_iter().flatten();
        match known.find(|reason| details.contains(&reason.shown)) {
            Some(Reason { shown, full }) => details.replacen(&shown, &full, 1),
            None => details.to_owned(),
        }
    }

    /// Records the error of a request.
    pub(crate) fn record_error(&self, error: &RpcError) {
        self.metrics.record_error(error.name(), &self.describe(error));
    }

    /// The error for a request that needs a definition, if it could not be started or listed the last
    /// time.
    pub(crate) fn start_failure(&self) -> Option<RpcError> {
        let failed =
            self.breaker.state.lock().last.as_ref().map(|(_, reason)| reason.shown.clone());
        let unavailable = |reason: &str| error::unavailable(self.name(), reason, None);
        match failed {
            Some(reason) => Some(unavailable(&reason)),
            None => self.listing_failure.lock().as_ref().map(|failure| match failure.name() {
                // The request was not sent, whatever became of the list.
                "UPSTREAM_LOST" => {
                    let lost = self.last_failure.lock().as_ref().map(|last| last.shown.clone());
                    let why = lost.map_or_else(String::new, |why| format!(": {why}"));
                    unavailable(&format!("it cannot be listed{why}"))
                }
                _ => failure.clone(),
            }),
        }
    }
}
