//! `mcp-flow ui`: the console for any server, as an inspector.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap_complete::engine::ArgValueCompleter;
use mcp_flow::admin::Admin;
use mcp_flow::{Principal, stdio};
use mcp_flow_cassette::cassette_of_exchanges;
use mcp_flow_gateway::{Gateway, UpstreamStatus};
use serde_json::{Value, json};
use url::Url;

use crate::arguments::{LogLevel, LogOptions};
use crate::client::browser::open_browser;
use crate::client::browser_login::BrowserLogin;
use crate::client::connect::ConnectOptions;
use crate::command::bridge;
use crate::command::completions;
use crate::command::serve::{announce, bind_http, console, http_endpoints};
use crate::configuration::{File, socket_address};
use crate::exit::{Exit, Failure};
use crate::log;

/// Open the console for any server in the browser
///
/// The console lists and calls tools, shows resources, prompts and apps, answers questions, and
/// records the traffic.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mcp-flow ui [OPTIONS] TARGET\n       mcp-flow ui [OPTIONS] -- COMMAND..."
)]
pub(crate) struct Ui {
    /// Server: an address, or a name in the configuration
    #[arg(value_name = "TARGET", add = ArgValueCompleter::new(completions::words))]
    words: Vec<String>,

    /// Address of the console; port 0 selects a free one
    #[arg(long, value_name = "ADDRESS", help_heading = "Network", value_parser = socket_address)]
    #[arg(default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Print all endpoints as one line of JSON when ready
    #[arg(long, help_heading = "Network")]
    json: bool,

    /// Print the address of the console instead of opening a browser
    #[arg(long, help_heading = "Network")]
    no_browser: bool,

    #[command(flatten)]
    connection: ConnectOptions,
}

impl Ui {
    pub(crate) fn run(self, log: LogOptions) -> anyhow::Result<ExitCode> {
        // A server that cannot be reached is reported once, by the error.
        let quiet = LogOptions { level: log.level.or(Some(LogLevel::Error)), ..log };
        log::apply(quiet, &File::default().log);
        self.check_address()?;
        let (target, rest) = self.connection.find_target(&self.words)?;
        super::reject_extra_arguments(rest)?;
        let login = Arc::new(BrowserLogin::default());
        let mut upstream =
            bridge::upstream(&self.connection, &target, (!self.no_browser).then_some(&login))?;
        // A person waits for the page.
        upstream.reconnect.initial_attempts = 1;
        upstream.connect_timeout = self.connection.timeout();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let ended = runtime.block_on(async {
            let (gateway, builder) = Gateway::relay(upstream, |gateway| {
                let gateway = gateway.clone();
                login.on_success(move || gateway.refresh());
            })
            .await?;
            // The page shows the server once the user has logged in.
            if !login.is_pending() {
                gateway.start().await;
            }
            if !login.is_pending() {
                check_reached(&gateway)?;
            }
            log::apply(log, &File::default().log);
            let everyone = |_: &Principal| true;
            let admin = Admin::new(everyone);
            let builder = gateway.administered_by(admin.add_to(builder), everyone);
            admin.cassettes(cassette_of_exchanges);
            let server = builder.build()?;
            gateway.attach(&server);
            let stop = stdio::stop_signal().context("cannot listen for signals")?;
            let bound = bind_http(self.listen).await?.pages(console(None));
            let endpoints = endpoints(bound.address());
            admin.describe(json!({"places": endpoints}));
            announce(&endpoints, self.json)?;
            self.show(&endpoints)?;
            bound.serve(&server, stop).await;
            gateway.close().await;
            Ok(ExitCode::SUCCESS)
        });
        runtime.shutdown_background();
        ended
    }

    /// Rejects a public address: the console can do what its user can, and asks for no token.
    fn check_address(&self) -> anyhow::Result<()> {
        if self.listen.ip().is_loopback() {
            return Ok(());
        }
        let message = format!(
            "{} is public, and this console has no authentication; listen on 127.0.0.1, and use a \
             tunnel from other machines",
            self.listen
        );
        Err(Failure::new(Exit::Usage, message).into())
    }

    fn show(&self, endpoints: &Value) -> anyhow::Result<()> {
        let page = endpoints["http"].as_str().unwrap_or_default();
        if !self.no_browser && !open_browser(&Url::parse(page)?) {
            eprintln!("No browser was found; open {page} in one.");
        }
        Ok(())
    }
}

/// Fails if the server could not be started or reached: there would be nothing to show.
fn check_reached(gateway: &Gateway) -> anyhow::Result<()> {
    for UpstreamStatus { target, last_error, .. } in gateway.status() {
        if let Some(problem) = last_error {
            let is_named = problem.contains(&target);
            let problem = if is_named { problem } else { format!("{target}: {problem}") };
            return Err(Failure::new(Exit::Unreachable, problem).into());
        }
    }
    Ok(())
}

fn endpoints(address: SocketAddr) -> Value {
    let mut endpoints = http_endpoints(address, false);
    endpoints["pid"] = std::process::id().into();
    endpoints
}
