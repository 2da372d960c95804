//! Test servers shared by several modules.

pub(crate) mod configured_server;
pub(crate) mod control_stream;
#[path = "../../oauth/tests/support/test_server.rs"]
#[allow(dead_code, reason = "logging in from the terminal needs no more")]
pub(crate) mod test_server;
