//! Errors of the client, with an exit code and the next step for the person.

use mcp_flow::client::sanitize::shorten;
use mcp_flow::client::transport::TransportError;
use mcp_flow::client::{Error, ServerError};
use serde_json::Value;

use crate::exit::{Exit, Failure};
use crate::terminal::output::sanitize;

/// Converts an error of the client: adds the exit code and a hint.
pub(crate) fn explain(error: Error) -> anyhow::Error {
    let exit = exit(&error);
    let message = match &error {
        Error::Server(error) => error_text(error),
        error => error.to_string(),
    };
    let message = sanitize(&message);
    let message = match hint(&error) {
        Some(hint) => format!("{message}. {}", hint.replace("login TARGET", &login(&error))),
        None => message,
    };
    let message = match &error {
        Error::Server(error) => message + &data(error),
        _ => message,
    };
    Failure::new(exit, message).into()
}

/// Formats an error response. A rejected state transition names both states.
fn error_text(error: &ServerError) -> String {
    let text = error.to_string();
    match (error.data["from"].as_str(), error.data["to"].as_str()) {
        (Some(from), Some(to)) if error.name() == Some("INVALID_STATE_TRANSITION") => {
            let transition = format!("{} from {from} to {to}", error.message);
            text.replacen(&error.message, &transition, 1)
        }
        _ => text,
    }
}

/// Formats the data of an error response, on a line of its own (MCP-039).
fn data(error: &ServerError) -> String {
    let mut data = error.data.clone();
    if let Some(members) = data.as_object_mut() {
        // The message includes them.
        members.remove("details");
    }
    match &data {
        Value::Null => String::new(),
        Value::Object(members) if members.is_empty() => String::new(),
        data => format!("\n  data: {}", shorten(&data.to_string(), MAX_DATA_LENGTH)),
    }
}

/// Number of characters of an error's data that are shown.
const MAX_DATA_LENGTH: usize = 2000;

/// The command that logs in to the server an error is about.
fn login(error: &Error) -> String {
    match error {
        Error::Connect { target, .. } => format!("login {}", sanitize(target)),
        _ => "login TARGET".to_owned(),
    }
}

fn exit(error: &Error) -> Exit {
    match error {
        Error::Connect { source, .. } | Error::Lost { source, .. } => match source {
            TransportError::Unauthorized { .. } => Exit::Denied,
            TransportError::Refused { status: 401 | 403, .. } => Exit::Denied,
            TransportError::Refused { .. }
            | TransportError::Unsuitable(_)
            | TransportError::InvalidMessage(_) => Exit::Protocol,
            TransportError::InvalidSignature(_) => Exit::Denied,
            _ => Exit::Unreachable,
        },
        Error::Timeout { .. } | Error::Closed => Exit::Unreachable,
        Error::Denied(_) => Exit::Denied,
        Error::Tool(_) | Error::Cancelled { .. } => Exit::Failed,
        Error::Usage(_) => Exit::Usage,
        Error::Unfollowed { source, .. } => exit(source),
        Error::Server(error) if is_denial(error) => Exit::Denied,
        Error::Server(error) if error.name() == Some("SIGNATURE_REFUSED") => Exit::Denied,
        // A session that has ended or does not exist is no protocol violation.
        Error::Server(error) if error.data["domain"] == "interaction" => Exit::Failed,
        _ => Exit::Protocol,
    }
}

/// Returns what the person can do next.
fn hint(error: &Error) -> Option<&'static str> {
    match error {
        Error::Connect { source, target } => {
            match source {
                TransportError::Unauthorized { .. }
                | TransportError::Refused { status: 401, .. } => Some(LOG_IN),
                TransportError::Refused { status: 403, .. } => Some(
                    "The server rejects this host or origin; allow it there with --allow-host or --allow-origin",
                ),
                TransportError::Refused { status: 404 | 405, .. }
                | TransportError::Unsuitable(_) => Some(match has_path(target) {
                    true => "Check the path; it is often /mcp",
                    false => {
                        "It has no MCP endpoint at /mcp, / or /sse; add the path of its endpoint"
                    }
                }),
                TransportError::InvalidMessage(_) => Some("Is this an MCP server?"),
                TransportError::InvalidSignature(_) => Some(SIGN),
                TransportError::Unreachable { what, .. } if what.contains("certificate") => Some(
                    "If you trust the server, pass --certificate-hash, or --ca-file for its certificate authority",
                ),
                lost if lost.is_lost() => Some("See the server's log"),
                _ => Some("Check that the server is running, and its address"),
            }
        }
        Error::Lost { source: TransportError::InvalidSignature(_), .. } => Some(SIGN),
        Error::Lost { .. } => Some("The request may have been processed; check before you retry"),
        Error::Timeout { .. } => Some("Increase --timeout, or check the server"),
        Error::Server(ServerError { code: METHOD_NOT_FOUND, .. }) => {
            Some("The server does not support this method")
        }
        Error::Server(error) if is_denial(error) => {
            Some("Use a token with the required permission: --token or MCP_FLOW_TOKEN")
        }
        Error::Server(error) => match error.name()? {
            "SIGNATURE_REFUSED" => Some(SIGN),
            "UNKNOWN_TOOL" => Some("List the tools with `mcp-flow tools TARGET`"),
            "UNKNOWN_PROMPT" => Some("List the prompts with `mcp-flow prompts TARGET`"),
            "RESOURCE_NOT_FOUND" => Some("List the resources with `mcp-flow resources TARGET`"),
            "SESSION_NOT_FOUND" => Some("List the sessions with `mcp-flow sessions list`"),
            "SESSION_EXPIRED" => Some("Start a new one with `mcp-flow call`"),
            _ => None,
        },
        Error::Revision { .. } => Some("Choose another revision with --protocol-version"),
        Error::InvalidOutput { .. } => {
            Some("Report it to the author of the server; --accept-invalid-output shows the result")
        }
        Error::Protocol(_) => Some("Is this an MCP server?"),
        Error::Unfollowed { .. } => {
            Some("The task goes on: `mcp-flow tasks watch TARGET ID` follows it")
        }
        _ => None,
    }
}

