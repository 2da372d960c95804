//! `mcp-flow tasks`: shows, follows, answers and cancels tasks of a server.

mod answer;
mod text;

use std::process::ExitCode;

use clap::Subcommand;
use futures_util::StreamExt as _;
use mcp_flow::client::Client;
use mcp_flow::client::model::{DetailedTask, TaskState};
use serde_json::{Value, json};

use crate::client::approval::{PolicyOptions, guard};
use crate::client::connect::ConnectOptions;
use crate::client::error::explain;
use crate::client::user::TerminalUser;
use crate::exit::{Exit, Failure};
use crate::terminal::ask::UserInput;
use crate::terminal::output::{self, Format, sanitize};
use crate::terminal::progress::ProgressDisplay;

/// Writes the usage of an action: the target is an address, or a command at the end.
macro_rules! usage {
    ($action:literal, $value:literal) => {
        concat!(
            "mcp-flow tasks ",
            $action,
            " [OPTIONS] TARGET ID",
            $value,
            "\n       mcp-flow tasks ",
            $action,
            " [OPTIONS] ID",
            $value,
            " -- COMMAND..."
        )
    };
}

/// Show, follow, answer and cancel tasks: calls that continue after their request
///
/// `mcp-flow call --detach` starts one and prints its id.
#[derive(Debug, clap::Args)]
pub(crate) struct Tasks {
    #[command(subcommand)]
    action: Action,
}

/// Actions on a task.
#[derive(Debug, Subcommand)]
enum Action {
    /// Show the status of a task, with its open questions or its result
    #[command(override_usage = usage!("get", ""))]
    Get(TaskOptions),
    /// Follow a task to its end, and answer its questions in the terminal
    #[command(override_usage = usage!("watch", ""))]
    Watch(TaskOptions),
    /// Answer the question of a task, or several by KEY=VALUE
    #[command(override_usage = usage!("answer", " VALUE"))]
    Answer(TaskOptions),
    /// Cancel a task
    #[command(override_usage = usage!("cancel", ""))]
    Cancel(TaskOptions),
}

/// Server and task.
#[derive(Debug, clap::Args)]
struct TaskOptions {
    /// Server (address or configured name) and id of the task
    #[arg(value_name = "TARGET ID")]
    words: Vec<String>,

    #[command(flatten)]
    policies: PolicyOptions,

    #[command(flatten)]
    connect: ConnectOptions,
}

impl Tasks {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let (Action::Get(options)
        | Action::Watch(options)
        | Action::Answer(options)
        | Action::Cancel(options)) = &self.action;
        let configuration = options.connect.configuration()?;
        let (target, rest) = options.connect.find_target_in(&configuration, &options.words)?;
        let Some((id, values)) = rest.split_first() else {
            let message = "no task given; `mcp-flow call --detach` prints the id of one";
            return Err(Failure::new(Exit::Usage, message).into());
        };
        match &self.action {
            Action::Answer(_) if values.is_empty() => {
                let message = "no answer given; pass VALUE, or KEY=VALUE if several questions are \
                               open. `mcp-flow tasks get` shows them";
                return Err(Failure::new(Exit::Usage, message).into());
            }
            Action::Answer(_) => {}
            _ => super::reject_extra_arguments(values)?,
        }
        let progress = match options.connect.format {
            Format::Json => ProgressDisplay::silent(),
            _ => ProgressDisplay::new(),
        };
        let user = TerminalUser::new(UserInput::without_defaults(), progress).leave_open();
        let approvals = configuration.approvals(options.connect.target_name(&options.words));
        let host = guard(user.clone(), &options.policies.or(&approvals), &configuration.models)?;
        let task = Task { id, user: &user, format: options.connect.format };
        let interrupted = || match &self.action {
            Action::Get(_) => Failure::new(Exit::Interrupted, "interrupted").into(),
            Action::Watch(_) => task.left(Exit::Interrupted, "interrupted; the task goes on"),
            _ => task.left(Exit::Interrupted, "interrupted; the request may have arrived"),
        };
        options.connect.with_client_or(&target, host, interrupted, async |client| {
            match &self.action {
                Action::Get(_) => task.get(client).await,
                Action::Watch(_) => task.watch(client).await,
                Action::Answer(_) => task.answer(client, values).await,
                Action::Cancel(_) => task.cancel(client).await,
            }
        })
    }
}

