//! What operators learn of a server while it runs, and afterwards.
//!
//! [`audit`] keeps who called what with which outcome in a file where nothing can be changed
//! unseen; [`metrics`] counts calls for Prometheus; [`CallLines`]
//! says a line of each in the log. All of it is told by [`Observer`](mcp_flow_server::Observer)s, which see what was asked
//! for by name and what came of it, and neither arguments nor results.

pub mod audit;
mod calls;
pub mod metrics;

pub use calls::CallLines;
