//! Reaching the server a command is about.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow::client::transport::Connector;
use mcp_flow::client::{BadTarget, Client, Event, Host, HttpOptions, Program, Revision};
use mcp_flow::client::{Signing, Speak, Stderr, Trust};

use crate::configuration::Configuration;
use crate::exit::{Exit, Failure};
use crate::fault::explain;
use crate::interrupt::{Interrupts, interrupted};
use crate::logins::Logins;
use crate::show::{Format, neutral};
use crate::signing::SigningOptions;
use crate::target::{Spawn, Target};

/// The options of all commands that speak to a server.
#[derive(Debug, clap::Args)]
pub(crate) struct Reach {
    /// The bearer token to show to the server
    #[arg(long, value_name = "TOKEN", env = "MCP_FLOW_TOKEN", hide_env_values = true)]
    token: Option<String>,

    #[command(flatten)]
    logins: Logins,

    /// A header to send with every request, such as "X-Tenant: blue"; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,

    #[command(flatten)]
    pub(crate) trust: Trusted,

    #[command(flatten)]
    signing: SigningOptions,

    #[command(flatten)]
    speaking: Speaking,

    /// Configuration file that defines named servers: TOML, or the mcpServers JSON of another host
    ///
    /// The default is $XDG_CONFIG_HOME/mcp-flow/config.toml, then .mcp.json in the current folder.
    #[arg(long, value_name = "FILE", env = "MCP_FLOW_CONFIG")]
    config: Option<PathBuf>,

    /// How long to wait for a connection and for an answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    time_limit: u64,

    /// How to write results
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,

    /// Start this server for the command, in place of TARGET
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Reach {
    /// The server that is meant, and the words that are left.
    pub(crate) fn find<'a>(&self, words: &'a [String]) -> anyhow::Result<(Target, &'a [String])> {
        let configuration = match self.command.is_empty() {
            true => self.configuration()?,
            false => Configuration::default(),
        };
        self.find_in(&configuration, words)
    }

    /// The same, with a configuration that is read already.
    pub(crate) fn find_in<'a>(
        &self,
        configuration: &Configuration,
        words: &'a [String],
    ) -> anyhow::Result<(Target, &'a [String])> {
        Target::find(words, &self.command, configuration)
    }

    /// What the files say of servers.
    pub(crate) fn configuration(&self) -> anyhow::Result<Configuration> {
        Configuration::read(self.config.as_deref())
    }

    /// What is typed in place of a command: an address or a name.
    pub(crate) fn name<'a>(&self, words: &'a [String]) -> Option<&'a str> {
        words.first().filter(|_| self.command.is_empty()).map(String::as_str)
    }

    /// Connects to it, does the work of a command, and takes leave of it.
    ///
    /// ctrl-c drops the work, which cancels what is under way at the server; a second one does not
    /// wait until the server has ended.
    pub(crate) fn with_client(
        &self,
        target: &Target,
        host: impl Host,
        work: impl AsyncFnOnce(&Client) -> anyhow::Result<ExitCode>,
    ) -> anyhow::Result<ExitCode> {
        self.with_client_or(target, host, interrupted, work)
    }

    /// The same, for a command that knows better what ctrl-c leaves its work in.
    pub(crate) fn with_client_or(
        &self,
        target: &Target,
        host: impl Host,
        interrupted: impl FnOnce() -> anyhow::Error,
        work: impl AsyncFnOnce(&Client) -> anyhow::Result<ExitCode>,
    ) -> anyhow::Result<ExitCode> {
        let connector = self.connector(target)?;
        let limit = Duration::from_secs(self.time_limit);
        let how = How { limit, signing: self.signing.signing()?, speak: self.speaking.speak() };
        run(async {
            let mut interrupts = Interrupts::listen()?;
            let client = interrupts.or(open(connector, how, host)).await?;
            let result = interrupts.or_else(work(&client), interrupted).await;
            interrupts.or_leave(client.close()).await?;
            result
        })
    }

    fn connector(&self, target: &Target) -> anyhow::Result<Arc<dyn Connector>> {
        match target {
            Target::Command(spawn) => Ok(Arc::new(program(spawn))),
            Target::Address(address) => {
                let own = address.headers.clone().into_iter();
                let headers = own.chain(self.headers.iter().cloned());
                let token = self.token.as_deref();
                network(&address.url, headers, token, &self.logins, &self.trust)
            }
        }
    }
}

/// Which server is believed to be the right one.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Trusted {
    /// Trust the certificate with this SHA-256 fingerprint, as `mcp-flow serve` prints it
    #[arg(long, value_name = "HEX", value_parser = certificate_hash, global = true)]
    certificate_hash: Option<String>,

    /// Trust only the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE", conflicts_with = "certificate_hash", global = true)]
    #[arg(alias = "issuers")]
    ca_file: Option<PathBuf>,
}

