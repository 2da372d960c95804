//! Administration of the gateway over MCP: `admin/upstreams`, `admin/pins` and `admin/approvePin`
//! (`docs/admin.md`).

use std::sync::Arc;

use mcp_flow_proto::error::ACCESS_DENIED;
use mcp_flow_proto::{Params, RpcError};
use mcp_flow_server::router::Era;
use mcp_flow_server::{Context, Outcome, Principal, Reply, ServerBuilder};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::pins::ApproveError;

/// Decides who is an admin.
type IsAdmin = Arc<dyn Fn(&Principal) -> bool + Send + Sync>;

#[derive(Deserialize)]
struct PinParams {
    /// `NAME.tool`; all pins if absent.
    #[serde(default)]
    name: Option<String>,
    /// SHA-256 of the definition that was shown to the person who approves it.
    #[serde(default)]
    quarantined: Option<String>,
}

impl Gateway {
    /// Adds the methods for administration to a server that is being built. `is_admin` decides who
    /// may use them.
    pub fn administered_by(
        &self,
        server: ServerBuilder,
        is_admin: impl Fn(&Principal) -> bool + Send + Sync + 'static,
    ) -> ServerBuilder {
        let is_admin: IsAdmin = Arc::new(is_admin);
        let (gateway, admins) = (self.clone(), is_admin.clone());
        let server = server.method("admin/upstreams", Era::Both, {
            move |context: &Context, _: Params<'_>| {
                Reply::Ready(check(&admins, context).and_then(|()| {
                    let upstreams = gateway.status();
                    reply(context, json!({"upstreams": upstreams}))
                }))
            }
        });
        let (gateway, admins) = (self.clone(), is_admin.clone());
        let server = server.method("admin/pins", Era::Both, {
            move |context: &Context, params: Params<'_>| {
                Reply::Ready(check(&admins, context).and_then(|()| {
                    let PinParams { name, .. } = read(params)?;
                    let pins = match name {
                        Some(name) => {
                            vec![gateway.pins().find(&name).ok_or_else(|| unknown(&name))?]
                        }
                        None => gateway.pins().list(),
                    };
                    reply(context, json!({"pins": pins}))
                }))
            }
        });
        let (gateway, admins) = (self.clone(), is_admin);
        server.method("admin/approvePin", Era::Both, {
            move |context: &Context, params: Params<'_>| {
                Reply::Ready(check(&admins, context).and_then(|()| {
                    let PinParams { name, quarantined } = read(params)?;
                    let name = name.ok_or_else(|| RpcError::invalid_params("name is required"))?;
                    let approved = gateway.approve(&name, quarantined.as_deref());
                    let before = approved.map_err(|problem| match &problem {
                        ApproveError::Changed(_) => RpcError::invalid_params(problem.to_string()),
                        ApproveError::Io(cause) => {
                            tracing::error!("{problem}: {cause}");
                            RpcError::internal()
                        }
                    })?;
                    let before = before.ok_or_else(|| unknown(&name))?;
                    tracing::info!(
                        server = before.server,
                        "{} approved the definition of {}",
                        context.principal().name(),
                        before.tool
                    );
                    reply(context, json!({"approved": before}))
                }))
            }
        })
    }
}

fn check(is_admin: &IsAdmin, context: &Context) -> Result<(), RpcError> {
    if is_admin(context.principal()) {
        return Ok(());
    }
    Err(RpcError::new(ACCESS_DENIED)
        .with("principal", context.principal().name())
        .details("This needs the admin permission."))
}

fn read<'a, T: Deserialize<'a>>(params: Params<'a>) -> Result<T, RpcError> {
    params.decode().map_err(|error| RpcError::invalid_params(error.to_string()))
}

fn unknown(name: &str) -> RpcError {
    let name: String = name.chars().take(200).collect();
    let details = format!("No tool {name} was ever listed; see `mcp-flow pins list`.");
    RpcError::invalid_params(details)
}

/// Encodes a result, with `resultType` for 2026-07-28.
fn reply(context: &Context, mut result: Value) -> Outcome {
    if context.revision().is_stateless() {
        result["resultType"] = "complete".into();
    }
    context.reply(&result)
}
