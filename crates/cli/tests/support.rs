//! Servers to test against, shared by several modules.

pub(crate) mod control_stream;
pub(crate) mod served;
#[path = "../../oauth/tests/support/town.rs"]
pub(crate) mod town;
