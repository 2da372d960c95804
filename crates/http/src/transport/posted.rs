//! Frames posted over HTTP: decodes them, or builds the rejection.

use hyper::StatusCode;
use mcp_flow_proto::Revision;
use mcp_flow_proto::error::SIGNATURE_REFUSED;
use mcp_flow_server::Server;
use mcp_flow_server::connection::{DecodedFrame, ReplySigner};

use crate::response::{HttpResponse, ResponseBody, rejection_of};

/// Verifies and decodes a frame. The rejection is 403 if its signature is invalid (MCP-073), 400 if
/// it is no message.
pub(crate) fn decode<'a>(
    server: &Server,
    frame: &'a [u8],
) -> Result<DecodedFrame<'a>, HttpResponse> {
    server.decode_frame(frame).map_err(|rejected| {
        let status = match rejected.error.name() == SIGNATURE_REFUSED.name {
            true => StatusCode::FORBIDDEN,
            false => StatusCode::BAD_REQUEST,
        };
        let response = rejection_of(status, rejected.id.as_ref(), &rejected.error, Revision::BASE);
        sign(response, rejected.signer.as_ref())
    })
}

/// Signs a response that no connection has signed, if messages are signed.
pub(crate) fn sign(mut response: HttpResponse, signer: Option<&ReplySigner>) -> HttpResponse {
    if let (Some(signer), ResponseBody::Whole(Some(body))) = (signer, response.body_mut()) {
        *body = signer.sign(std::mem::take(body).into()).into();
    }
    response
}