/// The task that a command is about.
struct Task<'a> {
    id: &'a str,
    user: &'a TerminalUser,
    format: Format,
}

impl Task<'_> {
    async fn get(&self, client: &Client) -> anyhow::Result<ExitCode> {
        let task = self.read(client).await?;
        self.print(&task)?;
        Ok(ExitCode::SUCCESS)
    }

    async fn watch(&self, client: &Client) -> anyhow::Result<ExitCode> {
        let mut running = client.follow_task(self.id).start();
        let followed = async {
            while let Some(progress) = running.next().await {
                self.user.progress.report(&progress);
            }
            running.await.map_err(explain_task)
        };
        let ended = tokio::select! {
            biased;
            () = self.user.interrupted.notified() => {
                return Err(self.left(Exit::Interrupted, "interrupted; the task goes on"));
            }
            () = self.user.unanswered.notified() => {
                return Err(self.left(Exit::Usage, "no answer to the question of the task"));
            }
            ended = followed => ended,
        };
        self.user.progress.clear();
        let task = ended?;
        self.print(&task)?;
        let is_success = match &task.state {
            TaskState::Completed { result } => result.get("isError") != Some(&Value::Bool(true)),
            _ => false,
        };
        Ok(if is_success { ExitCode::SUCCESS } else { Exit::Failed.into() })
    }

    async fn answer(&self, client: &Client, values: &[String]) -> anyhow::Result<ExitCode> {
        let task = self.read(client).await?;
        let TaskState::InputRequired { input_requests } = &task.state else {
            let message = format!("the task is {}, and asks nothing", task.state.name());
            return Err(Failure::new(Exit::Failed, message).into());
        };
        let responses = answer::responses(input_requests, values)?;
        let answered: Vec<String> = responses.keys().cloned().collect();
        client.update_task(self.id, responses).await.map_err(explain_task)?;
        let task = self.read(client).await?;
        self.print(&task)?;
        match answer::rejected(&task, &answered) {
            Some(key) => {
                let message = format!("the answer to {} was not accepted", sanitize(key));
                Err(Failure::new(Exit::Failed, message).into())
            }
            None => Ok(ExitCode::SUCCESS),
        }
    }

    async fn cancel(&self, client: &Client) -> anyhow::Result<ExitCode> {
        client.cancel_task(self.id).await.map_err(explain_task)?;
        self.get(client).await
    }

    async fn read(&self, client: &Client) -> anyhow::Result<DetailedTask> {
        client.get_task(self.id).await.map_err(explain_task)
    }

    fn print(&self, task: &DetailedTask) -> anyhow::Result<()> {
        match self.format {
            Format::Json => output::print_json(&json!(task)),
            _ => output::print(&text::of(task)),
        }
    }

    /// Error for a task that is left before its end.
    fn left(&self, exit: Exit, reason: &str) -> anyhow::Error {
        let id = sanitize(self.id);
        let next = format!("Follow it with\n  mcp-flow tasks watch TARGET {id}");
        let answer = format!("or answer it with\n  mcp-flow tasks answer TARGET {id} VALUE");
        Failure::new(exit, format!("{reason}. {next}\n{answer}")).into()
    }
}

/// Converts an error of the client: a task that is unknown or has expired is no protocol violation.
fn explain_task(error: mcp_flow::client::Error) -> anyhow::Error {
    match error.server().map(|error| error.code) {
        Some(INVALID_PARAMS) => {
            let message = "the server has no such task, or it has expired";
            Failure::new(Exit::Failed, message).into()
        }
        _ => explain(error),
    }
}

/// JSON-RPC error code of an unknown task.
const INVALID_PARAMS: i64 = -32602;
