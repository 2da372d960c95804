//! `initialize`: the handshake (C-04, C-21, C-22).

use mcp_flow_proto::error::{ACCESS_DENIED, ALREADY_INITIALIZED};
use mcp_flow_proto::model::{InitializeParams, InitializeResult};
use mcp_flow_proto::{Params, RpcError};
use serde_json::json;

use crate::connection::subscriptions;
use crate::context::Context;
use crate::event::ConnectionEvent;
use crate::handler::{Outcome, Payload, Reply};
use crate::identity::Peer;

pub(super) fn initialize(context: &Context, params: Params<'_>) -> Reply {
    Reply::Ready(negotiate(context, params))
}

fn negotiate(context: &Context, params: Params<'_>) -> Outcome {
    let server = context.server();
    let connection = &context.call().connection;
    if connection.state().lifecycle.peer().is_some() {
        return Err(already_initialized());
    }
    let negotiation = connection.info.negotiation.as_ref();
    let agreement = negotiation.map(|negotiation| negotiation.agree(params)).transpose()?;
    let params = InitializeParams::from_params(params).map_err(RpcError::invalid_params)?;
    if params.capabilities.is_none() && server.is_strict() {
        return Err(RpcError::invalid_params("capabilities is required"));
    }
    let revision = server.versions().agree(&params.protocol_version)?;
    let peer = Peer {
        revision,
        client: params.client_info,
        capabilities: params.capabilities.unwrap_or_default(),
    };
    tracing::debug!(client = peer.name(), %revision, "initialize");
    server
        .emit(&connection.info, &ConnectionEvent::Initialize(&peer))
        .map_err(|veto| RpcError::new(ACCESS_DENIED).details(veto.to_string()))?;
    connection.state().lifecycle.initialize(peer).map_err(|_| already_initialized())?;
    subscriptions::register(connection);
    if let Some(capabilities) = server.dialect().capabilities() {
        return context.reply(&json!({
            "protocolVersion": revision.name(),
            "capabilities": capabilities,
            "serverInfo": server.info(),
        }));
    }
    let (transport, then) =
        agreement.map_or((None, None), |agreed| (Some(agreed.transport), Some(agreed.encoding)));
    let result = context.reply(&InitializeResult {
        protocol_version: revision,
        capabilities: server.capabilities(revision),
        server_info: server.info().for_revision(revision),
        instructions: server.instructions().map(str::to_owned),
        transport,
    })?;
    Ok(Payload { then, ..result })
}

fn already_initialized() -> RpcError {
    RpcError::new(ALREADY_INITIALIZED)
        .details("This connection has been initialized; open another to start anew.")
}
