//! Frames posted over HTTP: verifies signatures and decodes messages, or builds the rejection.

use hyper::StatusCode;
use mcp_flow_proto::{Encoding, Incoming, Message, Revision};
use mcp_flow_server::{OpenedFrame, Server};

use crate::response::{HttpResponse, rejection_of};

/// Verifies the signature of a frame, if the server requires one. The rejection is 403 (MCP-073) and
/// carries the request's id, so that an unsigned client gets it as the reply to its request.
pub(crate) fn verify_frame<'a>(
    server: &Server,
    frame: &'a [u8],
) -> Result<OpenedFrame<'a>, HttpResponse> {
    server.open_frame(frame).map_err(|error| {
        let id = match Incoming::decode(frame, Encoding::Json) {
            Ok(Incoming::Message(Message::Request(request))) => Some(request.id),
            _ => None,
        };
        rejection_of(StatusCode::FORBIDDEN, id.as_ref(), &error, Revision::BASE)
    })
}

/// Decodes the messages of a verified frame. The rejection is 400.
pub(crate) fn decode<'a>(opened: &'a OpenedFrame<'_>) -> Result<Incoming<'a>, HttpResponse> {
    Incoming::decode(opened.message(), Encoding::Json).map_err(|unreadable| {
        let id = unreadable.id.as_ref();
        rejection_of(StatusCode::BAD_REQUEST, id, &unreadable.error, Revision::BASE)
    })
}
