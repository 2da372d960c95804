//! Failures of upstreams, as callers see them.

use std::borrow::Cow;
use std::time::Duration;

use mcp_flow_client::transport::TransportError;
use mcp_flow_client::{Error, sanitize};
use mcp_flow_proto::error::{MISSING_CLIENT_CAPABILITY, RpcErrorKind};
use mcp_flow_proto::{Revision, RpcError};
use serde_json::{Value, json};

use crate::settings::UpstreamSettings;
use crate::url_questions::URL_ELICITATION_REQUIRED;

/// The upstream was lost during the request, which may have taken effect.
pub(crate) const UPSTREAM_LOST: RpcErrorKind =
    kind("UPSTREAM_LOST", -31401, "The upstream server was lost during the request");

/// The upstream cannot be reached; nothing was sent.
pub(crate) const UPSTREAM_UNAVAILABLE: RpcErrorKind =
    kind("UPSTREAM_UNAVAILABLE", -31402, "The upstream server is unavailable");

/// The upstream responded with an error, or with something that is no response.
pub(crate) const UPSTREAM_ERROR: RpcErrorKind =
    kind("UPSTREAM_ERROR", -31403, "The upstream server responded with an error");

/// The caller, or its client, did not answer a question of the upstream.
pub(crate) const NOT_ANSWERED: RpcErrorKind =
    kind("NOT_ANSWERED", -31404, "The client did not answer the upstream server");

/// A person did not approve the call; nothing was sent.
pub(crate) const NOT_APPROVED: RpcErrorKind =
    kind("NOT_APPROVED", -31405, "The call was not approved");

/// The definition of the tool is new or has changed, and nobody has approved it yet.
pub(crate) const QUARANTINED: RpcErrorKind =
    kind("QUARANTINED", -31406, "The tool is quarantined until its definition is approved");

const fn kind(name: &'static str, stateless_code: i32, message: &'static str) -> RpcErrorKind {
    RpcErrorKind { domain: "gateway", name, code: -32000, stateless_code, message }
}

/// A failure of a request to an upstream, as its caller sees it. Operators see the whole text in
/// the log and in the upstream's status.
pub(crate) fn from_client(settings: &UpstreamSettings, error: Error) -> RpcError {
    let server = settings.name.as_str();
    let details = reason(settings, &error);
    match error {
        Error::Server(error) => {
            let code = i32::try_from(error.code).unwrap_or(UPSTREAM_ERROR.code);
            let kind = RpcErrorKind { code, stateless_code: code, ..UPSTREAM_ERROR };
            let message = sanitize::shorten(&error.message, MAX_DETAILS_LENGTH);
            let mut upstream = json!({"code": error.code, "message": message.clone()});
            // Clients look for these where the specification has them.
            let defined = match code {
                URL_ELICITATION_REQUIRED => "elicitations",
                _ if code == MISSING_CLIENT_CAPABILITY.code => "requiredCapabilities",
                _ => "",
            };
            let member = error.data.get(defined).cloned();
            if !error.data.is_null() {
                upstream["data"] = error.data;
            }
            let failed = RpcError::new(kind).message(message).with("server", server);
            let failed = failed.with("upstream", upstream);
            match member {
                Some(member) => failed.with(defined, member),
                None => failed,
            }
        }
        Error::Lost { .. } | Error::Timeout { .. } => lost(server, &details),
        error if is_unauthorized(&error) => {
            unavailable(server, &details, None).with(UNAUTHORIZED, true)
        }
        Error::Connect { .. } | Error::Closed => unavailable(server, &details, None),
        Error::Denied(_) => RpcError::new(NOT_ANSWERED).with("server", server).details(details),
        Error::Usage(_) => RpcError::invalid_params(details).with("server", server),
        _ => RpcError::new(UPSTREAM_ERROR).with("server", server).details(details),
    }
}

/// The reason of a failure, for callers: without the address or the command of the upstream and its
/// output, which may have secrets.
pub(crate) fn reason(settings: &UpstreamSettings, error: &Error) -> String {
    let text = match error {
        Error::Connect { source, .. } => format!("it cannot be reached: {}", cause(source)),
        Error::Lost { method, source } => {
            format!("the connection was lost during {method}: {}", cause(source))
        }
        Error::Unfollowed { task, source } => {
            format!("task {task} was not followed to its end: {}", reason(settings, source))
        }
        other => other.to_string(),
    };
    let target = settings.connector.target();
    let text = if target.is_empty() { text } else { text.replace(target, "the server") };
    sanitize::shorten(&text, MAX_DETAILS_LENGTH)
}

fn cause(error: &TransportError) -> Cow<'_, str> {
    match error {
        TransportError::Exited { what, .. } => what.into(),
        TransportError::Unreachable { source: Some(source), .. } => source.to_string().into(),
        TransportError::Unreachable { what, .. } => what.into(),
        TransportError::Unauthorized { .. } => "it requires a login".into(),
        TransportError::Refused { status, .. } => format!("HTTP status {status}").into(),
        other => other.to_string().into(),
    }
}

