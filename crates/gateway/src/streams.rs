//! Streams beside results, which upstreams over WebTransport send and only their client can read: what is
//! on them is put into the result.

use futures_util::TryStreamExt;
use mcp_flow_client::{Client, Error};
use mcp_flow_proto::model::{Blob, Content, ResourceBody, ResourceContents};
use mcp_flow_proto::{OwnedRaw, Raw};
use serde_json::{Map, Value};

/// Puts the content of streams into the result that refers to them.
pub(crate) async fn inline(client: &Client, result: OwnedRaw) -> Result<OwnedRaw, Error> {
    let is_mentioned = match result.as_raw() {
        Raw::Json(text) => text.contains(STREAM),
        Raw::Cbor(bytes) => bytes.windows(STREAM.len()).any(|part| part == STREAM.as_bytes()),
    };
    if !is_mentioned {
        return Ok(result);
    }
    let Ok(mut decoded) = result.as_raw().decode::<Value>() else { return Ok(result) };
    let mut left = MAX_INLINE;
    for list in ["content", "contents"] {
        let items = decoded.get_mut(list).and_then(Value::as_array_mut);
        for item in items.into_iter().flatten().filter(|item| item["type"] == STREAM) {
            let bytes = read(client, item, left).await?;
            left -= bytes.len();
            *item = in_place_of(item, bytes, list == "content");
        }
    }
    Ok(OwnedRaw::Json(decoded.to_string().into()))
}

/// Reads a stream to its end.
async fn read(client: &Client, item: &Value, limit: usize) -> Result<Vec<u8>, Error> {
    let mut opened = client.open_content(item).await?;
    let mut bytes = Vec::new();
    loop {
        let piece = opened.bytes.try_next().await;
        let piece = piece.map_err(|source| Error::Lost { method: "a stream".into(), source })?;
        let Some(piece) = piece else { return Ok(bytes) };
        if bytes.len() + piece.len() > limit {
            let problem =
                format!("its streams have more than the {MAX_INLINE} bytes that are passed on");
            return Err(Error::Protocol(problem));
        }
        bytes.extend_from_slice(&piece);
    }
}

/// The content that is sent in place of a stream.
fn in_place_of(item: &Value, bytes: Vec<u8>, is_block: bool) -> Value {
    // Nobody could read text with a NUL.
    let body = match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => ResourceBody::Text(text),
        Ok(text) => ResourceBody::Blob(Blob(text.into_bytes())),
        Err(bytes) => ResourceBody::Blob(Blob(bytes.into_bytes())),
    };
    let text = |name: &str| item[name].as_str().map(str::to_owned);
    let mut whole = match (is_block, body) {
        (true, ResourceBody::Text(text)) => encode(&Content::text(text)),
        (_, body) => {
            let uri = text("uri").unwrap_or_else(|| ResourceContents::INLINE_URI.to_owned());
            let resource = ResourceContents { uri, mime_type: text("mimeType"), body, meta: None };
            match is_block {
                true => encode(&Content::embedded(resource)),
                false => encode(&resource),
            }
        }
    };
    if let Some(meta) = item.get("_meta") {
        whole["_meta"] = meta.clone();
    }
    whole
}

fn encode(content: &impl serde::Serialize) -> Value {
    serde_json::to_value(content).unwrap_or_else(|_| Value::Object(Map::new()))
}

/// Type of content that is sent on a stream.
const STREAM: &str = "ref/stream";

/// Limit on the streams of one result together, in bytes.
const MAX_INLINE: usize = 16 * 1024 * 1024;
