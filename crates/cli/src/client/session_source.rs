//! The source of the sessions a command works on: a running server, or an offline store.

mod offline;
mod remote;

use std::process::ExitCode;
use std::time::Duration;

use mcp_flow::client::Host;
use mcp_flow::workflow::Library;
use serde_json::{Map, Value, json};

use crate::client::connect::{self, ConnectionSettings, ProtocolOptions, TlsOptions};
use crate::client::interrupt::{CLOSE, Interrupts};
use crate::client::logins::LoginOptions;
use crate::client::prompter::Prompter;
use crate::client::signing::SigningOptions;
use crate::client::user::InlineHost;
use crate::exit::{Exit, Failure};
use crate::server::store::StoreUrl;
use crate::terminal::output::{Format, sanitize};
use offline::OfflineSessions;
use remote::RemoteSessions;

/// Options of the commands about sessions.
#[derive(Debug, clap::Args)]
pub(crate) struct SessionSourceOptions {
    /// Output format
    #[arg(long, value_enum, global = true, default_value_t)]
    pub(crate) format: Format,

    /// Address of the running server
    #[arg(long, value_name = "URL", global = true, help_heading = "Source")]
    url: Option<String>,

    /// Session store, also while servers use it: sqlite:PATH or postgres://USER@HOST/DB; redb:PATH only
    /// while no server uses it
    #[arg(long, value_name = "URL", global = true, conflicts_with = "url")]
    #[arg(help_heading = "Source")]
    store: Option<StoreUrl>,

    /// Bearer token to send to the server
    #[arg(
        long,
        value_name = "TOKEN",
        global = true,
        env = connect::TOKEN,
        hide_env_values = true
    )]
    #[arg(help_heading = "Authentication")]
    token: Option<String>,

    #[command(flatten)]
    logins: LoginOptions,

    #[command(flatten)]
    signing: SigningOptions,

    #[command(flatten)]
    tls: TlsOptions,

    #[command(flatten)]
    protocol: ProtocolOptions,
}

impl SessionSourceOptions {
    /// Opens the source, runs the work of a command unless ctrl-c ends it, and closes the source.
    /// `interrupted` is the message for ctrl-c.
    pub(crate) fn run(
        &self,
        open: impl AsyncFnOnce(&Self) -> anyhow::Result<SessionSource>,
        interrupted: &str,
        work: impl AsyncFnOnce(&SessionSource) -> anyhow::Result<ExitCode>,
    ) -> anyhow::Result<ExitCode> {
        connect::block_on(async {
            let mut interrupts = Interrupts::listen()?;
            let source = interrupts.run(open(self)).await?;
            let interrupted = || Failure::new(Exit::Interrupted, interrupted).into();
            let result = interrupts.run_or(work(&source), interrupted).await;
            interrupts.wait_for_close(source.close(), CLOSE).await?;
            result
        })
    }

    /// Opens the source that the options name, by default the server on this machine. `prompter`
    /// answers the questions of a server.
    pub(crate) async fn open_or_server(
        &self,
        prompter: &Prompter,
    ) -> anyhow::Result<SessionSource> {
        match &self.store {
            Some(store) => {
                let offline = OfflineSessions::open(store, &Library::bundled())?;
                Ok(SessionSource::Offline(offline))
            }
            None => self.server(prompter.clone()).await,
        }
    }

    /// Opens the source that the options name, by default the store in the current directory. The
    /// store is created if the command `starts` a run, which is of one of these workflows.
    pub(crate) async fn open_or_store(
        &self,
        library: &Library,
        starts: bool,
    ) -> anyhow::Result<SessionSource> {
        if self.url.is_some() {
            return self.server(InlineHost).await;
        }
        let default = StoreUrl::default();
        let store = self.store.as_ref().unwrap_or(&default);
        let open = if starts { OfflineSessions::create } else { OfflineSessions::open };
        Ok(SessionSource::Offline(open(store, library)?))
    }

    async fn server(&self, host: impl Host) -> anyhow::Result<SessionSource> {
        let url = self.url.as_deref().unwrap_or(DEFAULT_URL);
        let settings = ConnectionSettings {
            timeout: TIMEOUT,
            signing: self.signing.signing()?,
            speak: self.protocol.speak(),
            validate_output: true,
        };
        let token = self.token.as_deref();
        let remote = RemoteSessions::open(url, token, &self.logins, &self.tls, settings, host);
        Ok(SessionSource::Remote(remote.await?))
    }

