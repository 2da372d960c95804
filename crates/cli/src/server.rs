//! Everything `serve` and `stdio` put together: tools, flows, stores, access control, metrics and
//! reloading. The transports themselves are in the libraries.

pub(crate) mod access;
pub(crate) mod build;
mod diagnostics;
pub(crate) mod metrics;
pub(crate) mod offer;
pub(crate) mod readiness;
pub(crate) mod reload;
pub(crate) mod store;
pub(crate) mod workflows;
