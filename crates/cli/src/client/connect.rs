//! Connecting to the server that a command uses: the options for it, and the client's lifetime.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow::client::authorizer::Authorizer;
use mcp_flow::client::transport::Connector;
use mcp_flow::client::{BadTarget, Client, ClientEvent, Host, HttpOptions, Program, Revision};
use mcp_flow::client::{RevisionPolicy, Signing, Stderr, Trust};
use mcp_flow::skills::DeclareSkills as _;

use crate::client::browser_login::{BrowserLogin, InteractiveAccount};
use crate::client::error::explain;
use crate::client::interrupt::{Interrupts, interrupted};
use crate::client::logins::LoginOptions;
use crate::client::signing::SigningOptions;
use crate::client::target::{Spawn, Target};
use crate::configuration::{ClientConfiguration, OAuthSection};
use crate::exit::{Exit, Failure};
use crate::terminal::output::{Format, sanitize};

/// Options of all commands that connect to a server.
#[derive(Debug, clap::Args)]
pub(crate) struct ConnectOptions {
    /// Bearer token to send to the server
    #[arg(long, value_name = "TOKEN", env = "MCP_FLOW_TOKEN", hide_env_values = true)]
    #[arg(help_heading = "Authentication")]
    token: Option<String>,

    #[command(flatten)]
    logins: LoginOptions,

    #[command(flatten)]
    signing: SigningOptions,

    #[command(flatten)]
    pub(crate) tls: TlsOptions,

    /// Header to send with every request, for example "X-Tenant: blue"; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    #[arg(help_heading = "Connection")]
    headers: Vec<(String, String)>,

    #[command(flatten)]
    protocol: ProtocolOptions,

    /// Timeout for connecting and for each response, in seconds; progress restarts the latter
    #[arg(long, alias = "time-limit", value_name = "SECONDS", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400), help_heading = "Connection")]
    timeout: u64,

    /// Configuration file that names servers: TOML, or the mcpServers JSON of another MCP host
    /// [default: $XDG_CONFIG_HOME/mcp-flow/config.toml, then ./.mcp.json]
    #[arg(long, value_name = "FILE", env = "MCP_FLOW_CONFIG", help_heading = "Connection")]
    config: Option<PathBuf>,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,

    /// Accept results of tools that violate their output schemas; set by commands that call tools.
    #[arg(skip)]
    pub(crate) accept_invalid_output: bool,

    /// Command that starts the server, instead of TARGET
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl ConnectOptions {
    /// Finds the server on the command line; returns the remaining words as well.
    pub(crate) fn find_target<'a>(
        &self,
        words: &'a [String],
    ) -> anyhow::Result<(Target, &'a [String])> {
        let configuration = match self.command.is_empty() {
            true => self.configuration()?,
            false => ClientConfiguration::default(),
        };
        self.find_target_in(&configuration, words)
    }

