//! Bounds on what one client can make the server hold: time to send and to read, memory, idle
//! connections. The numbers are in [`Options`](crate::Options).

pub(crate) mod counted_body;
pub(crate) mod follow_ups;
pub(crate) mod http2_idle;
pub(crate) mod request_body;
pub(crate) mod write_timeout;
