//! `mcp-flow login` and `logout`: OAuth login and logout.

mod terminal;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use mcp_flow::oauth::{Account, ClientIdentity, Grant, LoginSettings, Revocation, UserAgent};
use serde_json::json;

use crate::client::connect::{self, TlsOptions};
use crate::client::interrupt::interrupted;
use crate::client::logins::{LoginOptions, explain};
use crate::client::target::{Address, Target};
use crate::configuration::ClientConfiguration;
use crate::exit::{Exit, Failure};
use crate::terminal::output::{self, Format, sanitize};
use terminal::Terminal;

/// Authenticate with a server using OAuth
///
/// Opens the authorization page in a browser. The tokens are stored in a file that only you can
/// read, used by all commands for this server, and refreshed automatically. If this machine has no
/// browser, open the page elsewhere and paste the URL that it redirects to.
#[derive(Debug, clap::Args)]
pub(crate) struct Login {
    #[command(flatten)]
    server: LoginServer,

    /// Scope to request, instead of those the server names; may be repeated
    #[arg(long = "scope", value_name = "SCOPE", help_heading = "OAuth client")]
    scopes: Vec<String>,

    /// Id of a registered client [default: register one dynamically]
    #[arg(long, value_name = "ID", help_heading = "OAuth client")]
    client_id: Option<String>,

    /// File with the client secret; alternatively, set MCP_FLOW_CLIENT_SECRET
    #[arg(long, value_name = "FILE", requires = "client_id", help_heading = "OAuth client")]
    client_secret_file: Option<PathBuf>,

    /// PEM file with the client's private key (PKCS #8), instead of a secret
    #[arg(long, alias = "client-key", value_name = "FILE", requires = "client_credentials")]
    #[arg(help_heading = "OAuth client")]
    client_key_file: Option<PathBuf>,

    /// Use the client credentials grant, without a user
    #[arg(long, requires = "client_id", help_heading = "OAuth client")]
    client_credentials: bool,

    /// HTTPS URL of a client ID metadata document, as the client id
    #[arg(long, alias = "client-metadata", value_name = "URL", conflicts_with = "client_id")]
    #[arg(help_heading = "OAuth client")]
    client_metadata_url: Option<String>,

    /// Port for the redirect to this machine [default: any free port]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// Print the URL of the authorization page without opening a browser
    #[arg(long)]
    no_browser: bool,

    /// Allow an authorization server on a private network
    #[arg(long, alias = "private-network", help_heading = "Connection")]
    allow_private_network: bool,

    /// Time to wait for the login in the browser, in seconds
    #[arg(long, alias = "time-limit", value_name = "SECONDS", default_value_t = 300)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Log out of a server
///
/// Deletes the stored tokens and asks the authorization server to revoke them.
#[derive(Debug, clap::Args)]
pub(crate) struct Logout {
    #[command(flatten)]
    server: LoginServer,
}

/// Server to log in to or out of.
#[derive(Debug, clap::Args)]
struct LoginServer {
    /// Server: an address, or a name in the configuration
    #[arg(value_name = "TARGET")]
    target: String,

    /// Configuration file that defines named servers
    #[arg(long, value_name = "FILE", env = "MCP_FLOW_CONFIG", help_heading = "Connection")]
    config: Option<PathBuf>,

    #[command(flatten)]
    logins: LoginOptions,

