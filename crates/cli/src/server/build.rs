//! The parts that every server of this program has, over whichever transport.

use mcp_flow::observability::CallLog;
use mcp_flow::observability::audit::Audit;
use mcp_flow::{Permissions, ServerBuilder};
use mcp_flow_otlp::Telemetry;

use crate::configuration::File;

/// Adds permissions, message signing, call logging, telemetry and the audit log that a file
/// configures.
///
/// Returns the audit log as well, to be closed when the server has stopped.
pub(crate) fn configure(
    server: ServerBuilder,
    file: &File,
    permissions: Option<&Permissions>,
    telemetry: Option<&Telemetry>,
) -> anyhow::Result<(ServerBuilder, Option<Audit>)> {
    let server = match permissions {
        Some(permissions) => server.permissions(permissions.clone()),
        None => server,
    };
    let server = match file.signing.signing()? {
        Some(signing) => server.signing(signing),
        None => server,
    };
    let audit = file.audit.open()?;
    let server = server.observer(CallLog);
    let server = match telemetry {
        Some(telemetry) => telemetry.add_to(server),
        None => server,
    };
    let server = match &audit {
        Some(audit) => server.observer(audit.clone()),
        None => server,
    };
    Ok((server, audit))
}
