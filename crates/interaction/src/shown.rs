//! Questions of sessions that clients have been sent, so that an answer is not taken for one to a
//! question its sender cannot know of yet (INT-041).

use std::sync::{Mutex, PoisonError};

use hashbrown::HashMap;
use mcp_flow_engine::{Seen, Standing, View};
use mcp_flow_server::Context;
use mcp_flow_server::connection::Moment;
use mcp_flow_session::SessionId;

use crate::interaction::Interaction;

/// The newest turn each session has sent, bounded in number. A session that is not here is taken
/// for one whose client knows everything.
#[derive(Default)]
pub(crate) struct ShownTurns {
    sessions: Mutex<HashMap<SessionId, ShownTurn>>,
}

struct ShownTurn {
    turn: u32,
    /// Moment it was about to be sent, and by which connection.
    moment: Moment,
}

impl Interaction {
    /// Notes that a client is about to be sent where a session stands.
    pub(crate) fn note_shown(&self, view: &View, moment: Moment) {
        let turn = match &view.standing {
            Standing::Waiting(open) => open.turn,
            // The end comes after the last turn.
            Standing::Ended(ended) => ended.turns,
            Standing::Working(_) => return,
        };
        self.inner.shown.note(view.id, turn, moment);
    }

    /// The newest turn that whoever sent a request can know of. To be asked when the request is
    /// received, before anything is waited for.
    pub(crate) fn seen(&self, context: &Context, id: SessionId) -> Option<Seen> {
        let received = context.received();
        let sessions = self.inner.shown.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let ShownTurn { turn, moment } = sessions.get(&id)?;
        let turn = match received.is_before_sending(*moment) {
            true => turn.checked_sub(1)?,
            false => *turn,
        };
        let is_reliable = context.keeps_order() && received.is_of_same_connection(*moment);
        Some(Seen { turn, is_reliable })
    }
}

impl ShownTurns {
    /// Notes that a turn is about to be sent.
    pub(crate) fn note(&self, id: SessionId, turn: u32, moment: Moment) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.get(&id).is_some_and(|shown| shown.turn >= turn) {
            return;
        }
        // Only requests under way are judged by this, so that what is lost is soon there again.
        if sessions.len() >= MOST_SESSIONS {
            sessions.clear();
        }
        sessions.insert(id, ShownTurn { turn, moment });
    }
}

/// Limit on the sessions that are remembered.
const MOST_SESSIONS: usize = 16 * 1024;