    #[command(flatten)]
    tls: TlsOptions,
}

impl LoginServer {
    fn account(&self, settings: LoginSettings) -> anyhow::Result<Account> {
        let configuration = ClientConfiguration::read(self.config.as_deref())?;
        let words = [self.target.clone()];
        let url = match Target::find(&words, &[], &configuration)? {
            (Target::Address(Address { url, .. }), _) => url,
            (Target::Command(_), _) => {
                let message =
                    "login needs a server at an address; this one is started by a command";
                return Err(Failure::new(Exit::Usage, message).into());
            }
        };
        let tokens = self.logins.tokens().ok_or_else(|| {
            Failure::new(
                Exit::Usage,
                "no home directory to store logins in; pass --login-file FILE",
            )
        })?;
        Account::new(&url, tokens, settings).map_err(explain)
    }
}

impl Login {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        connect::block_on(async {
            let mut settings = LoginSettings::default();
            settings.identity = self.identity()?;
            settings.trust = self.server.tls.trust();
            settings.is_private = self.allow_private_network;
            settings.user_agent = match self.client_credentials {
                true => None,
                false => Some(self.terminal().await? as Arc<dyn UserAgent>),
            };
            let account = self.server.account(settings)?;
            let work = async {
                let mut token_request = account.token_request().await?;
                token_request.scopes = self
                    .scopes
                    .iter()
                    .flat_map(|scopes| scopes.split_whitespace())
                    .map(str::to_owned)
                    .collect();
                account.login(&token_request).await
            };
            let granted = tokio::select! {
                biased;
                _ = tokio::signal::ctrl_c() => return Err(interrupted()),
                granted = work => granted.map_err(explain)?,
            };
            self.print_login(&account, &granted)?;
            Ok(ExitCode::SUCCESS)
        })
    }

    fn identity(&self) -> anyhow::Result<ClientIdentity> {
        let mut identity = ClientIdentity::default();
        identity.client_id.clone_from(&self.client_id);
        identity.client_secret = match &self.client_secret_file {
            Some(file) => Some(read_secret(file)?),
            None => {
                std::env::var("MCP_FLOW_CLIENT_SECRET").ok().filter(|_| self.client_id.is_some())
            }
        };
        identity.client_key = self.client_key_file.as_deref().map(read_secret).transpose()?;
        identity.metadata_url.clone_from(&self.client_metadata_url);
        identity.uses_client_credentials = self.client_credentials;
        Ok(identity)
    }

    async fn terminal(&self) -> anyhow::Result<Arc<Terminal>> {
        let limit = Duration::from_secs(self.timeout);
        let terminal = Terminal::open(self.port, !self.no_browser, limit).await;
        Ok(Arc::new(terminal.context("cannot open a local port for the redirect")?))
    }

    fn print_login(&self, account: &Account, granted: &Grant) -> anyhow::Result<()> {
        let server = account.server();
        let expires = granted.expires.map(timestamp);
        if self.format == Format::Json {
            return output::print_json(&json!({
                "server": server.as_str(), "issuer": granted.issuer, "scopes": granted.scopes,
                "expires": expires, "isRenewed": granted.is_refreshed,
            }));
        }
        let scopes = match granted.scopes.is_empty() {
            true => String::new(),
            false => format!(" for {}", granted.scopes.join(" ")),
        };
        let until = match (expires, granted.is_refreshed) {
            (None, _) => String::new(),
            (Some(_), true) => ", refreshed automatically".to_owned(),
            (Some(time), false) => format!(", until {time}"),
        };
        output::print(&sanitize(&format!("logged in to {server}{scopes}{until}")))
    }
}

impl Logout {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut settings = LoginSettings::default();
        settings.trust = self.server.tls.trust();
        let account = self.server.account(settings)?;
        let server = account.server();
        connect::block_on(async {
            let returned = tokio::select! {
                biased;
                _ = tokio::signal::ctrl_c() => return Err(interrupted()),
                returned = account.logout() => returned.map_err(explain)?,
            };
            let message = match returned {
                Some(Revocation::Failed(why)) => format!(
                    "logged out of {server}; the token was deleted, but stays valid until it expires, \
                     because it could not be revoked: {why}"
                ),
                Some(_) => format!("logged out of {server}; the token was revoked and deleted"),
                None => format!("not logged in to {server}"),
            };
            output::print(&sanitize(&message))?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Reads a secret from a file, without the line end that editors add.
fn read_secret(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file);
    let text = text.with_context(|| format!("cannot read {}", file.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn timestamp(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).format("%Y-%m-%d %H:%M UTC").to_string()
}