    /// Finds the server in a configuration that was read before.
    pub(crate) fn find_target_in<'a>(
        &self,
        configuration: &ClientConfiguration,
        words: &'a [String],
    ) -> anyhow::Result<(Target, &'a [String])> {
        Target::find(words, &self.command, configuration)
    }

    /// Reads the configuration of servers.
    pub(crate) fn configuration(&self) -> anyhow::Result<ClientConfiguration> {
        ClientConfiguration::read(self.config.as_deref())
    }

    /// The address or name of the server; none for one that a command starts.
    pub(crate) fn target_name<'a>(&self, words: &'a [String]) -> Option<&'a str> {
        words.first().filter(|_| self.command.is_empty()).map(String::as_str)
    }

    /// Connects, runs the work of a command and disconnects.
    ///
    /// ctrl-c drops the work, which cancels its requests at the server; a second one does not wait
    /// for the server to exit.
    pub(crate) fn with_client(
        &self,
        target: &Target,
        host: impl Host,
        work: impl AsyncFnOnce(&Client) -> anyhow::Result<ExitCode>,
    ) -> anyhow::Result<ExitCode> {
        self.with_client_or(target, host, interrupted, work)
    }

    /// Does what [`with_client`](Self::with_client) does, with an error of the caller's for ctrl-c.
    pub(crate) fn with_client_or(
        &self,
        target: &Target,
        host: impl Host,
        interrupted: impl FnOnce() -> anyhow::Error,
        work: impl AsyncFnOnce(&Client) -> anyhow::Result<ExitCode>,
    ) -> anyhow::Result<ExitCode> {
        let connector = self.connector(target)?;
        let settings = self.settings()?;
        block_on(async {
            let mut interrupts = Interrupts::listen()?;
            let client = interrupts.run(connect(connector, settings, host)).await?;
            let result = interrupts.run_or(work(&client), interrupted).await;
            interrupts.wait_for_close(client.close()).await?;
            result
        })
    }

    /// Uses a revision with a handshake unless another is asked for: in these, a server can send
    /// notifications at any time.
    pub(crate) fn prefer_handshake(&mut self) {
        self.protocol.protocol_version.get_or_insert(Revision::V2025_11_25);
    }

    /// Settings of the connection.
    pub(crate) fn settings(&self) -> anyhow::Result<ConnectionSettings> {
        Ok(ConnectionSettings {
            timeout: Duration::from_secs(self.timeout),
            signing: self.signing.signing()?,
            speak: self.protocol.speak(),
            validate_output: !self.accept_invalid_output,
        })
    }

    /// Revisions to negotiate.
    pub(crate) fn revision(&self) -> RevisionPolicy {
        self.protocol.speak()
    }

    /// Timeout for each response.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// Connector of a server, which opens the user's browser if the server requires a login.
    pub(crate) fn connector_with_login(
        &self,
        target: &Target,
        login: &Arc<BrowserLogin>,
    ) -> anyhow::Result<Arc<dyn Connector>> {
        let Target::Address(address) = target else { return self.connector(target) };
        let trust = self.tls.trust();
        let account = self.logins.account(&address.url, address.oauth.as_deref(), trust.clone())?;
        let (Some(account), Some(file), None) = (account, self.logins.file(), &self.token) else {
            return self.connector(target);
        };
        let url = &address.url;
        let account = InteractiveAccount::new(account, url, file, trust, login.clone());
        let own = address.headers.clone().into_iter();
        let headers = own.chain(self.headers.iter().cloned());
        network_by(url, headers, None, Some(Arc::new(account)), &self.tls)
    }

    /// Connector of a server.
    pub(crate) fn connector(&self, target: &Target) -> anyhow::Result<Arc<dyn Connector>> {
        match target {
            Target::Command(spawn) => Ok(Arc::new(program(spawn))),
            Target::Address(address) => {
                let own = address.headers.clone().into_iter();
                let headers = own.chain(self.headers.iter().cloned());
                let token = self.token.as_deref();
                let oauth = address.oauth.as_deref();
                network(&address.url, headers, token, &self.logins, oauth, &self.tls)
            }
        }
    }
}

/// Trust in the server's certificate.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct TlsOptions {
    /// Trust the server certificate with this SHA-256 fingerprint, as `mcp-flow serve` prints it
    #[arg(long, value_name = "HEX", value_parser = certificate_hash, global = true)]
    #[arg(help_heading = "TLS")]
    certificate_hash: Option<String>,

    /// Trust only the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE", conflicts_with = "certificate_hash", global = true)]
    #[arg(alias = "issuers", help_heading = "TLS")]
    ca_file: Option<PathBuf>,
}

impl TlsOptions {
    pub(crate) fn trust(&self) -> Trust {
        let hash = self.certificate_hash.as_deref().and_then(|hash| Trust::fingerprint(hash).ok());
        hash.or_else(|| self.ca_file.clone().map(Trust::File)).unwrap_or_default()
    }

    /// The options as they are typed, for a command that the person is to run.
    pub(crate) fn command_line(&self) -> String {
        match (&self.certificate_hash, &self.ca_file) {
            (Some(hash), _) => format!(" --certificate-hash {hash}"),
            (None, Some(file)) => format!(" --ca-file {}", file.display()),
            (None, None) => String::new(),
        }
    }
}

/// Choice of the protocol revision.
#[derive(Debug, clap::Args)]
pub(crate) struct ProtocolOptions {
    /// Use only this MCP protocol revision, for example 2025-11-25
    /// [default: the newest that the server supports]
    #[arg(long, value_name = "REVISION", value_parser = revision, global = true)]
    #[arg(help_heading = "Connection")]
    protocol_version: Option<Revision>,
}

