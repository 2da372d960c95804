//! Encodes messages into frames.
//!
//! Payloads are already encoded. These functions add the envelope in the same encoding, without
//! decoding payloads again.

mod text;

use serde::Serialize;

use crate::error::RpcError;
use crate::id::RequestId;
use crate::raw::{EncodeError, Encoding};
use crate::revision::Revision;

/// Appends a response that carries a result.
///
/// ```
/// use mcp_flow_proto::{Encoding, write};
///
/// let mut out = Vec::new();
/// write::result(&mut out, Encoding::Json, &7.into(), b"{}");
/// assert_eq!(out, br#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
/// ```
pub fn result(out: &mut Vec<u8>, encoding: Encoding, id: &RequestId, result: &[u8]) {
    if encoding == Encoding::Json {
        // This is by far the most frequent message, so it is built from few, long copies.
        out.reserve(result.len() + 64);
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        id.write_json(out);
        out.extend_from_slice(br#","result":"#);
        out.extend_from_slice(result);
        out.push(b'}');
        return;
    }
    begin(out, encoding, 3);
    member_id(out, encoding, Some(id));
    member(out, encoding, "result", result);
    end(out, encoding);
}

/// Appends an error response; a missing id is written as `null`.
pub fn error(
    out: &mut Vec<u8>,
    encoding: Encoding,
    id: Option<&RequestId>,
    error: &RpcError,
    revision: Revision,
) {
    begin(out, encoding, 3);
    member_id(out, encoding, id);
    member(out, encoding, "error", &encode_infallible(encoding, &error.wire(revision)));
    end(out, encoding);
}

/// Appends a notification. Params that are null are left out.
pub fn notification<P: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    encoding: Encoding,
    method: &str,
    params: &P,
) -> Result<(), EncodeError> {
    let params = encoding.encode(params)?;
    let has_params = params != encode_infallible(encoding, &());
    begin(out, encoding, 2 + u8::from(has_params));
    member(out, encoding, "method", &encode_infallible(encoding, method));
    if has_params {
        member(out, encoding, "params", &params);
    }
    end(out, encoding);
    Ok(())
}

/// Appends a request.
pub fn request<P: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    encoding: Encoding,
    id: &RequestId,
    method: &str,
    params: &P,
) -> Result<(), EncodeError> {
    let params = encoding.encode(params)?;
    begin(out, encoding, 4);
    member_id(out, encoding, Some(id));
    member(out, encoding, "method", &encode_infallible(encoding, method));
    member(out, encoding, "params", &params);
    end(out, encoding);
    Ok(())
}

/// Appends a request with extra members in its params, such as `_meta`. The extra members are JSON
/// text in either encoding.
///
/// ```
/// use mcp_flow_proto::{Encoding, write};
/// use serde_json::json;
///
/// let mut out = Vec::new();
/// let params = json!({"name": "add"});
/// write::request_with(&mut out, Encoding::Json, &7.into(), "tools/call", &params, &[("_meta", "{}")])?;
/// assert_eq!(
///     String::from_utf8_lossy(&out),
///     r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","_meta":{}}}"#
/// );
/// # Ok::<(), mcp_flow_proto::raw::EncodeError>(())
/// ```
pub fn request_with<P: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    encoding: Encoding,
    id: &RequestId,
    method: &str,
    params: &P,
    extras: &[(&str, &str)],
) -> Result<(), EncodeError> {
    if encoding == Encoding::Cbor {
        // A CBOR map states its length up front, so the map is rebuilt.
        let mut built = serde_json::to_value(params).map_err(EncodeError::from)?;
        for (name, json) in extras {
            built[*name] = serde_json::from_str(json).map_err(EncodeError::from)?;
        }
        return request(out, encoding, id, method, &built);
    }
    begin(out, encoding, 4);
    member_id(out, encoding, Some(id));
    member(out, encoding, "method", &encode_infallible(encoding, method));
    member_name(out, encoding, "params");
    let start = out.len();
    serde_json::to_writer(&mut *out, params).map_err(EncodeError::from)?;
    if out.get(start) != Some(&b'{') {
        return Err(EncodeError::not_an_object());
    }
    for (name, json) in extras {
        out.pop();
        if out.len() > start + 1 {
            out.push(b',');
        }
        out.push(b'"');
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        out.extend_from_slice(json.as_bytes());
        out.push(b'}');
    }
    out.push(b'}');
    Ok(())
}

