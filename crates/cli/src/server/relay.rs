//! A server that relays to one other server, without a prefix: the heart of `bridge` and `dev`.

use std::process::ExitCode;

use mcp_flow_gateway::{Gateway, UpstreamSettings};

use crate::server::serving::ServingOptions;

/// Serves one upstream to clients as if it were this program.
pub(crate) async fn serve(
    upstream: UpstreamSettings,
    serving: &ServingOptions,
    begin: impl FnOnce(&Gateway),
) -> anyhow::Result<ExitCode> {
    let (gateway, builder) = Gateway::relay(upstream, begin).await?;
    let server = builder.build()?;
    gateway.attach(&server);
    let ended = serving.serve(&server).await;
    gateway.close().await;
    ended
}
