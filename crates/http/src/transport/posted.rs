//! Frames posted over HTTP: decodes them, or builds the rejection.

use hyper::StatusCode;
use hyper::header::HeaderMap;
use mcp_flow_proto::Revision;
use mcp_flow_proto::error::SIGNATURE_REFUSED;
use mcp_flow_proto::model::TraceContext;
use mcp_flow_server::Server;
use mcp_flow_server::connection::{DecodedFrame, ReplySigner};

use crate::response::{HttpResponse, ResponseBody, rejection_of};

/// Verifies and decodes a frame, with the trace context in the headers. The rejection is 403 if its signature is invalid (MCP-073), 400 if
/// it is no message.
pub(crate) fn decode<'a>(
    server: &Server,
    headers: &HeaderMap,
    frame: &'a [u8],
) -> Result<DecodedFrame<'a>, HttpResponse> {
    let decoded = server.decode_frame(frame).map(|frame| frame.traced(trace_of(headers)));
    decoded.map_err(|rejected| {
        let status = match rejected.error.name() == SIGNATURE_REFUSED.name {
            true => StatusCode::FORBIDDEN,
            false => StatusCode::BAD_REQUEST,
        };
        let response = rejection_of(status, rejected.id.as_ref(), &rejected.error, Revision::BASE);
        sign(response, rejected.signer.as_ref())
    })
}

/// Reads the trace context of a request. `tracestate` and `baggage` may be several headers.
fn trace_of(headers: &HeaderMap) -> Option<TraceContext> {
    let list = |name: &str| {
        let values = headers.get_all(name).iter().map(|value| value.to_str());
        let values: Vec<_> = values.collect::<Result<_, _>>().ok()?;
        (!values.is_empty()).then(|| values.join(","))
    };
    let parent = headers.get("traceparent").and_then(|value| value.to_str().ok());
    let state = parent.and_then(|_| list("tracestate"));
    TraceContext::from_texts(parent, state.as_deref(), list("baggage").as_deref())
}

/// Signs a response that no connection has signed, if messages are signed.
pub(crate) fn sign(mut response: HttpResponse, signer: Option<&ReplySigner>) -> HttpResponse {
    if let (Some(signer), ResponseBody::Whole(Some(body))) = (signer, response.body_mut()) {
        *body = signer.sign(std::mem::take(body).into()).into();
    }
    response
}
