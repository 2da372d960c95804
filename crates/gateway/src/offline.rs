//! Calls of a store that no server uses: people answer them, and the server goes on when it runs.

use std::sync::Arc;

use mcp_flow_engine::model::SessionId;
use mcp_flow_engine::{Definition, Flow};
use parking_lot::Mutex;

use crate::session::Sessions;

/// Calls that ask, in a store that no server uses. Answers are recorded, and nothing is sent.
pub struct OfflineCalls {
    sessions: Arc<Sessions>,
}

impl OfflineCalls {
    /// Creates them without upstreams.
    #[expect(clippy::new_without_default, reason = "a default would be no shorter")]
    pub fn new() -> Self {
        let mut sessions = Sessions::new(|_| None);
        sessions.left_to_server = Some(Mutex::default());
        Self { sessions: Arc::new(sessions) }
    }

    /// The flow whose sessions are calls that ask, for the engine of the store.
    pub fn flow(&self) -> Definition {
        self.sessions.definition()
    }

    /// Returns whether a session waits with a call that is left to its server.
    pub fn is_left_to_server(&self, session: SessionId) -> bool {
        let left = self.sessions.left_to_server.as_ref();
        left.is_some_and(|sessions| sessions.lock().contains(&session))
    }
}

impl std::fmt::Debug for OfflineCalls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("OfflineCalls")
    }
}

impl Sessions {
    /// Waits forever if calls are left to the server of a session.
    pub(crate) async fn leave_to_server(&self, flow: &Flow) {
        if let Some(sessions) = &self.left_to_server {
            sessions.lock().insert(flow.session());
            std::future::pending::<()>().await;
        }
    }
}