    /// The address of the server that the options name.
    pub(crate) fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// The store that the options name.
    pub(crate) fn store(&self) -> Option<&StoreUrl> {
        self.store.as_ref()
    }

    /// Adds the options that lead to the same source to a command that the person is to run.
    pub(crate) fn command_line(&self, command: &str) -> String {
        match (&self.url, &self.store) {
            (_, Some(store)) => format!("{command} --store {store}"),
            (Some(url), None) => {
                let options =
                    connect::command_line(&self.tls, &self.signing, self.token.as_deref());
                format!("{command} --url {url}{options}")
            }
            (None, None) => command.to_owned(),
        }
    }
}

/// Source of sessions.
pub(crate) enum SessionSource {
    Remote(RemoteSessions),
    Offline(OfflineSessions),
}

impl SessionSource {
    /// Calls a method about one session.
    pub(crate) async fn call(
        &self,
        id: &str,
        method: &'static str,
        mut params: Value,
    ) -> anyhow::Result<Value> {
        params["sessionId"] = id.into();
        match self {
            Self::Remote(remote) => remote.call(method, params).await,
            Self::Offline(offline) => offline.call(Some(id), method, params).await,
        }
    }

    /// Calls a method that is about no session.
    pub(crate) async fn request(
        &self,
        method: &'static str,
        params: Value,
    ) -> anyhow::Result<Value> {
        match self {
            Self::Remote(remote) => remote.call(method, params).await,
            Self::Offline(offline) => offline.call(None, method, params).await,
        }
    }

    /// Calls a tool, about one session if one is named. Returns its data, or else its text.
    pub(crate) async fn call_tool(
        &self,
        id: Option<&str>,
        name: &str,
        arguments: Value,
    ) -> anyhow::Result<Value> {
        let params = json!({"name": name, "arguments": arguments});
        let mut result = match self {
            Self::Remote(remote) => remote.call("tools/call", params).await?,
            Self::Offline(offline) => offline.call(id, "tools/call", params).await?,
        };
        if result["isError"] == true {
            let message = result["content"][0]["text"].as_str().unwrap_or("the tool failed");
            return Err(Failure::new(Exit::Failed, sanitize(message)).into());
        }
        Ok(match result["structuredContent"].take() {
            Value::Null => result["content"][0]["text"].take(),
            data => data,
        })
    }

    /// Lists the sessions that a search finds, as an admin if it needs one.
    pub(crate) async fn list(
        &self,
        search: Map<String, Value>,
        needs_admin: bool,
    ) -> anyhow::Result<Vec<Value>> {
        match self {
            Self::Remote(remote) => remote.list(search, needs_admin).await,
            Self::Offline(offline) => offline.list(search).await,
        }
    }

    /// Adds a session from its exported history.
    pub(crate) async fn import(&self, history: Value, new_id: bool) -> anyhow::Result<Value> {
        match self {
            Self::Remote(remote) => {
                let params = json!({"history": history, "newId": new_id});
                remote.call("admin/import", params).await
            }
            Self::Offline(offline) => offline.import(&history, new_id).await,
        }
    }

    /// Answers the questions of a session until it ends.
    pub(crate) async fn resume(&self, prompter: &Prompter, id: &str) -> anyhow::Result<Value> {
        match self {
            Self::Remote(remote) => prompter.resume(&remote.client, id).await,
            Self::Offline(offline) => offline.resume(prompter, id).await,
        }
    }

    async fn close(&self) {
        if let Self::Remote(remote) = self {
            remote.client.close().await;
        }
    }

    /// Returns whether sessions advance only while this command runs.
    pub(crate) fn is_offline(&self) -> bool {
        matches!(self, Self::Offline(_))
    }

    /// Returns whether a session of an offline store waits with a call that is left to its server.
    pub(crate) fn is_left_to_server(&self, id: &str) -> bool {
        match self {
            Self::Remote(_) => false,
            Self::Offline(offline) => offline.is_left_to_server(id),
        }
    }
}

/// Timeout for each response of a server.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Default address of `mcp-flow serve`.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:4433/mcp";
