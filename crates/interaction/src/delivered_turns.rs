//! The newest turn sent to the client of each session, so that an answer that names no turn does
//! not answer a question its sender cannot know yet (INT-041).

use hashbrown::HashMap;
use mcp_flow_engine::{SeenTurn, SessionStatus, View};
use mcp_flow_server::Context;
use mcp_flow_server::connection::SendPosition;
use mcp_flow_session::SessionId;
use parking_lot::Mutex;

use crate::interaction::Interaction;

/// The newest turn sent for each session, limited in number. The client of a session that is not
/// here is assumed to know everything but confirmations.
#[derive(Default)]
pub(crate) struct DeliveredTurns {
    sessions: Mutex<HashMap<SessionId, DeliveredTurn>>,
}

struct DeliveredTurn {
    turn: u32,
    /// Position at which it was queued.
    position: SendPosition,
}

impl Interaction {
    /// Records that the status of a session is about to be sent in the reply of a call, so that its
    /// question can be answered with `interaction.respond`. For tools that start sessions of their
    /// own.
    pub fn record_sent(&self, context: &Context, view: &View) {
        self.record_delivered(view, context.client().queue_position());
    }

    /// Records that the status of a session is about to be sent to a client.
    pub(crate) fn record_delivered(&self, view: &View, position: SendPosition) {
        let turn = match &view.status {
            SessionStatus::Waiting(open) => open.turn,
            // The end follows the last turn.
            SessionStatus::Ended(ended) => ended.turns,
            SessionStatus::Working(_) => return,
        };
        self.record_delivered_turn(view.id, turn, position);
    }

    /// Records that a turn is about to be sent. Client-held sessions have the turn in their token.
    pub(crate) fn record_delivered_turn(&self, id: SessionId, turn: u32, position: SendPosition) {
        if !self.inner.backend.is_client_held() {
            self.inner.delivered.record(id, turn, position);
        }
    }

    /// Returns the newest turn that the sender of a request can know. Must be called before the
    /// first await of the request.
    pub(crate) fn seen_turn(&self, context: &Context, id: SessionId) -> Option<SeenTurn> {
        let received = context.received();
        let sessions = self.inner.delivered.sessions.lock();
        let (turn, is_reliable) = match sessions.get(&id) {
            Some(delivered) if received.is_before_sending(delivered.position) => {
                (delivered.turn.checked_sub(1), delivered.is_reliable_for(context))
            }
            // Another node may have sent a later one.
            _ if self.engine().is_shared() => return None,
            Some(delivered) => (Some(delivered.turn), delivered.is_reliable_for(context)),
            None => (None, false),
        };
        Some(SeenTurn { turn, is_reliable })
    }
}

impl DeliveredTurn {
    /// Returns whether no reply to the sender of a request can have been lost.
    fn is_reliable_for(&self, context: &Context) -> bool {
        context.keeps_order() && context.received().is_of_same_connection(self.position)
    }
}

impl DeliveredTurns {
    fn record(&self, id: SessionId, turn: u32, position: SendPosition) {
        let mut sessions = self.sessions.lock();
        if sessions.get(&id).is_some_and(|delivered| delivered.turn >= turn) {
            return;
        }
        // Only requests in flight depend on this, and the next delivery records it again.
        if sessions.len() >= SESSION_LIMIT {
            sessions.clear();
        }
        sessions.insert(id, DeliveredTurn { turn, position });
    }
}

/// Limit on recorded sessions.
const SESSION_LIMIT: usize = 16 * 1024;
