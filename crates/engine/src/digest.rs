//! Digests by which an erased answer is recognised when it is repeated.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use mcp_flow_session::SessionId;
use ring::digest::{SHA256, digest};
use serde_json::Value;

/// Digest of an answer, different in every session.
pub(crate) fn of_answer(id: SessionId, value: &Value) -> String {
    let text = format!("{id}\n{value}");
    STANDARD_NO_PAD.encode(digest(&SHA256, text.as_bytes()))
}
