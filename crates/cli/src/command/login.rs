//! `mcp-flow login` and `logout`: OAuth login and logout.

pub(crate) mod terminal;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use mcp_flow::oauth::{Account, Grant, LoginSettings, Revocation, UserAgent};
use serde_json::json;

use crate::client::connect::{self, TlsOptions};
use crate::client::interrupt::interrupted;
use crate::client::logins::{LoginOptions, explain};
use crate::client::target::{Address, Target};
use crate::configuration::{ClientConfiguration, DpopStyle, OAuthSection};
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
    #[arg(long, alias = "client-key", value_name = "FILE", requires = "client_id")]
    #[arg(help_heading = "OAuth client")]
    client_key_file: Option<PathBuf>,

    /// Use the client credentials grant, without a user
    #[arg(long, requires = "client_id", help_heading = "OAuth client")]
    client_credentials: bool,

    /// HTTPS URL of a client ID metadata document, as the client id
    #[arg(long, alias = "client-metadata", value_name = "URL", conflicts_with = "client_id")]
    #[arg(help_heading = "OAuth client")]
    client_metadata_url: Option<String>,

    /// Authorization server to trust with the credentials; they are sent to no other
    #[arg(long, value_name = "URL", help_heading = "OAuth client")]
    authorization_server: Option<String>,

    /// Bind tokens to a key of this client (DPoP) [default: auto, if the server supports it]
    #[arg(long, value_enum, value_name = "WHEN", help_heading = "OAuth client")]
    dpop: Option<DpopStyle>,

    /// File with the JWT of this workload, issued by its platform; replaces the user
    #[arg(long, value_name = "FILE", conflicts_with_all = ["client_credentials", "idp"])]
    #[arg(help_heading = "Workload identity")]
    workload_token_file: Option<PathBuf>,

    /// Issuer URL of the enterprise's identity provider, which grants access in place of the user
    ///
    /// You log in there in the browser, unless you pass an ID token.
    #[arg(long, value_name = "URL", conflicts_with = "client_credentials")]
    #[arg(help_heading = "Enterprise-managed authorization")]
    idp: Option<String>,

    /// Token endpoint of the identity provider [default: from its metadata]
    #[arg(long, value_name = "URL", requires = "idp")]
    #[arg(help_heading = "Enterprise-managed authorization")]
    idp_token_endpoint: Option<String>,

    /// Id of this client at the identity provider
    #[arg(long, value_name = "ID", requires = "idp")]
    #[arg(help_heading = "Enterprise-managed authorization")]
    idp_client_id: Option<String>,

    /// File with the secret of this client at the identity provider
    #[arg(long, value_name = "FILE", requires = "idp_client_id")]
    #[arg(help_heading = "Enterprise-managed authorization")]
    idp_client_secret_file: Option<PathBuf>,

    /// File with your ID token of the identity provider; alternatively, set MCP_FLOW_ID_TOKEN
    #[arg(long, value_name = "FILE", requires = "idp")]
    #[arg(help_heading = "Enterprise-managed authorization")]
    id_token_file: Option<PathBuf>,

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
    /// Finds the server.
    fn address(&self) -> anyhow::Result<Address> {
        let configuration = ClientConfiguration::read(self.config.as_deref())?;
        let words = [self.target.clone()];
        match Target::find(&words, &[], &configuration)? {
            (Target::Address(address), _) => Ok(address),
            (Target::Command(_), _) => {
                let message =
                    "login needs a server at an address; this one is started by a command";
                Err(Failure::new(Exit::Usage, message).into())
            }
        }
    }

    fn account(&self, address: &Address, settings: LoginSettings) -> anyhow::Result<Account> {
        let tokens = self.logins.tokens().ok_or_else(|| {
            Failure::new(
                Exit::Usage,
                "no home directory to store logins in; pass --login-file FILE",
            )
        })?;
        Account::new(&address.url, tokens, settings).map_err(explain)
    }
}

impl Login {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        connect::block_on(async {
            let mut settings = LoginSettings::default();
            let address = self.server.address()?;
            let oauth = self.options(address.oauth.as_deref().cloned().unwrap_or_default());
            oauth.apply(&mut settings)?;
            settings.trust = self.server.tls.trust();
            settings.is_private = self.allow_private_network;
            settings.user_agent = match settings.identity.is_unattended() {
                true => None,
                false => Some(self.terminal().await? as Arc<dyn UserAgent>),
            };
            let account = self.server.account(&address, settings)?;
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

    /// The settings of the configuration, overridden by the options.
    fn options(&self, mut oauth: OAuthSection) -> OAuthSection {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if self.client_id.is_some() {
            // The credentials of the other client are not this one's.
            oauth.client_id.clone_from(&self.client_id);
            oauth.client_secret_env = is_set(CLIENT_SECRET).then(|| CLIENT_SECRET.to_owned());
            (oauth.client_secret_file, oauth.client_key_file) = (None, None);
        }
        if self.idp.is_some() {
            oauth.idp.clone_from(&self.idp);
            oauth.id_token_env = is_set(ID_TOKEN).then(|| ID_TOKEN.to_owned());
            oauth.id_token_file = None;
        }
        fn replace<T: Clone>(to: &mut Option<T>, by: &Option<T>) {
            if by.is_some() {
                to.clone_from(by);
            }
        }
        replace(&mut oauth.client_secret_file, &self.client_secret_file);
        replace(&mut oauth.client_key_file, &self.client_key_file);
        replace(&mut oauth.client_metadata_url, &self.client_metadata_url);
        replace(&mut oauth.authorization_server, &self.authorization_server);
        replace(&mut oauth.workload_token_file, &self.workload_token_file);
        replace(&mut oauth.idp_token_endpoint, &self.idp_token_endpoint);
        replace(&mut oauth.idp_client_id, &self.idp_client_id);
        replace(&mut oauth.idp_client_secret_file, &self.idp_client_secret_file);
        replace(&mut oauth.id_token_file, &self.id_token_file);
        replace(&mut oauth.dpop, &self.dpop);
        oauth.client_credentials |= self.client_credentials;
        oauth
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
        let account = self.server.account(&self.server.address()?, settings)?;
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

fn timestamp(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).format("%Y-%m-%d %H:%M UTC").to_string()
}

/// Environment variable with the client secret.
const CLIENT_SECRET: &str = "MCP_FLOW_CLIENT_SECRET";

/// Environment variable with the user's ID token.
const ID_TOKEN: &str = "MCP_FLOW_ID_TOKEN";
