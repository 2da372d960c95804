//! `mcp-flow login` and `logout`: who one is, at servers that want to know.

mod terminal;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use mcp_flow::oauth::{Account, ClientIdentity, Grant, LoginSettings, Revocation, UserAgent};
use serde_json::json;

use crate::configuration::Configuration;
use crate::exit::{Exit, Failure};
use crate::interrupt::interrupted;
use crate::logins::{Logins, explain};
use crate::reach::{self, Trusted};
use crate::show::{self, Format, neutral};
use crate::target::{Address, Target};
use terminal::Terminal;

/// Log in to a server that wants to know who is calling
///
/// A page is opened on which you consent. What you are given is kept in a file that only you can
/// read, used by all commands for this very server, and renewed by itself as long as that is
/// possible. Without a browser on this machine, open the page elsewhere and paste the address you
/// are sent back to.
#[derive(Debug, clap::Args)]
pub(crate) struct Login {
    #[command(flatten)]
    server: Named,

    /// What to ask for, in place of what the server says; may be repeated
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,

    /// The id of a client that was registered by hand; otherwise one is registered on the spot
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,

    /// The file with its secret, which may be in MCP_FLOW_CLIENT_SECRET instead
    #[arg(long, value_name = "FILE", requires = "client_id")]
    client_secret_file: Option<PathBuf>,

    /// The file with its private key (PKCS #8 in PEM), in place of a secret
    #[arg(long, value_name = "FILE", requires = "client_credentials")]
    client_key: Option<PathBuf>,

    /// Ask for a token in the client's own name, without a person
    #[arg(long, requires = "client_id")]
    client_credentials: bool,

    /// The https address of a document about this client, for servers that look there
    #[arg(long, value_name = "URL", conflicts_with = "client_id")]
    client_metadata: Option<String>,

    /// Port for the redirect to this machine [default: any free port]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// Only show the page's address
    #[arg(long)]
    no_browser: bool,

    /// Allow an authorization server on a private network
    #[arg(long)]
    private_network: bool,

    /// How long to wait for you, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    time_limit: u64,

    /// How to write the outcome
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Log out of a server
///
/// The login is forgotten here, and whoever gave out its token is asked to take it back.
#[derive(Debug, clap::Args)]
pub(crate) struct Logout {
    #[command(flatten)]
    server: Named,
}

/// The server a login is about.
#[derive(Debug, clap::Args)]
struct Named {
    /// The server: an address, or its name in the configuration
    #[arg(value_name = "TARGET")]
    target: String,

    /// Configuration file that defines named servers
    #[arg(long, value_name = "FILE", env = "MCP_FLOW_CONFIG")]
    config: Option<PathBuf>,

    #[command(flatten)]
    logins: Logins,

    #[command(flatten)]
    trust: Trusted,
}

impl Named {
    fn account(&self, settings: LoginSettings) -> anyhow::Result<Account> {
        let configuration = Configuration::read(self.config.as_deref())?;
        let words = [self.target.clone()];
        let url = match Target::find(&words, &[], &configuration)? {
            (Target::Address(Address { url, .. }), _) => url,
            (Target::Command(_), _) => {
                let message = "one logs in to a server at an address; this one is started here";
                return Err(Failure::new(Exit::Usage, message).into());
            }
        };
        let tokens = self.logins.tokens().ok_or_else(|| {
            Failure::new(
                Exit::Usage,
                "there is no home to keep a login in; give a file by --logins",
            )
        })?;
        Account::new(&url, tokens, settings).map_err(explain)
    }
}

impl Login {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        reach::run(async {
            let mut settings = LoginSettings::default();
            settings.identity = self.identity()?;
            settings.trust = self.server.trust.trust();
            settings.is_private = self.private_network;
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
            self.tell(&account, &granted)?;
            Ok(ExitCode::SUCCESS)
        })
    }

    fn identity(&self) -> anyhow::Result<ClientIdentity> {
        let mut identity = ClientIdentity::default();
        identity.client_id.clone_from(&self.client_id);
        identity.client_secret = match &self.client_secret_file {
            Some(file) => Some(secret(file)?),
            None => {
                std::env::var("MCP_FLOW_CLIENT_SECRET").ok().filter(|_| self.client_id.is_some())
            }
        };
        identity.client_key = self.client_key.as_deref().map(secret).transpose()?;
        identity.metadata_url.clone_from(&self.client_metadata);
        identity.uses_client_credentials = self.client_credentials;
        Ok(identity)
    }

    async fn terminal(&self) -> anyhow::Result<Arc<Terminal>> {
        let limit = Duration::from_secs(self.time_limit);
        let terminal = Terminal::open(self.port, !self.no_browser, limit).await;
        Ok(Arc::new(terminal.context("no port of this machine can be opened to be sent back to")?))
    }

    fn tell(&self, account: &Account, granted: &Grant) -> anyhow::Result<()> {
        let server = account.server();
        let expires = granted.expires.map(timestamp);
        if self.format == Format::Json {
            return show::print_json(&json!({
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
            (Some(_), true) => ", renewed by itself".to_owned(),
            (Some(time), false) => format!(", until {time}"),
        };
        show::print(&neutral(&format!("logged in to {server}{scopes}{until}")))
    }
}

impl Logout {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut settings = LoginSettings::default();
        settings.trust = self.server.trust.trust();
        let account = self.server.account(settings)?;
        let server = account.server();
        reach::run(async {
            let returned = tokio::select! {
                biased;
                _ = tokio::signal::ctrl_c() => return Err(interrupted()),
                returned = account.logout() => returned.map_err(explain)?,
            };
            let told = match returned {
                Some(Revocation::Failed(why)) => format!(
                    "logged out of {server}; its token is forgotten here, but good until its time \
                     is over, since whoever made it did not take it back: {why}"
                ),
                Some(_) => format!("logged out of {server}; its token is taken back and forgotten"),
                None => format!("there was no login at {server}"),
            };
            show::print(&neutral(&told))?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// What a file holds, without the line end that editors put behind it.
fn secret(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file);
    let text = text.with_context(|| format!("{} cannot be read", file.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn timestamp(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).format("%Y-%m-%d %H:%M UTC").to_string()
}
