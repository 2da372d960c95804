//! Everything `serve` and `stdio` put together: tools, flows, stores, access control, metrics and
//! reloading. The transports themselves are in the libraries.

pub(crate) mod access;
pub(crate) mod build;
pub(crate) mod cluster;
pub(crate) mod diagnostics;
pub(crate) mod gateway;
pub(crate) mod metrics;
pub(crate) mod offer;
pub(crate) mod readiness;
pub(crate) mod recording;
pub(crate) mod relay;
pub(crate) mod reload;
pub(crate) mod serving;
pub(crate) mod store;
pub(crate) mod telemetry;
pub(crate) mod tool_files;
pub(crate) mod transports;
pub(crate) mod user_logins;
pub(crate) mod welcome;
pub(crate) mod workflows;
