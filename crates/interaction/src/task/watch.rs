//! Notifications about tasks, for `subscriptions/listen` with `taskIds`.

use mcp_flow_engine::{Notice, OpenQuestion, QuestionId, SessionStatus, SessionSubscription, View};
use mcp_flow_proto::model::DetailedTask;
use mcp_flow_server::Context;
use mcp_flow_server::task::{TaskFuture, TaskSource, TaskWatch};
use mcp_flow_session::Timestamp;

use crate::interaction::Interaction;

/// Source of the notifications of a server about its tasks.
pub(super) struct SessionTasks {
    interaction: Interaction,
}

impl SessionTasks {
    pub(super) fn new(interaction: &Interaction) -> Self {
        Self { interaction: interaction.clone() }
    }
}

impl TaskSource for SessionTasks {
    fn watch<'a>(
        &'a self,
        context: &'a Context,
        id: &'a str,
    ) -> TaskFuture<'a, Box<dyn TaskWatch>> {
        Box::pin(async move {
            let interaction = self.interaction.clone();
            let (owner, view) = interaction.find_task(context, Some(id)).await.ok()?;
            // Subscribed before the status is read, so that no change is missed.
            let notices = interaction.engine().subscribe(view.id, &owner).await.ok()?;
            let (context, id) = (context.clone(), id.to_owned());
            let sent = Status::Working(None, Vec::new());
            let watched = Watched { interaction, context, id, notices, is_closed: false, sent };
            Some(Box::new(watched) as Box<dyn TaskWatch>)
        })
    }
}

/// One task, with the status its client knows.
struct Watched {
    interaction: Interaction,
    context: Context,
    id: String,
    notices: SessionSubscription,
    /// Set when there will be no more notices.
    is_closed: bool,
    sent: Status,
}

impl TaskWatch for Watched {
    fn next(&mut self) -> TaskFuture<'_, DetailedTask> {
        Box::pin(async move {
            loop {
                if self.sent == Status::Ended {
                    return None;
                }
                // A task that is gone, or that its caller may no longer see, has no more changes.
                let found = self.interaction.find_task(&self.context, Some(&self.id)).await;
                let (_, view) = found.ok()?;
                let status = Status::of(&view);
                if status != self.sent {
                    self.sent = status;
                    return self.interaction.task(&self.context, &view).ok();
                }
                if self.is_closed {
                    return None;
                }
                self.is_closed = loop {
                    match self.notices.next().await {
                        Some(Notice::Progress(_) | Notice::Expiring { .. }) => {}
                        notice => break notice.is_none(),
                    }
                };
            }
        })
    }
}

/// Part of a task whose changes are announced. A task is created working.
#[derive(PartialEq)]
enum Status {
    /// With the time until which it sleeps, and the signals that it waits for.
    Working(Option<Timestamp>, Vec<String>),
    Waiting(Vec<QuestionId>),
    Ended,
}

impl Status {
    fn of(view: &View) -> Self {
        match &view.status {
            SessionStatus::Working(_) => Self::Working(view.wakes, view.awaits.clone()),
            SessionStatus::Waiting(_) => {
                Self::Waiting(view.questions().map(OpenQuestion::id).collect())
            }
            SessionStatus::Ended(_) => Self::Ended,
        }
    }
}