impl ProtocolOptions {
    pub(crate) fn speak(&self) -> RevisionPolicy {
        self.protocol_version.map_or(RevisionPolicy::Any, RevisionPolicy::Only)
    }
}

/// Settings of a connection.
pub(crate) struct ConnectionSettings {
    /// Timeout for connecting and for each response.
    pub(crate) timeout: Duration,
    pub(crate) signing: Option<Signing>,
    pub(crate) speak: RevisionPolicy,
    /// Reject results of tools that violate their output schemas.
    pub(crate) validate_output: bool,
}

/// Connects once. A server that is down is reported at once.
pub(crate) async fn connect(
    connector: Arc<dyn Connector>,
    settings: ConnectionSettings,
    host: impl Host,
) -> anyhow::Result<Client> {
    let builder = Client::builder().with_skills().host(host).with(|options| {
        options.client.version = env!("CARGO_PKG_VERSION").to_owned();
        options.connect_timeout = settings.timeout.min(MAX_CONNECT_TIME);
        options.request_timeout = settings.timeout;
        options.signing = settings.signing;
        options.revision = settings.speak;
        options.validate_output = settings.validate_output;
    });
    let client = builder.prepare(connector);
    log_events(&client);
    client.server().await.map_err(explain)?;
    Ok(client)
}

/// Connector for a server at an address.
pub(crate) fn network(
    url: &str,
    headers: impl Iterator<Item = (String, String)>,
    token: Option<&str>,
    logins: &LoginOptions,
    oauth: Option<&OAuthSection>,
    tls: &TlsOptions,
) -> anyhow::Result<Arc<dyn Connector>> {
    let account = logins.account(url, oauth, tls.trust())?;
    let account = account.map(|account| Arc::new(account) as Arc<dyn Authorizer>);
    network_by(url, headers, token, account, tls)
}

fn network_by(
    url: &str,
    headers: impl Iterator<Item = (String, String)>,
    token: Option<&str>,
    account: Option<Arc<dyn Authorizer>>,
    tls: &TlsOptions,
) -> anyhow::Result<Arc<dyn Connector>> {
    let usage = |problem: BadTarget| Failure::new(Exit::Usage, problem.to_string());
    let mut options = HttpOptions::new().trust(tls.trust());
    for (name, value) in headers {
        options = options.header(&name, &value).map_err(usage)?;
    }
    if let Some(token) = token {
        options = options.bearer(token).map_err(usage)?;
    }
    if let Some(account) = account {
        options = options.authorizer(account);
    }
    Ok(mcp_flow::client::connector(url, &options).map_err(usage)?)
}

/// Connector for a server that a command starts.
pub(crate) fn program(spawn: &Spawn) -> Program {
    let mut program = Program::new(&spawn.program).arguments(&spawn.arguments);
    for (name, value) in &spawn.environment {
        program = program.environment(name, value);
    }
    if let Some(folder) = &spawn.folder {
        program = program.folder(folder);
    }
    // Its stderr output is shown if it fails.
    program.stderr(Stderr::Keep)
}

/// Logs what the server logs, and what happens to the connection.
fn log_events(client: &Client) {
    use futures_util::StreamExt as _;
    if !tracing::enabled!(tracing::Level::WARN) {
        return;
    }
    let mut events = client.events();
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            match event {
                ClientEvent::Log { level, logger, data } => {
                    let logger = logger.unwrap_or_default();
                    let data = sanitize(&data.to_string());
                    tracing::info!(?level, logger = %sanitize(&logger), "{data}");
                }
                ClientEvent::Warning(problem) => tracing::warn!("{}", sanitize(&problem)),
                ClientEvent::Disconnected { reason } => tracing::info!("{}", sanitize(&reason)),
                _ => {}
            }
        }
    });
}

/// Runs the work of a command on a runtime of its own.
///
/// Blocking tasks that are still running, such as a read of standard input, are left behind.
pub(crate) fn block_on(
    work: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(work);
    runtime.shutdown_background();
    ended
}

pub(crate) fn revision(name: &str) -> Result<Revision, String> {
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

/// Upper bound of the connect timeout.
const MAX_CONNECT_TIME: Duration = Duration::from_secs(30);
