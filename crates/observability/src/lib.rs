//! Observability for operators: audit log, metrics, call log.
//!
//! [`audit`] records calls in a tamper-evident file; [`metrics`] counts them for Prometheus;
//! [`CallLog`] logs a line for each. All are [`Observer`](mcp_flow_server::Observer)s, which see
//! targets and outcomes by name, and neither arguments nor results.

pub mod audit;
mod calls;
pub mod metrics;

pub use calls::CallLog;
