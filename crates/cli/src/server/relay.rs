//! A server that relays to one other server, without a prefix: the heart of `bridge` and `dev`.

use std::process::ExitCode;
use std::time::Duration;

use mcp_flow::Server;
use mcp_flow_gateway::{Gateway, UpstreamSettings};

use crate::server::serving::ServingOptions;

/// Serves one upstream to clients as if it were this program.
///
/// The upstream introduces itself before the first client is served, so that its name and its
/// instructions reach clients. One that takes longer is served as soon as it is there.
pub(crate) async fn serve(
    mut upstream: UpstreamSettings,
    serving: &ServingOptions,
    ready: impl FnOnce(&Gateway),
) -> anyhow::Result<ExitCode> {
    upstream.is_prefixed = false;
    // Its own client decides about changes.
    upstream.pins = false;
    let gateway = Gateway::new(vec![upstream])?;
    ready(&gateway);
    let introduced = tokio::time::timeout(INTRODUCTION_TIME, gateway.first_server()).await;
    let builder = match introduced.ok().flatten() {
        Some(known) => {
            let about = &known.implementation;
            let builder = Server::builder(about.name.clone(), about.version.clone());
            let builder = match &about.description {
                Some(description) => builder.description(description),
                None => builder,
            };
            match &known.instructions {
                Some(instructions) => builder.instructions(instructions),
                None => builder,
            }
        }
        None => Server::builder("mcp-flow", env!("CARGO_PKG_VERSION")),
    };
    let server = gateway.add_to(builder).build()?;
    gateway.attach(&server);
    let ended = serving.serve(&server).await;
    gateway.close().await;
    ended
}

/// Time that clients wait for the introduction of the upstream.
const INTRODUCTION_TIME: Duration = Duration::from_secs(10);
