//! Checks the headers that mirror the body of a stateless request, for proxies that route by them:
//! version, method, name, and arguments marked with `x-mcp-header`.
//!
//! Header and body must agree, or a proxy would have routed on false information.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{HeaderMap, HeaderName};
use mcp_flow_proto::error::HEADER_MISMATCH;
use mcp_flow_proto::{Raw, Request, Revision, RpcError, ValueKind, method};
use mcp_flow_server::{Principal, Server, Tool};

use super::headers::{VERSION, text};

/// Checks that the headers match the body, and that the body has the members every request needs.
pub(super) fn check(
    server: &Server,
    principal: &Principal,
    headers: &HeaderMap,
    request: &Request<'_>,
) -> Result<(), RpcError> {
    let meta = request.meta.as_ref().map_err(RpcError::invalid_params)?;
    let Some((version, meta)) = meta.as_ref().and_then(|meta| {
        let version = meta.protocol_version.as_deref()?;
        Some((version, meta))
    }) else {
        return Err(missing("protocolVersion"));
    };
    check_equal(headers, VERSION, "MCP-Protocol-Version", version)?;
    check_equal(headers, METHOD, "Mcp-Method", &request.method)?;
    // Unsupported versions are rejected by the server.
    let known = Revision::from_name(version).is_some_and(Revision::is_stateless);
    if known && meta.client_capabilities.is_none() {
        return Err(missing("clientCapabilities"));
    }
    check_name(server, principal, headers, request)
}

fn check_name(
    server: &Server,
    principal: &Principal,
    headers: &HeaderMap,
    request: &Request<'_>,
) -> Result<(), RpcError> {
    let members = match &*request.method {
        method::TOOLS_CALL | method::PROMPTS_GET => {
            request.params.common().map(|[_, name, arguments, ..]| [name, arguments])
        }
        method::TASKS_GET | method::TASKS_UPDATE | method::TASKS_CANCEL => {
            request.params.members(["taskId"]).map(|[id]| [id, None])
        }
        method::RESOURCES_READ => request.params.members(["uri"]).map(|[uri]| [uri, None]),
        _ => return Ok(()),
    };
    // Invalid params are rejected by the server.
    let Ok([named, arguments]) = members else { return Ok(()) };
    let Some(name) = named.and_then(Raw::as_text) else { return Ok(()) };
    check_equal(headers, NAME, "Mcp-Name", &name)?;
    if request.method != method::TOOLS_CALL {
        return Ok(());
    }
    let may_call = |tool: &Arc<Tool>| server.may(principal, tool.kind(), &tool.definition().name);
    match server.find_tool(&name).filter(may_call) {
        Some(tool) => check_arguments(headers, &tool, arguments),
        None => Ok(()),
    }
}

/// Checks that every argument marked with `x-mcp-header` matches its header.
fn check_arguments(
    headers: &HeaderMap,
    tool: &Tool,
    arguments: Option<Raw<'_>>,
) -> Result<(), RpcError> {
    tool.header_arguments().iter().try_for_each(|mirrored| {
        let value = arguments.and_then(|arguments| find_argument(arguments, &mirrored.path));
        check_argument(headers, &mirrored.header, value)
    })
}

fn find_argument<'a>(arguments: Raw<'a>, path: &[String]) -> Option<Raw<'a>> {
    path.iter().try_fold(arguments, |value, name| {
        let [found] = value.members([name.as_str()]).ok()?;
        found
    })
}

fn check_argument(headers: &HeaderMap, name: &str, value: Option<Raw<'_>>) -> Result<(), RpcError> {
    let value = value.filter(|value| value.kind() != ValueKind::Null);
    let (header, value) = match (headers.get(name), value) {
        (None, None) => return Ok(()),
        (Some(header), Some(value)) => (header, value),
        (None, Some(_)) => return Err(mismatch(format!("{name} header is missing"))),
        (Some(_), None) => {
            return Err(mismatch(format!("{name} header has no value in the body to match")));
        }
    };
    let header = header.to_str().ok().and_then(decode);
    let header = header.ok_or_else(|| mismatch(format!("{name} header cannot be read")))?;
    let matches = match value.kind() {
        ValueKind::String => value.as_text().is_some_and(|text| text == header),
        ValueKind::Boolean => value.decode::<bool>().is_ok_and(|flag| flag.to_string() == header),
        // Compared by value: a number has several spellings.
        ValueKind::Number => value.as_number() == header.trim().parse::<f64>().ok(),
        _ => false,
    };
    if matches { Ok(()) } else { Err(mismatch(format!("{name} header does not match the body"))) }
}

/// Checks that a header is present and equals a value of the body.
fn check_equal(
    headers: &HeaderMap,
    name: HeaderName,
    written: &str,
    body: &str,
) -> Result<(), RpcError> {
    match text(headers, name) {
        // Plain, or base64 for values that a header cannot carry.
        Some(value) if value == body && !value.starts_with(ENCODED.0) => Ok(()),
        Some(value) => match decode(value) {
            Some(value) if value == body => Ok(()),
            Some(value) => Err(mismatch(format!(
                "{written} header value {value:?} does not match body value {body:?}"
            ))),
            None => Err(mismatch(format!("{written} header cannot be read"))),
        },
        None => Err(mismatch(format!("{written} header is missing; the body says {body:?}"))),
    }
}

/// Decodes the value of a header, which may be base64.
fn decode(value: &str) -> Option<String> {
    let encoded = value.strip_prefix(ENCODED.0).and_then(|rest| rest.strip_suffix(ENCODED.1));
    match encoded {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

/// Builds the error -32020: header and body differ.
fn mismatch(details: String) -> RpcError {
    RpcError::new(HEADER_MISMATCH).message(format!("Header mismatch: {details}"))
}

fn missing(member: &str) -> RpcError {
    let name = format!("params._meta[\"io.modelcontextprotocol/{member}\"]");
    RpcError::invalid_params(format!("{name} is required"))
}

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Prefix and suffix of a base64 value.
const ENCODED: (&str, &str) = ("=?base64?", "?=");
