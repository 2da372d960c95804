//! Optional questions.

use serde_json::Value;

use super::Question;
use crate::prompt::Prompt;

/// Question that may be left unanswered.
#[derive(Clone, Debug)]
pub struct Optional<Q>(pub(super) Q);

impl<Q: Question> Question for Optional<Q> {
    type Answer = Option<Q::Answer>;

    fn prompt(&self) -> &Prompt {
        self.0.prompt()
    }

    fn read(&self, value: Value) -> Option<Option<Q::Answer>> {
        if value.is_null() { Some(None) } else { self.0.read(value).map(Some) }
    }
}
