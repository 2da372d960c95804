//! A session under test.

use mcp_flow_engine::{
    AnswerReply, AnswerRequest, LinkReply, OpenQuestion, SessionHistory, SessionStatus, View,
};
use mcp_flow_session::event::Ending;
use mcp_flow_session::{JournalEvent, Owner, SessionId};
use serde_json::Value;

use crate::{Answers, FlowTest, FlowTestError};

/// A session of a [`FlowTest`].
#[derive(Clone, Copy, Debug)]
pub struct TestedSession<'a> {
    test: &'a FlowTest,
    id: SessionId,
}

impl<'a> TestedSession<'a> {
    pub(crate) fn new(test: &'a FlowTest, id: SessionId) -> Self {
        Self { test, id }
    }

    /// Returns the id of the session.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Returns the status of the session, when its flow asks, sleeps, waits for a signal or has ended.
    pub async fn view(&self) -> Result<View, FlowTestError> {
        self.test.settle(self.id, &Owner::local()).await
    }

    /// Returns the questions that wait for an answer.
    pub async fn questions(&self) -> Result<Vec<OpenQuestion>, FlowTestError> {
        Ok(self.view().await?.questions().cloned().collect())
    }

    /// Answers the question of this key.
    pub async fn answer(&self, key: &str, value: impl Into<Value>) -> Result<(), FlowTestError> {
        self.answer_all([(key, value.into())]).await
    }

    /// Answers questions, in whichever order the flow asks them, until each answer was given.
    pub async fn answer_all(&self, answers: impl Into<Answers>) -> Result<(), FlowTestError> {
        let mut answers = answers.into();
        while !answers.is_empty() {
            let view = self.view().await?;
            let open = view.questions().find_map(|open| Some((open, answers.take(&open.key)?)));
            let Some((open, value)) = open else {
                let state = describe(&view);
                return Err(FlowTestError::NotAsked { keys: answers.keys(), state });
            };
            self.answer_question(open, value).await?;
        }
        self.view().await.map(drop)
    }

    pub(crate) async fn answer_question(
        &self,
        open: &OpenQuestion,
        value: Value,
    ) -> Result<(), FlowTestError> {
        let answer = AnswerRequest::from(value).for_question(open.id());
        match self.test.engine().respond(self.id, &Owner::local(), answer).await? {
            AnswerReply::Accepted(_) | AnswerReply::Repeated(_) => Ok(()),
            AnswerReply::Rejected { violation, .. } => {
                Err(FlowTestError::Rejected { key: open.key.clone(), reason: violation.error })
            }
            AnswerReply::Ended(view) => Err(FlowTestError::Rejected {
                key: open.key.clone(),
                reason: format!("the session {}", describe(&view)),
            }),
        }
    }

    /// Sends a signal to the session. Returns whether it is kept, since the flow does not wait for it
    /// yet.
    pub async fn signal(&self, name: &str, value: impl Into<Value>) -> Result<bool, FlowTestError> {
        let value = value.into();
        let reply = self.test.engine().signal(self.id, &Owner::local(), name, value).await?;
        self.view().await?;
        Ok(reply.is_kept)
    }

    /// Uses a link of the session, as a `POST` to its URL does. A link that needs a login is used by
    /// the owner of the session.
    pub async fn use_link(&self, url: &str, value: impl Into<Value>) -> Result<(), FlowTestError> {
        let token = url.rsplit('/').next().unwrap_or_default();
        let owner = Owner::local();
        let used = self.test.engine().use_link(token, value.into(), Some(owner.name())).await?;
        if let LinkReply::Rejected(violation) = used {
            return Err(FlowTestError::Rejected { key: url.to_owned(), reason: violation.error });
        }
        self.view().await.map(drop)
    }

    /// Cancels the session.
    pub async fn cancel(&self, reason: Option<String>) -> Result<(), FlowTestError> {
        self.test.engine().cancel(self.id, &Owner::local(), reason).await?;
        Ok(())
    }

    /// Returns the result of the flow, if it has completed with success.
    pub async fn result(&self) -> Result<Value, FlowTestError> {
        let view = self.view().await?;
        match &view.status {
            SessionStatus::Ended(ended) => match &ended.ending {
                Ending::Completed { success: true, data, .. } => Ok(data.clone()),
                _ => Err(FlowTestError::NoResult(describe(&view))),
            },
            _ => Err(FlowTestError::NoResult(describe(&view))),
        }
    }

    /// Returns the end of the session, if it has ended.
    pub async fn ending(&self) -> Result<Option<Ending>, FlowTestError> {
        match self.view().await?.status {
            SessionStatus::Ended(ended) => Ok(Some(ended.ending)),
            _ => Ok(None),
        }
    }

    /// Rewinds the session to its last answered question of this key, which is asked again.
    pub async fn rewind(&self, key: &str) -> Result<(), FlowTestError> {
        self.test.engine().rewind(self.id, &Owner::local(), key).await?;
        self.view().await.map(drop)
    }

    /// Returns the history for a file, to be checked by [`replay`](crate::replay) later.
    pub fn export(&self) -> Value {
        SessionHistory { id: self.id, events: self.history() }.to_value()
    }

    /// Returns every event of the session, also after its end.
    pub fn history(&self) -> Vec<JournalEvent> {
        self.test.store.history(self.id)
    }
}

/// Describes a session that is in another state than a test expects.
pub(crate) fn describe(view: &View) -> String {
    let keys: Vec<_> = view.questions().map(|open| format!("`{}`", open.key)).collect();
    match (&view.status, view.wakes) {
        (SessionStatus::Waiting(_), _) => format!("waits for an answer to {}", keys.join(", ")),
        (SessionStatus::Working(_), Some(wakes)) => format!("sleeps until {}", wakes.to_iso8601()),
        (SessionStatus::Working(_), None) if !view.awaits.is_empty() => {
            format!("waits for the signal `{}`", view.awaits.join("` or `"))
        }
        (SessionStatus::Working(_), None) => "is working".to_owned(),
        (SessionStatus::Ended(ended), _) => describe_ending(&ended.ending),
    }
}

pub(crate) fn describe_ending(ending: &Ending) -> String {
    match ending {
        Ending::Completed { success: true, data, .. } => format!("completed with {data}"),
        Ending::Completed { summary, .. } => {
            format!("was declined: {}", summary.as_deref().unwrap_or("no reason given"))
        }
        Ending::Failed(fault) => format!("failed: {fault}"),
        Ending::Cancelled { reason } => {
            format!("was cancelled: {}", reason.as_deref().unwrap_or("no reason given"))
        }
        Ending::Expired(_) => "has expired".to_owned(),
    }
}
