//! The logins this user has, at the servers that want to know who is calling.

use std::path::PathBuf;

use mcp_flow::client::Trust;
use mcp_flow::oauth::{Account, LoginSettings, OAuthError, TokenStore};

use crate::exit::{Exit, Failure};

/// Where logins are kept.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Logins {
    /// The file that `mcp-flow login` keeps its tokens in
    ///
    /// The default is $XDG_DATA_HOME/mcp-flow/logins.json.
    #[arg(long, value_name = "FILE", env = "MCP_FLOW_LOGINS", global = true)]
    logins: Option<PathBuf>,
}

impl Logins {
    /// What is kept, if there is a place for it.
    pub(crate) fn tokens(&self) -> Option<TokenStore> {
        let file = self.logins.clone().or_else(TokenStore::default_file);
        file.map(TokenStore::file)
    }

    /// The account at a server, if it is at an address that one can log in to.
    pub(crate) fn account(&self, url: &str, trust: Trust) -> anyhow::Result<Option<Account>> {
        let is_web = ["http:", "https:", "ws:", "wss:"].iter().any(|scheme| {
            url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
        let Some(tokens) = self.tokens().filter(|_| is_web) else { return Ok(None) };
        let mut settings = LoginSettings::default();
        settings.trust = trust;
        Ok(Some(Account::new(url, tokens, settings).map_err(explain)?))
    }
}

/// An error about logins, with its exit code.
pub(crate) fn explain(error: OAuthError) -> anyhow::Error {
    let exit = match &error {
        OAuthError::InvalidServer(_) | OAuthError::Key(_) => Exit::Usage,
        OAuthError::Failed(_) => Exit::Unreachable,
        OAuthError::File { .. } => Exit::Failed,
        OAuthError::NoAuthorizationServer(_) => Exit::Protocol,
        _ => Exit::Denied,
    };
    Failure::new(exit, error.to_string()).into()
}