impl Trusted {
    pub(crate) fn trust(&self) -> Trust {
        let hash = self.certificate_hash.as_deref().and_then(|hash| Trust::fingerprint(hash).ok());
        hash.or_else(|| self.ca_file.clone().map(Trust::File)).unwrap_or_default()
    }

    /// The same, as it is typed.
    pub(crate) fn again(&self) -> String {
        match (&self.certificate_hash, &self.ca_file) {
            (Some(hash), _) => format!(" --certificate-hash {hash}"),
            (None, Some(file)) => format!(" --ca-file {}", file.display()),
            (None, None) => String::new(),
        }
    }
}

/// Revision that is spoken.
#[derive(Debug, clap::Args)]
pub(crate) struct Speaking {
    /// Speak this revision of the protocol and no other, such as 2025-11-25 with a server whose
    /// tools ask by requests of their own [default: the newest that the server speaks]
    #[arg(long, value_name = "REVISION", value_parser = revision, global = true)]
    protocol_version: Option<Revision>,
}

impl Speaking {
    pub(crate) fn speak(&self) -> Speak {
        self.protocol_version.map_or(Speak::Any, Speak::Only)
    }
}

/// Options by which a connection is opened and used.
pub(crate) struct How {
    /// Time limit for a connection and for an answer.
    pub(crate) limit: Duration,
    pub(crate) signing: Option<Signing>,
    pub(crate) speak: Speak,
}

/// Connects, once: a server that is not there is reported, not waited for.
pub(crate) async fn open(
    connector: Arc<dyn Connector>,
    how: How,
    host: impl Host,
) -> anyhow::Result<Client> {
    let builder = Client::builder().host(host).with(|options| {
        options.client.version = env!("CARGO_PKG_VERSION").to_owned();
        options.connect_limit = how.limit.min(LONGEST_CONNECT);
        options.request_limit = how.limit;
        options.signing = how.signing;
        options.speak = how.speak;
    });
    let client = builder.prepare(connector);
    tell_of_events(&client);
    client.server().await.map_err(explain)?;
    Ok(client)
}

/// A server at an address.
pub(crate) fn network(
    url: &str,
    headers: impl Iterator<Item = (String, String)>,
    token: Option<&str>,
    logins: &Logins,
    trusted: &Trusted,
) -> anyhow::Result<Arc<dyn Connector>> {
    let usage = |problem: BadTarget| Failure::new(Exit::Usage, problem.to_string());
    let mut options = HttpOptions::new().trust(trusted.trust());
    for (name, value) in headers {
        options = options.header(&name, &value).map_err(usage)?;
    }
    if let Some(token) = token {
        options = options.bearer(token).map_err(usage)?;
    }
    if let Some(account) = logins.account(url, trusted.trust())? {
        options = options.authorizer(Arc::new(account));
    }
    Ok(mcp_flow::client::connector(url, &options).map_err(usage)?)
}

fn program(spawn: &Spawn) -> Program {
    let mut program = Program::new(&spawn.program).arguments(&spawn.arguments);
    for (name, value) in &spawn.environment {
        program = program.environment(name, value);
    }
    if let Some(folder) = &spawn.folder {
        program = program.folder(folder);
    }
    // What it says is shown where it matters: when it fails.
    program.stderr(Stderr::Keep)
}

/// Passes on what the server logs, to whoever asked for it by `--log-level`.
fn tell_of_events(client: &Client) {
    use futures_util::StreamExt as _;
    if !tracing::enabled!(tracing::Level::WARN) {
        return;
    }
    let mut events = client.events();
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            match event {
                Event::Log { level, logger, data } => {
                    let logger = logger.unwrap_or_default();
                    tracing::info!(?level, logger = %neutral(&logger), "{}", neutral(&data.to_string()));
                }
                Event::Warning(problem) => tracing::warn!("{}", neutral(&problem)),
                Event::Disconnected { reason } => tracing::info!("{}", neutral(&reason)),
                _ => {}
            }
        }
    });
}

/// Runs the work of a command on a runtime of its own.
///
/// Nobody waits for a question that is still on the screen when the command is over.
pub(crate) fn run(
    work: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(work);
    runtime.shutdown_background();
    ended
}

fn revision(name: &str) -> Result<Revision, String> {
    Revision::from_name(name).ok_or_else(|| {
        let names: Vec<_> = Revision::ALL.iter().map(|revision| revision.name()).collect();
        format!("use one of {}", names.join(", "))
    })
}

fn certificate_hash(text: &str) -> Result<String, String> {
    Trust::fingerprint(text).map(|_| text.to_owned()).map_err(|bad| bad.to_string())
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write a header as NAME: VALUE".to_owned()),
    }
}

/// Longer than this nobody wants to wait for a server that does not answer.
const LONGEST_CONNECT: Duration = Duration::from_secs(30);
