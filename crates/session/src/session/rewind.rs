//! Rewinding: a session goes on from before an earlier question.

use super::{Damaged, Session};
use crate::Timestamp;
use crate::event::JournalEvent;

/// Reason a session cannot be rewound. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RewindError {
    /// No question of this key was answered.
    #[error("no question `{0}` was answered")]
    NotAnswered(String),
    /// A step in between has had effects that cannot be undone.
    #[error("step `{0}` has run since, and its effects cannot be undone")]
    Effect(String),
}

/// Returns the events that count, with their indexes: all but those that were rewound. Signals and
/// links are kept, since nobody sends them again.
pub fn effective(events: &[JournalEvent]) -> Vec<(usize, &JournalEvent)> {
    let mut kept: Vec<(usize, &JournalEvent)> = Vec::with_capacity(events.len());
    for (index, event) in events.iter().enumerate() {
        if let JournalEvent::Rewound { to, .. } = event {
            kept.retain(|(kept, event)| kept < to || is_kept(event));
        }
        kept.push((index, event));
    }
    kept
}

/// Returns whether a rewind keeps an event.
fn is_kept(event: &JournalEvent) -> bool {
    matches!(
        event,
        JournalEvent::Signalled { .. }
            | JournalEvent::LinkMade { .. }
            | JournalEvent::LinkRevoked { .. }
    )
}

impl Session {
    /// Decides to rewind the session of a journal to before the last answered question of a key.
    pub fn decide_rewind(
        &self,
        events: &[JournalEvent],
        key: &str,
        at: Timestamp,
    ) -> Result<JournalEvent, RewindError> {
        let kept = effective(events);
        let asked = kept.iter().enumerate().filter(|(_, (_, event))| match event {
            JournalEvent::Asked(asked) | JournalEvent::Queued(asked) => asked.key == key,
            JournalEvent::Given { key: given, .. } => given == key,
            _ => false,
        });
        // Those that are open have no answer to change.
        let queued = self.queued.iter().filter(|queued| queued.answered.is_none());
        let open = self.open.iter().chain(queued.map(|queued| &queued.asked));
        let open = open.filter(|open| open.key == key).count();
        let asked: Vec<_> = asked.map(|(place, (index, _))| (place, *index)).collect();
        let last = asked.len().checked_sub(open + 1).and_then(|last| asked.get(last));
        let Some(&(place, to)) = last else {
            return Err(RewindError::NotAnswered(key.to_owned()));
        };
        if let Some(step) = kept[place..].iter().find_map(|(_, event)| effect(event)) {
            return Err(RewindError::Effect(step.to_owned()));
        }
        Ok(JournalEvent::Rewound {
            to,
            key: key.to_owned(),
            questions: self.prompts,
            // Also the open question is not answered any more.
            turns: self.turn().saturating_add(1),
            timers: self.timers_set,
            at: at.max(self.touched),
        })
    }

    pub(super) fn rewind(&mut self, key: String, questions: u32, turns: u32, timers: u32) {
        self.prompts = self.prompts.max(questions);
        self.timers_set = self.timers_set.max(timers);
        let answered = u32::try_from(self.history.len()).unwrap_or(u32::MAX);
        self.skipped = self.skipped.max(turns.saturating_sub(answered));
        self.reopened.push(key);
    }

    /// Folds a journal with rewinds.
    pub(super) fn replay_rewound(events: &[JournalEvent]) -> Result<Self, Damaged> {
        let kept = effective(events);
        let damaged = |place: usize| Damaged { index: kept.get(place).map_or(0, |kept| kept.0) };
        let first = kept.first().map(|(_, event)| std::slice::from_ref(*event));
        let begun = Self::replay(first.unwrap_or_default()).map_err(|_| damaged(0))?;
        let mut session = begun.ok_or_else(|| damaged(0))?;
        for (place, (_, event)) in kept.iter().enumerate().skip(1) {
            session.apply((*event).clone()).map_err(|_| damaged(place))?;
        }
        // What was rewound is still stored.
        session.length = events.len();
        session.size = events.iter().map(super::size::of).fold(0, usize::saturating_add);
        Ok(session)
    }
}

/// Returns the key of a step that has had effects, or may have.
fn effect(event: &JournalEvent) -> Option<&str> {
    match event {
        JournalEvent::StepDone { is_lookup: true, .. } => None,
        // A drawn value has no effects.
        JournalEvent::StepDone { key, .. } if key.starts_with('~') => None,
        JournalEvent::StepDone { key, .. }
        | JournalEvent::StepBegun { key, .. }
        | JournalEvent::StepFailed { key, .. } => Some(key),
        _ => None,
    }
}
