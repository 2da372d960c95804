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
    /// takes more than ten seconds for its introduction is served as soon as it is there.
    pub async fn relay(
        mut upstream: UpstreamSettings,
        begin: impl FnOnce(&Self),
    ) -> Result<(Self, ServerBuilder), InvalidUpstreams> {
        upstream.is_prefixed = false;
        upstream.pins = false;
        let gateway = Self::new(vec![upstream])?;
        begin(&gateway);
        let introduced = tokio::time::timeout(INTRODUCTION_TIME, gateway.first_server()).await;
        let mut builder = Server::builder("mcp-flow", env!("CARGO_PKG_VERSION"));
        if let Some(known) = introduced.ok().flatten() {
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

/// Time that clients wait for the introduction of the upstream.
const INTRODUCTION_TIME: Duration = Duration::from_secs(10);
