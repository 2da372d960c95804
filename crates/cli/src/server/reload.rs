//! Reloads the configuration on SIGHUP without dropping connections.
//!
//! Identity, permissions, limits, signing keys and the log level change together or not at all. Other
//! changes are logged and need a restart, as all do where there is no SIGHUP.

use std::path::PathBuf;
use std::sync::Arc;

use mcp_flow::identity::TokenVerifier;
use mcp_flow::observability::audit::Audit;
use mcp_flow::{Limits, Permissions, Server};
use mcp_flow_gateway::{Gateway, UpstreamSettings};

use crate::arguments::LogOptions;
use crate::configuration::File;
use crate::log;
use crate::platform::ReloadSignal;
use crate::server::user_logins::UserLogins;
use crate::server::{access, gateway};

/// Parts of a running server that can change, and the source of their configuration.
pub(crate) struct Reloader {
    pub(crate) path: Option<PathBuf>,
    /// Configuration at the start.
    pub(crate) file: File,
    /// Logging options of the command line, which take precedence.
    pub(crate) log: LogOptions,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) limits: Box<dyn Fn(&File) -> Limits + Send + Sync>,
    pub(crate) verifier: Option<Arc<TokenVerifier>>,
    pub(crate) permissions: Option<Permissions>,
    pub(crate) audit: Option<Audit>,
    pub(crate) server: Server,
    pub(crate) gateway: Option<Gateway>,
    pub(crate) gateway_file: Option<PathBuf>,
    pub(crate) logins: Arc<UserLogins>,
}

impl Reloader {
    /// Reloads whenever the process gets SIGHUP.
    pub(crate) async fn run(self, mut hangup: ReloadSignal) {
        loop {
            hangup.next().await;
            // Log rotation has moved the file away, even if the configuration is invalid.
            if let Some(audit) = &self.audit {
                audit.reopen();
            }
            let reloaded = match self.reload() {
                Ok(upstreams) => self.replace_upstreams(upstreams).await,
                Err(error) => Err(error),
            };
            match reloaded {
                Ok(()) => tracing::info!("configuration reloaded"),
                Err(error) => {
                    tracing::error!("configuration not reloaded: {error:#}");
                }
            }
        }
    }

    /// Replaces the servers behind this one that have changed.
    async fn replace_upstreams(
        &self,
        (upstreams, search_above): (Vec<UpstreamSettings>, usize),
    ) -> anyhow::Result<()> {
        // Without a file there is nothing to replace.
        if let Some(gateway) = &self.gateway {
            gateway.replace(upstreams).await?;
            gateway.search_above(search_above);
        }
        Ok(())
    }

    /// Applies the configuration, and returns the servers to serve behind this one, and the number of
    /// their tools that are listed.
    fn reload(&self) -> anyhow::Result<(Vec<UpstreamSettings>, usize)> {
        let mut file = File::read_or_default(self.path.as_deref())?;
        file.identity.token_file = self.token_file.clone().or(file.identity.token_file);
        // Everything that can fail comes first, so that nothing is applied in part.
        let upstreams = gateway::settings(self.gateway_file.as_deref(), &file, &self.logins)?;
        let keys = file.signing.keys()?;
        let signing = match (self.server.signing(), &keys) {
            (Some(signing), Some(keys)) => Some((signing, keys)),
            (None, None) => None,
            _ => anyhow::bail!(
                "signing cannot be enabled or disabled while running; restart the server"
            ),
        };
        match (&self.verifier, file.identity.is_configured()) {
            (Some(verifier), true) => verifier.replace(access::identity_settings(&file)?)?,
            (None, false) => {}
            (Some(_), false) => {
                anyhow::bail!("authentication cannot be disabled while running; restart the server")
            }
            (None, true) => {
                anyhow::bail!("authentication cannot be enabled while running; restart the server")
            }
        }
        if let Some((signing, keys)) = signing {
            signing.replace(keys);
        }
        if let Some(permissions) = &self.permissions {
            permissions.replace(&access::permissions(&file));
            self.server.permissions_changed();
        }
        self.server.set_limits((self.limits)(&file));
        log::apply(self.log, &file.log);
        for key in self.file.changes_that_need_a_restart(&file) {
            tracing::warn!("{key} has changed; restart the server to apply it");
        }
        Ok((upstreams, file.gateway.search_above))
    }
}
