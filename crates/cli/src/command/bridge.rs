//! `mcp-flow bridge`: one server over another transport, without a prefix.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap_complete::engine::ArgValueCompleter;
use mcp_flow::client::Backoff;
use mcp_flow_gateway::{Gateway, UpstreamSettings};

use crate::arguments::LogOptions;
use crate::client::browser_login::BrowserLogin;
use crate::client::connect::ConnectOptions;
use crate::client::target::Target;
use crate::command::completions;
use crate::log;
use crate::server::relay;
use crate::server::serving::ServingOptions;

/// Expose a server over another transport: stdio to HTTP, or HTTP to stdio
///
/// `mcp-flow bridge URL` is a stdio server for hosts that start their servers, with login and token
/// refresh. `mcp-flow bridge --listen ADDRESS -- COMMAND` serves a stdio server over HTTP. All
/// revisions of MCP are translated into each other. If the server restarts, clients stay connected.
#[derive(Debug, clap::Args)]
pub(crate) struct Bridge {
    /// Server: an address, or a name in the configuration
    #[arg(value_name = "TARGET", add = ArgValueCompleter::new(completions::words))]
    words: Vec<String>,

    #[command(flatten)]
    serving: ServingOptions,

    /// Do not open a browser when the server requires a login; run `mcp-flow login` instead
    #[arg(long, help_heading = "Authentication")]
    no_login: bool,

    #[command(flatten)]
    connection: ConnectOptions,
}

impl Bridge {
    pub(crate) fn run(self, log: LogOptions) -> anyhow::Result<ExitCode> {
        log::apply(log, &crate::configuration::File::default().log);
        let (target, rest) = self.connection.find_target(&self.words)?;
        super::reject_extra_arguments(rest)?;
        self.serving.check()?;
        let login = Arc::new(BrowserLogin::default());
        let upstream = upstream(&self.connection, &target, (!self.no_login).then_some(&login))?;
        let runtime = self.serving.runtime()?;
        let after_login = login.clone();
        let ended = runtime.block_on(relay::serve(upstream, &self.serving, move |gateway| {
            let gateway: Gateway = gateway.clone();
            after_login.on_success(move || gateway.refresh());
        }));
        // A pending read of a terminal or file cannot be cancelled; do not wait for it.
        runtime.shutdown_background();
        ended
    }
}

/// Returns the settings of the server that the options name. With a login, one that requires it is
/// logged in to by the user's browser.
pub(crate) fn upstream(
    connection: &ConnectOptions,
    target: &Target,
    login: Option<&Arc<BrowserLogin>>,
) -> anyhow::Result<UpstreamSettings> {
    let connector = match login {
        None => connection.connector(target)?,
        Some(login) => connection.connector_with_login(target, login)?,
    };
    let mut upstream = UpstreamSettings::new("server", connector);
    upstream.revision = connection.revision();
    upstream.call_timeout = connection.timeout().max(CALL_TIME);
    // A server that restarts is waited for: nothing was sent to it yet.
    upstream.reconnect = Backoff {
        initial: Duration::from_millis(250),
        max: Duration::from_secs(2),
        attempts: RECONNECT_ATTEMPTS,
        initial_attempts: RECONNECT_ATTEMPTS,
    };
    // Clients decide how long the server is needed.
    upstream.idle_timeout = FOREVER;
    Ok(upstream)
}

/// Shortest time for a response. Hosts have limits of their own.
const CALL_TIME: Duration = Duration::from_secs(300);

/// Attempts to reach the server, over about ten seconds.
const RECONNECT_ATTEMPTS: u32 = 8;

/// A year.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
