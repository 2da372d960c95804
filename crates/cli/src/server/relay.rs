//! A server that relays to one other server, without a prefix: the heart of `bridge` and `dev`.

use std::process::ExitCode;

use mcp_flow_gateway::{Gateway, UpstreamSettings};

use crate::configuration::TelemetrySection;
use crate::server::serving::ServingOptions;
use crate::server::telemetry;

/// Serves one upstream to clients as if it were this program, with the telemetry that variables ask for.
pub(crate) async fn serve(
    upstream: UpstreamSettings,
    serving: &ServingOptions,
    begin: impl FnOnce(&Gateway),
) -> anyhow::Result<ExitCode> {
    let telemetry = telemetry::start(&TelemetrySection::default());
    let (gateway, builder) = Gateway::relay(upstream, begin).await?;
    let builder = match &telemetry {
        Some(telemetry) => telemetry.add_to(builder),
        None => builder,
    };
    let server = builder.build()?;
    gateway.attach(&server);
    let ended = serving.serve(&server).await;
    gateway.close().await;
    if let Some(telemetry) = telemetry {
        telemetry.stop();
    }
    ended
}
