//! Tasks: calls that outlive their request (`io.modelcontextprotocol/tasks`).
//!
//! A call that continues as a task is followed to its end by [`Request`] itself. The methods here are
//! for tasks whose id is known, such as those of [`Request::detach`].

use mcp_flow_proto::model::DetailedTask;
use mcp_flow_proto::{Raw, method};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::calls::request::{Request, RequestParams};
use crate::client::Client;
use crate::error::Error;

/// Params of `tasks/get`, `tasks/update` and `tasks/cancel`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRequestParams {
    task_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_responses: Option<Map<String, Value>>,
}

impl RequestParams for TaskRequestParams {}

/// Result of a call that was not waited for.
#[derive(Clone, Debug, PartialEq)]
pub enum DetachedCall<R> {
    /// The call ended at once.
    Completed(R),
    /// The call continues as this task. The payload of its status is empty.
    Task(Box<DetailedTask>),
}

impl Client {
    /// Reads the status of a task, once.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let fixture = mcp_flow_testkit_fixture::Fixture::interactive();
    /// # let connector = mcp_flow_stdio::client::in_process(&fixture.server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// use mcp_flow_client::DetachedCall;
    ///
    /// let call = client.call_tool("job", serde_json::json!({})).detach().await?;
    /// let DetachedCall::Task(task) = call else { panic!("the call has ended") };
    /// let task = client.get_task(&task.task_id).await?;
    /// assert_eq!(task.state.name(), "working");
    /// client.cancel_task(&task.task_id).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_task(&self, id: &str) -> Request<TaskRequestParams, DetailedTask> {
        self.task_request(method::TASKS_GET, id, None, |raw: Raw<'_>| Ok(raw.decode()?))
    }

    /// Answers questions of a task, by the keys of its input requests. Answers to questions that are
    /// no longer open have no effect, so this is safe to repeat.
    pub fn update_task(
        &self,
        id: &str,
        responses: Map<String, Value>,
    ) -> Request<TaskRequestParams, ()> {
        self.task_request(method::TASKS_UPDATE, id, Some(responses), |_: Raw<'_>| Ok(()))
    }

    /// Asks the server to cancel a task. The task may still end otherwise.
    pub fn cancel_task(&self, id: &str) -> Request<TaskRequestParams, ()> {
        self.task_request(method::TASKS_CANCEL, id, None, |_: Raw<'_>| Ok(()))
    }

    /// Waits until a task has ended, and returns it. The host answers its questions, and
    /// [`start`](Request::start) gives its status messages as progress.
    ///
    /// Dropping it leaves the task alone.
    pub fn follow_task(&self, id: &str) -> Request<TaskRequestParams, DetailedTask> {
        self.get_task(id).followed()
    }

    fn task_request<R>(
        &self,
        method: &'static str,
        id: &str,
        input_responses: Option<Map<String, Value>>,
        read: fn(Raw<'_>) -> Result<R, Error>,
    ) -> Request<TaskRequestParams, R> {
        let params = TaskRequestParams { task_id: id.to_owned(), input_responses };
        Request::new(self, method.into(), params, read).about(id).repeatable()
    }
}