/// Returns whether an address has a path, so that no other one was tried.
fn has_path(address: &str) -> bool {
    url::Url::parse(address).is_ok_and(|url| url.path() != "/")
}

/// Hint for signature errors.
const SIGN: &str = "Client and server need a common key: --signing-key-file for the client, [signing] for the server";

const LOG_IN: &str = "Run `mcp-flow login TARGET`, or pass a token with --token or MCP_FLOW_TOKEN";

/// Returns whether a retry cannot help: access is denied, or the server has no such method.
pub(crate) fn is_permanent(error: &ServerError) -> bool {
    is_denial(error)
        || error.name() == Some("SIGNATURE_REFUSED")
        || matches!(error.code, INVALID_REQUEST | METHOD_NOT_FOUND)
}

/// JSON-RPC error codes.
const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;

/// Returns whether authentication or authorization failed.
fn is_denial(error: &ServerError) -> bool {
    matches!(error.name(), Some("ACCESS_DENIED" | "UNAUTHORIZED" | "FORBIDDEN"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcp_flow::client::transport::TransportError;
    use mcp_flow::client::{Error, Revision, ServerError};
    use serde_json::json;

    use super::explain;
    use crate::exit::{Exit, Failure};

    /// INT-090, MCP-039: every failure has an exit code and a hint, and no control characters of the
    /// server reach the terminal.
    #[test]
    fn every_failure_names_the_next_step() {
        let connect = |source| Error::Connect { target: "http://h/mcp".to_owned(), source };
        let server = |name: &str| {
            Error::Server(ServerError {
                code: -32001,
                message: "no\u{1b}[2J".to_owned(),
                data: json!({"domain": "interaction", "name": name}),
            })
        };
        let unauthorized = TransportError::Unauthorized { what: "401".to_owned(), challenge: None };
        let unreachable =
            |what: &str| TransportError::Unreachable { what: what.to_owned(), source: None };
        for (error, exit, part) in [
            (
                connect(unreachable("refused")),
                Exit::Unreachable,
                "Check that the server is running",
            ),
            (connect(unreachable("bad certificate")), Exit::Unreachable, "--certificate-hash"),
            (connect(unauthorized), Exit::Denied, "--token"),
            (connect(TransportError::InvalidMessage("x".to_owned())), Exit::Protocol, "MCP server"),
            (server("ACCESS_DENIED"), Exit::Denied, "--token"),
            (server("SESSION_EXPIRED"), Exit::Failed, "Start a new one"),
            (server("SESSION_NOT_FOUND"), Exit::Failed, "sessions list"),
            (
                server("X\u{9b}"),
                Exit::Failed,
                "\n  data: {\"domain\":\"interaction\",\"name\":\"X\u{fffd}\"}",
            ),
            (
                Error::Server(ServerError {
                    code: -32003,
                    message: "Invalid state transition".to_owned(),
                    data: json!({"domain": "interaction", "name": "INVALID_STATE_TRANSITION",
                        "from": "completed", "to": "processing"}),
                }),
                Exit::Failed,
                "transition from completed to processing",
            ),
            (Error::Protocol("odd".to_owned()), Exit::Protocol, "odd"),
            (
                Error::Revision { wanted: Revision::V2025_11_25, offered: "2026-07-28".to_owned() },
                Exit::Protocol,
                "--protocol-version",
            ),
            (
                Error::Protocol("only revision control is odd".to_owned()),
                Exit::Protocol,
                "Is this an MCP server?",
            ),
            (Error::Denied("no".to_owned()), Exit::Denied, "no"),
            (Error::Usage("odd".to_owned()), Exit::Usage, "odd"),
            (
                Error::Timeout { what: "ping".to_owned(), limit: Duration::from_secs(1) },
                Exit::Unreachable,
                "--timeout",
            ),
        ] {
            let failure = explain(error);
            assert_eq!(Failure::exit_of(&failure), exit, "{failure:#}");
            let text = format!("{failure:#}");
            assert!(text.contains(part) && !text.contains('\u{1b}'), "{text}");
        }
    }
}
