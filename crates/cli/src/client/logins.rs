//! OAuth logins of this user, kept in a file.

use std::path::PathBuf;

use mcp_flow::client::Trust;
use mcp_flow::oauth::{Account, LoginSettings, OAuthError, TokenStore};

use crate::configuration::OAuthSection;
use crate::exit::{Exit, Failure};

/// Location of the login file.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct LoginOptions {
    /// File in which `mcp-flow login` stores OAuth tokens
    /// [default: $XDG_DATA_HOME/mcp-flow/logins.json]
    #[arg(long, value_name = "FILE", env = "MCP_FLOW_LOGINS", global = true, alias = "logins")]
    #[arg(help_heading = "Authentication")]
    login_file: Option<PathBuf>,
}

impl LoginOptions {
    /// The options of the environment, for commands that do not take them.
    pub(crate) fn from_environment() -> Self {
        Self { login_file: std::env::var_os("MCP_FLOW_LOGINS").map(PathBuf::from) }
    }

    /// The stored tokens; none if neither the option nor a home directory says where they are.
    pub(crate) fn tokens(&self) -> Option<TokenStore> {
        self.file().map(TokenStore::file)
    }

    /// The file with the tokens.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.login_file.clone().or_else(TokenStore::default_file)
    }

    /// The account at a server; none if its transport does not carry HTTP authentication.
    pub(crate) fn account(
        &self,
        url: &str,
        oauth: Option<&OAuthSection>,
        trust: Trust,
    ) -> anyhow::Result<Option<Account>> {
        let is_web = ["http:", "https:", "ws:", "wss:"].iter().any(|scheme| {
            url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
        let Some(tokens) = self.tokens().filter(|_| is_web) else { return Ok(None) };
        let mut settings = LoginSettings::default();
        settings.trust = trust;
        if let Some(oauth) = oauth {
            oauth.apply(&mut settings)?;
        }
        Ok(Some(Account::new(url, tokens, settings).map_err(explain)?))
    }
}

/// Converts an OAuth error, with its exit code.
pub(crate) fn explain(error: OAuthError) -> anyhow::Error {
    let exit = match &error {
        OAuthError::InvalidServer(_) | OAuthError::Key(_) | OAuthError::Assertion(_) => Exit::Usage,
        OAuthError::Failed(_) => Exit::Unreachable,
        OAuthError::File { .. } => Exit::Failed,
        OAuthError::NoAuthorizationServer(_) => Exit::Protocol,
        _ => Exit::Denied,
    };
    Failure::new(exit, error.to_string()).into()
}