/// Returns whether an upstream has rejected the credential, or requires one.
pub(crate) fn is_unauthorized(error: &Error) -> bool {
    matches!(error, Error::Connect { source: TransportError::Unauthorized { .. }, .. })
}

/// The error for a request that was sent, and whose outcome is unknown.
pub(crate) fn lost(server: &str, reason: &str) -> RpcError {
    let details =
        format!("{reason}. The request may have taken effect; check before repeating it.");
    RpcError::new(UPSTREAM_LOST).with("server", server).details(details)
}

/// The error for a request that was not sent.
pub(crate) fn unavailable(server: &str, reason: &str, retry: Option<Duration>) -> RpcError {
    let error = RpcError::new(UPSTREAM_UNAVAILABLE).with("server", server);
    let error = error.details(format!("{reason}. Nothing was sent; try again later."));
    match retry {
        Some(delay) => error.retry_after(delay),
        None => error,
    }
}

/// The error for a response that cannot be used.
pub(crate) fn unusable(server: &str, reason: &str) -> RpcError {
    let reason = sanitize::shorten(reason, MAX_DETAILS_LENGTH);
    RpcError::new(UPSTREAM_ERROR).with("server", server).details(reason)
}

/// The error for a question that was not answered.
pub(crate) fn not_answered(server: &str, reason: &str) -> RpcError {
    let details = sanitize::shorten(reason, MAX_DETAILS_LENGTH);
    RpcError::new(NOT_ANSWERED).with("server", server).details(details)
}

/// The error for a caller that has to log in, and whose client cannot be asked to. Clients find the
/// page where the specification has it.
pub(crate) fn login_required(server: &str, question: Value) -> RpcError {
    let kind = RpcErrorKind {
        code: URL_ELICITATION_REQUIRED,
        stateless_code: URL_ELICITATION_REQUIRED,
        ..NOT_ANSWERED
    };
    let url = question["url"].as_str().unwrap_or_default();
    let details = format!("Log in to {server} at {url}, and repeat the request.");
    let error = RpcError::new(kind).message(details).with("server", server);
    error.with("elicitations", json!([question]))
}

/// The error for a call that nobody approved.
pub(crate) fn not_approved(server: &str, reason: &str) -> RpcError {
    let details = format!("{reason}. Nothing was sent.");
    RpcError::new(NOT_APPROVED).with("server", server).details(details)
}

/// The error for a call of a quarantined tool, with its name for `pins`.
pub(crate) fn quarantined(server: &str, tool: &str, served_name: &str) -> RpcError {
    let tool = sanitize::shorten(tool, 128);
    let details = format!(
        "Its definition is new or has changed. An operator approves it with `mcp-flow pins approve \
         {served_name}` or in the console."
    );
    RpcError::new(QUARANTINED).with("server", server).with("tool", tool).details(details)
}

/// Encodes an error, to be kept in a journal.
pub(crate) fn to_journal(error: &RpcError) -> Value {
    serde_json::to_value(error.wire(Revision::BASE)).unwrap_or_default()
}

/// Restores an error from a journal.
pub(crate) fn from_journal(kept: &Value) -> RpcError {
    let name = kept["data"]["name"].as_str().unwrap_or_default();
    let kinds = [
        UPSTREAM_LOST,
        UPSTREAM_UNAVAILABLE,
        UPSTREAM_ERROR,
        NOT_ANSWERED,
        NOT_APPROVED,
        QUARANTINED,
    ];
    let mut kind = kinds.into_iter().find(|kind| kind.name == name).unwrap_or(UPSTREAM_ERROR);
    let code = kept["code"].as_i64().and_then(|code| i32::try_from(code).ok());
    // The code of an upstream's own error is that of both eras.
    if let Some(code) = code.filter(|code| *code != kind.code) {
        (kind.code, kind.stateless_code) = (code, code);
    }
    let mut error = RpcError::new(kind);
    if let Some(message) = kept["message"].as_str() {
        error = error.message(message.to_owned());
    }
    for (member, value) in kept["data"].as_object().into_iter().flatten() {
        if !["domain", "name", "code"].contains(&member.as_str()) {
            error = error.with(member, value.clone());
        }
    }
    error
}

/// Member of an error's data that is true if the upstream has rejected the credential.
pub(crate) const UNAUTHORIZED: &str = "unauthorized";

const MAX_DETAILS_LENGTH: usize = 2000;

#[cfg(test)]
mod tests {
    use super::{from_journal, lost, not_approved, quarantined, to_journal, unavailable, unusable};

    #[test]
    fn errors_survive_the_journal() {
        for error in [
            lost("up", "it ended"),
            unavailable("up", "it is gone", None),
            unusable("up", "it sent nonsense"),
            not_approved("up", "Nobody answered"),
            quarantined("up", "tool", "up.tool"),
        ] {
            assert_eq!(from_journal(&to_journal(&error)), error);
        }
    }
}
