//! Who has the conversations a command is about: a running server, or a store at rest.

mod remote;
mod resting;

use std::process::ExitCode;
use std::time::Duration;

use mcp_flow::client::Host;
use mcp_flow::workflow::Library;
use serde_json::{Value, json};

use crate::conversation::Talk;
use crate::exit::{Exit, Failure};
use crate::host::Inline;
use crate::interrupt::Interrupts;
use crate::logins::Logins;
use crate::reach::{self, How, Speaking, Trusted};
use crate::show::Format;
use crate::signing::SigningOptions;
use crate::store::{DEFAULT, StoreUrl};
use remote::Remote;
use resting::Resting;

/// The options of the commands about conversations: where they are, and how to tell of them.
#[derive(Debug, clap::Args)]
pub(crate) struct Whereabouts {
    /// For people or for programs
    #[arg(long, value_enum, global = true, default_value_t)]
    pub(crate) format: Format,

    /// The server that has them
    #[arg(long, value_name = "URL", global = true)]
    url: Option<String>,

    /// The bearer token to show to the server
    #[arg(
        long,
        value_name = "TOKEN",
        global = true,
        env = "MCP_FLOW_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,

    #[command(flatten)]
    logins: Logins,

    #[command(flatten)]
    trust: Trusted,

    #[command(flatten)]
    signing: SigningOptions,

    #[command(flatten)]
    speaking: Speaking,

    /// The store that has them, while no server uses it: redb:PATH
    #[arg(long, value_name = "URL", global = true, conflicts_with = "url")]
    store: Option<StoreUrl>,
}

impl Whereabouts {
    /// Does the work of a command, unless ctrl-c ends it first, and takes leave of the place.
    /// `interrupted` says what ctrl-c leaves the work in.
    pub(crate) fn work(
        &self,
        find: impl AsyncFnOnce(&Self) -> anyhow::Result<Place>,
        interrupted: &str,
        work: impl AsyncFnOnce(&Place) -> anyhow::Result<ExitCode>,
    ) -> anyhow::Result<ExitCode> {
        reach::run(async {
            let mut interrupts = Interrupts::listen()?;
            let place = interrupts.or(find(self)).await?;
            let result = interrupts.or_else(work(&place), || left(interrupted)).await;
            interrupts.or_leave(place.leave()).await?;
            result
        })
    }

    /// The server on this machine, if nothing else is said; its questions are answered by `talk`.
    pub(crate) async fn or_server(&self, talk: &Talk) -> anyhow::Result<Place> {
        match &self.store {
            Some(store) => Ok(Place::Resting(Resting::open(store, &Library::bundled())?)),
            None => self.server(talk.clone()).await,
        }
    }

    /// The store in this folder, if nothing else is said. Runs that are begun in a store are of
    /// these workflows, and make it if it is not there.
    pub(crate) async fn or_store(&self, library: &Library, begins: bool) -> anyhow::Result<Place> {
        if self.url.is_some() {
            return self.server(Inline).await;
        }
        let here = StoreUrl::Redb(DEFAULT.into());
        let store = self.store.as_ref().unwrap_or(&here);
        let open = if begins { Resting::make } else { Resting::open };
        Ok(Place::Resting(open(store, library)?))
    }

    async fn server(&self, host: impl Host) -> anyhow::Result<Place> {
        let url = self.url.as_deref().unwrap_or(DEFAULT_URL);
        let how =
            How { limit: LIMIT, signing: self.signing.signing()?, speak: self.speaking.speak() };
        let token = self.token.as_deref();
        let remote = Remote::open(url, token, &self.logins, &self.trust, how, host);
        Ok(Place::Remote(remote.await?))
    }

    /// A command, with the options that lead it to the same place.
    pub(crate) fn again(&self, command: &str) -> String {
        match (&self.url, &self.store) {
            (_, Some(store)) => format!("{command} --store {store}"),
            (Some(url), None) => format!("{command} --url {url}{}", self.trust.again()),
            (None, None) => command.to_owned(),
        }
    }
}

/// Who has the sessions.
pub(crate) enum Place {
    Remote(Remote),
    Resting(Resting),
}

impl Place {
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
            Self::Resting(resting) => resting.call(Some(id), method, params).await,
        }
    }

    /// Calls a tool, about one session if it is named, and gives what it says: data, or a text.
    pub(crate) async fn tool(
        &self,
        id: Option<&str>,
        name: &str,
        arguments: Value,
    ) -> anyhow::Result<Value> {
        let params = json!({"name": name, "arguments": arguments});
        let mut result = match self {
            Self::Remote(remote) => remote.call("tools/call", params).await?,
            Self::Resting(resting) => resting.call(id, "tools/call", params).await?,
        };
        if result["isError"] == true {
            let told = result["content"][0]["text"].as_str().unwrap_or("the tool failed");
            return Err(Failure::new(Exit::Failed, crate::show::neutral(told)).into());
        }
        Ok(match result["structuredContent"].take() {
            Value::Null => result["content"][0]["text"].take(),
            data => data,
        })
    }

    pub(crate) async fn list(&self) -> anyhow::Result<Vec<Value>> {
        match self {
            Self::Remote(remote) => remote.list().await,
            Self::Resting(resting) => resting.list().await,
        }
    }

    /// Answers the questions of a session until it ends.
    pub(crate) async fn take_up(&self, talk: &Talk, id: &str) -> anyhow::Result<Value> {
        match self {
            Self::Remote(remote) => talk.take_up(&remote.client, id).await,
            Self::Resting(resting) => resting.take_up(talk, id).await,
        }
    }

    /// Takes leave of a server.
    async fn leave(&self) {
        if let Self::Remote(remote) = self {
            remote.client.close().await;
        }
    }

    /// Whether nobody else goes on with what is here.
    pub(crate) fn is_at_rest(&self) -> bool {
        matches!(self, Self::Resting(_))
    }
}

/// Error that ctrl-c ends in.
fn left(interrupted: &str) -> anyhow::Error {
    Failure::new(Exit::Interrupted, interrupted).into()
}

/// Time limit for a server to answer.
const LIMIT: Duration = Duration::from_secs(60);

/// Where a server of ours is, if nothing else is said.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:4433/mcp";