/// Appends an array of encoded messages.
pub fn batch(out: &mut Vec<u8>, encoding: Encoding, messages: &[Vec<u8>]) {
    match encoding {
        Encoding::Json => {
            out.push(b'[');
            for (index, message) in messages.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(message);
            }
            out.push(b']');
        }
        Encoding::Cbor => {
            let header = minicbor::Encoder::new(&mut *out).array(messages.len() as u64).map(|_| ());
            header.expect("memory can be written to");
            messages.iter().for_each(|message| out.extend_from_slice(message));
        }
    }
}

/// Encodes the JSON result of a tool call that returned plain text. `server_info` (JSON) is added
/// for stateless requests.
///
/// Writes the same bytes as [`CallResult`](crate::model::CallResult), in a fraction of the time:
/// most tool calls return plain text.
pub fn text_result(text: &str, server_info: Option<&str>) -> Vec<u8> {
    call_result(text, None, server_info)
}

/// Encodes the JSON result of a tool call that returned structured data: the data itself, and the
/// same data as text for older clients. Otherwise like [`text_result`].
pub fn structured_result(json: &str, server_info: Option<&str>) -> Vec<u8> {
    call_result(json, Some(json), server_info)
}

fn call_result(text: &str, structured: Option<&str>, server_info: Option<&str>) -> Vec<u8> {
    let lengths = [Some(text), structured, server_info].map(|part| part.map_or(0, str::len));
    // Each quote inside the text takes an escape byte.
    let mut out = Vec::with_capacity(lengths.iter().sum::<usize>() + text.len() / 8 + 224);
    out.push(b'{');
    if server_info.is_some() {
        out.extend_from_slice(br#""resultType":"complete","#);
    }
    out.extend_from_slice(br#""content":[{"type":"text","text":"#);
    text::quoted(&mut out, text);
    out.extend_from_slice(b"}]");
    if let Some(structured) = structured {
        out.extend_from_slice(br#","structuredContent":"#);
        out.extend_from_slice(structured.as_bytes());
    }
    out.extend_from_slice(br#","isError":false"#);
    if let Some(server_info) = server_info {
        out.extend_from_slice(br#","_meta":{"io.modelcontextprotocol/serverInfo":"#);
        out.extend_from_slice(server_info.as_bytes());
        out.push(b'}');
    }
    out.push(b'}');
    out
}

fn begin(out: &mut Vec<u8>, encoding: Encoding, members: u8) {
    match encoding {
        Encoding::Json => out.extend_from_slice(br#"{"jsonrpc":"2.0""#),
        Encoding::Cbor => {
            // A map header of up to 23 pairs is one byte, 0xa0 plus their number.
            out.push(0xa0 + members);
            out.extend_from_slice(b"\x67jsonrpc\x632.0");
        }
    }
}

fn member(out: &mut Vec<u8>, encoding: Encoding, name: &str, value: &[u8]) {
    member_name(out, encoding, name);
    out.extend_from_slice(value);
}

fn member_id(out: &mut Vec<u8>, encoding: Encoding, id: Option<&RequestId>) {
    member_name(out, encoding, "id");
    match (encoding, id) {
        (Encoding::Json, Some(id)) => id.write_json(out),
        (Encoding::Json, None) => out.extend_from_slice(b"null"),
        (Encoding::Cbor, Some(id)) => out.extend_from_slice(&encode_infallible(encoding, id)),
        (Encoding::Cbor, None) => out.push(0xf6),
    }
}

/// Appends a member name, which must be shorter than 24 bytes and need no escapes.
fn member_name(out: &mut Vec<u8>, encoding: Encoding, name: &str) {
    match encoding {
        Encoding::Json => {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
        }
        Encoding::Cbor => {
            out.extend(u8::try_from(name.len()).map(|length| 0x60 + length));
            out.extend_from_slice(name.as_bytes());
        }
    }
}

fn end(out: &mut Vec<u8>, encoding: Encoding) {
    if encoding == Encoding::Json {
        out.push(b'}');
    }
}

/// Encodes a type that every encoding can represent.
fn encode_infallible<T: Serialize + ?Sized>(encoding: Encoding, value: &T) -> Vec<u8> {
    encoding.encode(value).expect("ids, names and errors can be encoded")
}

#[cfg(test)]
mod tests {
    use super::{batch, error, notification, request, result, structured_result, text_result};
    use crate::error::RpcError;
    use crate::model::{CallResult, Content, ContentForm, ContentList};
    use crate::raw::{Encoding, Raw};
    use crate::revision::Revision;
    use serde_json::{Value, json};

    #[test]
    fn text_and_structured_results_match_the_general_encoder() {
        let info = json!({"name": "test", "version": "1"});
        let meta = json!({"io.modelcontextprotocol/serverInfo": info});
        let data = json!({"a": "b \"c\"\n\u{e9}"});
        let texts = ["", "5", "a \"quoted\"\n\u{1}\u{e9}"].map(|text| (text.to_owned(), None));
        for (text, data) in texts.into_iter().chain([(data.to_string(), Some(&data))]) {
            let items = &[Content::text(text.as_str())][..];
            for revision in [Revision::BASE, Revision::V2026_07_28] {
                let alone = revision.is_stateless();
                let result = CallResult {
                    result_type: alone.then_some("complete"),
                    content: ContentList { items, revision, form: ContentForm::default() },
                    structured_content: data,
                    is_error: false,
                    error_message: None,
                    meta: meta.as_object().filter(|_| alone),
                };
                let info = alone.then(|| info.to_string());
                let write = if data.is_some() { structured_result } else { text_result };
                let written = write(&text, info.as_deref());
                assert_eq!(written, serde_json::to_vec(&result).unwrap());
            }
        }
    }

    #[test]
    fn both_encodings_carry_the_same_message() {
        for encoding in [Encoding::Json, Encoding::Cbor] {
            let write = |write: &dyn Fn(&mut Vec<u8>)| {
                let mut out = Vec::new();
                write(&mut out);
                let raw = match encoding {
                    Encoding::Json => Raw::Json(std::str::from_utf8(&out).unwrap()),
                    Encoding::Cbor => Raw::Cbor(&out),
                };
                raw.decode::<Value>().unwrap()
            };
            let body = encoding.encode(&json!({"a": 1})).unwrap();
            assert_eq!(
                write(&|out| result(out, encoding, &"x".into(), &body)),
                json!({"jsonrpc": "2.0", "id": "x", "result": {"a": 1}})
            );
            assert_eq!(
                write(&|out| notification(out, encoding, "n", &json!({})).unwrap()),
                json!({"jsonrpc": "2.0", "method": "n", "params": {}})
            );
            assert_eq!(
                write(&|out| request(out, encoding, &1.into(), "m", &json!({})).unwrap()),
                json!({"jsonrpc": "2.0", "id": 1, "method": "m", "params": {}})
            );
            let fault = RpcError::parse_error("why");
            let written = write(&|out| error(out, encoding, None, &fault, Revision::V2024_11_05));
            assert_eq!(written["id"], Value::Null);
            assert_eq!(written["error"]["code"], -32700);
            assert_eq!(
                write(&|out| batch(out, encoding, &[body.clone(), body.clone()])),
                json!([{"a": 1}, {"a": 1}])
            );
        }
    }
}
