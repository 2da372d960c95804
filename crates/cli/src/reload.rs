//! Taking up a changed configuration on SIGHUP, without dropping a connection.
//!
//! Identity, permissions, limits, keys for signing and the log level change at once, all of them or none. What else
//! has changed is named, and waits for the next start.

use std::path::PathBuf;
use std::sync::Arc;

use mcp_flow::identity::TokenVerifier;
use mcp_flow::observability::audit::Audit;
use mcp_flow::{Limits, Permissions, Server};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::arguments::LogOptions;
use crate::configuration::File;
use crate::{guarded, log};

/// Watches for SIGHUP, which would end the process otherwise. Whoever was told that a server is there
/// may send it at once, so this comes before that.
pub(crate) fn watch() -> std::io::Result<Signal> {
    signal(SignalKind::hangup())
}

/// What can change while a server runs, and where it is read from.
pub(crate) struct Reload {
    pub(crate) path: Option<PathBuf>,
    /// What it said at the start.
    pub(crate) file: File,
    /// The command line's say.
    pub(crate) log: LogOptions,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) limits: Box<dyn Fn(&File) -> Limits + Send + Sync>,
    pub(crate) verifier: Option<Arc<TokenVerifier>>,
    pub(crate) permissions: Option<Permissions>,
    pub(crate) audit: Option<Audit>,
    pub(crate) server: Server,
}

impl Reload {
    /// Reloads whenever the process gets SIGHUP.
    pub(crate) async fn run(self, mut hangup: Signal) {
        while hangup.recv().await.is_some() {
            // Whatever becomes of the rest: it may have been moved away already.
            if let Some(audit) = &self.audit {
                audit.reopen();
            }
            match self.reload() {
                Ok(()) => tracing::info!("the configuration was reloaded"),
                Err(error) => {
                    tracing::error!("the configuration was not reloaded: {error:#}");
                }
            }
        }
    }

    fn reload(&self) -> anyhow::Result<()> {
        let mut file = File::read_or_default(self.path.as_deref())?;
        file.identity.token_file = self.token_file.clone().or(file.identity.token_file);
        // What can fail comes first, so that nothing is done by halves.
        let keys = file.signing.keys()?;
        let signing = match (self.server.signing(), &keys) {
            (Some(signing), Some(keys)) => Some((signing, keys)),
            (None, None) => None,
            _ => anyhow::bail!(
                "signing cannot be switched on or off while running; restart for that"
            ),
        };
        match (&self.verifier, file.identity.is_configured()) {
            (Some(verifier), true) => verifier.replace(guarded::settings(&file)?)?,
            (None, false) => {}
            (Some(_), false) => {
                anyhow::bail!("identity cannot be switched off while running; restart for that")
            }
            (None, true) => {
                anyhow::bail!("identity cannot be switched on while running; restart for that")
            }
        }
        if let Some((signing, keys)) = signing {
            signing.replace(keys);
        }
        if let Some(permissions) = &self.permissions {
            permissions.replace(&guarded::permissions(&file));
            self.server.permissions_changed();
        }
        self.server.set_limits((self.limits)(&file));
        log::follow(self.log, &file.log);
        for key in self.file.fixed_differences(&file) {
            tracing::warn!("{key} has changed, which counts from the next start");
        }
        Ok(())
    }
}
