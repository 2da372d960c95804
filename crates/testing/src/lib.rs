//! Tests of flows.
//!
//! [`FlowTest`] has a server and a client in one process, and a clock that skips: a flow that sleeps
//! for three days is tested in a millisecond. Every turn replays the flow from its journal, so a test
//! also shows that the flow can be replayed. [`crash_at_every_append`] runs a [`Script`] and kills the
//! server at each of its writes. [`replay`] checks the histories of real sessions against changed code.
//!
//! It runs flows by the same engine as a server does. It has no store of its own on disk.

mod answers;
mod clock;
mod crash;
mod error;
mod flow_test;
mod history;
mod session;
mod store;

pub use answers::Answers;
pub use clock::{SkipDuration, TestClock};
pub use crash::{CrashReport, Script, crash_at_every_append, crash_at_every_append_on};
pub use error::FlowTestError;
pub use flow_test::{FlowTest, FlowTestBuilder};
pub use history::replay;
pub use session::TestedSession;
