//! A relay: one upstream whose names stay as they are, and that clients see as the server itself.

use std::time::Duration;

use mcp_flow_server::{Server, ServerBuilder};

use crate::gateway::{Gateway, InvalidUpstreams};
use crate::settings::UpstreamSettings;

impl Gateway {
    /// Creates a gateway for one upstream, without a prefix and without pins: the upstream's own
    /// clients decide about changes. `begin` gets it before anything is started.
    ///
    /// Returns it with a server to be built, which introduces itself as the upstream does. One that
    /// takes more than ten seconds for its introduction, or two after an attempt to reach it has failed,
    /// is served as soon as it is there.
    pub async fn relay(
        mut upstream: UpstreamSettings,
        begin: impl FnOnce(&Self),
    ) -> Result<(Self, ServerBuilder), InvalidUpstreams> {
        upstream.is_prefixed = false;
        upstream.pins = false;
        let gateway = Self::new(vec![upstream])?;
        begin(&gateway);
        let failed = async {
            gateway.first_failure().await;
            tokio::time::sleep(RETRY_TIME).await;
        };
        let introduced = tokio::select! {
            server = gateway.first_server() => server,
            () = failed => None,
            () = tokio::time::sleep(INTRODUCTION_TIME) => None,
        };
        let mut builder = Server::builder("mcp-flow", env!("CARGO_PKG_VERSION"));
        if let Some(known) = introduced {
            let about = &known.implementation;
            builder = Server::builder(about.name.clone(), about.version.clone());
            if let Some(description) = &about.description {
                builder = builder.description(description);
            }
            if let Some(instructions) = &known.instructions {
                builder = builder.instructions(instructions);
            }
        }
        let builder = gateway.add_to(builder);
        Ok((gateway, builder))
    }
}

/// Time that they wait for one that was not there at once: it may be restarting.
const RETRY_TIME: Duration = Duration::from_secs(2);

/// Time that clients wait for the introduction of the upstream.
const INTRODUCTION_TIME: Duration = Duration::from_secs(10);
