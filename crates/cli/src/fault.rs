//! What went wrong with a server, what to do about it, and the exit code that says so.

use mcp_flow::client::neutral::shorten;
use mcp_flow::client::transport::TransportError;
use mcp_flow::client::{Error, ServerError};
use serde_json::Value;

use crate::exit::{Exit, Failure};
use crate::show::neutral;

/// An error of the client, with its exit code and the next step.
pub(crate) fn explain(error: Error) -> anyhow::Error {
    let exit = exit(&error);
    let message = neutral(&error.to_string());
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

/// What a server says of an error beside its message, on a line of its own (MCP-039).
fn data(error: &ServerError) -> String {
    let mut data = error.data.clone();
    if let Some(members) = data.as_object_mut() {
        // They are part of the message already.
        members.remove("details");
    }
    match &data {
        Value::Null => String::new(),
        Value::Object(members) if members.is_empty() => String::new(),
        data => format!("\n  data: {}", shorten(&data.to_string(), LONGEST_DATA)),
    }
}

/// Limit on the characters of an error's data that are shown.
const LONGEST_DATA: usize = 2000;

/// How one logs in to the server that an error is about.
fn login(error: &Error) -> String {
    match error {
        Error::Connect { target, .. } => format!("login {}", neutral(target)),
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
            | TransportError::Garbage(_) => Exit::Protocol,
            TransportError::Untrusted(_) => Exit::Denied,
            _ => Exit::Unreachable,
        },
        Error::Timeout { .. } | Error::Closed => Exit::Unreachable,
        Error::Denied(_) => Exit::Denied,
        Error::Tool(_) => Exit::Failed,
        Error::Usage(_) => Exit::Usage,
        Error::Server(error) if is_denial(error) => Exit::Denied,
        Error::Server(error) if error.name() == Some("SIGNATURE_REFUSED") => Exit::Denied,
        // A conversation that has ended, or never was, is no fault of the protocol's.
        Error::Server(error) if error.data["domain"] == "interaction" => Exit::Failed,
        _ => Exit::Protocol,
    }
}

/// What to do next, if there is anything.
fn hint(error: &Error) -> Option<&'static str> {
    match error {
        Error::Connect { source, .. } => match source {
            TransportError::Unauthorized { .. } | TransportError::Refused { status: 401, .. } => {
                Some(LOG_IN)
            }
            TransportError::Refused { status: 403, .. } => {
                Some("The server does not let this client in; its --host and --allow-origin decide")
            }
            TransportError::Refused { status: 404, .. } | TransportError::Unsuitable(_) => {
                Some("Check the path: it often is /mcp")
            }
            TransportError::Garbage(_) => Some("Is this an MCP server?"),
            TransportError::Untrusted(_) => Some(SIGN),
            TransportError::Unreachable { what, .. } if what.contains("certificate") => Some(
                "If you trust it, give its --certificate-hash, or its certificate authority with --ca-file",
            ),
            TransportError::Lost(_) => Some("See the server's output"),
            _ => Some("Check that it runs, and its address"),
        },
        Error::Lost { source: TransportError::Untrusted(_), .. } => Some(SIGN),
        Error::Lost { .. } => Some("It may have been carried out: check before you try again"),
        Error::Timeout { .. } => Some("Allow more with --time-limit, or check the server"),
        Error::Server(ServerError { code: METHOD_NOT_FOUND, .. }) => {
            Some("This server does not offer that")
        }
        Error::Server(error) if is_denial(error) => {
            Some("Give a token that is allowed to, with --token or MCP_FLOW_TOKEN")
        }
        Error::Server(error) => match error.name()? {
            "SIGNATURE_REFUSED" => Some(SIGN),
            "UNKNOWN_TOOL" => Some("`mcp-flow tools TARGET` lists what there is"),
            "UNKNOWN_PROMPT" => Some("`mcp-flow prompts TARGET` lists what there is"),
            "RESOURCE_NOT_FOUND" => Some("`mcp-flow resources TARGET` lists what there is"),
            "SESSION_NOT_FOUND" => Some("`mcp-flow sessions list` shows those there are"),
            "SESSION_EXPIRED" => Some("Start it anew with `mcp-flow call`"),
            _ => None,
        },
        Error::Revision { .. } => Some("Choose another one with --protocol-version"),
        Error::Protocol(_) => Some("Is this an MCP server?"),
        _ => None,
    }
}

/// What to do about signatures.
const SIGN: &str = "Both ends need a key in common: --signing-key-file here, [signing] there";

const LOG_IN: &str = "Run `mcp-flow login TARGET`, or give a token with --token or MCP_FLOW_TOKEN";

/// Returns whether asking again cannot help: the client has no permission, or the server no such
/// method.
pub(crate) fn is_permanent(error: &ServerError) -> bool {
    is_denial(error)
        || error.name() == Some("SIGNATURE_REFUSED")
        || matches!(error.code, INVALID_REQUEST | METHOD_NOT_FOUND)
}

/// JSON-RPC's codes for a request that makes no sense, and for one that nobody answers.
const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;

/// Whether the server knows what is asked for and does not want this client to have it.
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

    /// INT-090, MCP-039: every failure has its exit code and says what to do; what the server says
    /// in it cannot act on the terminal.
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
            (connect(unreachable("refused")), Exit::Unreachable, "Check that it runs"),
            (connect(unreachable("bad certificate")), Exit::Unreachable, "--certificate-hash"),
            (connect(unauthorized), Exit::Denied, "--token"),
            (connect(TransportError::Garbage("x".to_owned())), Exit::Protocol, "MCP server"),
            (server("ACCESS_DENIED"), Exit::Denied, "--token"),
            (server("SESSION_EXPIRED"), Exit::Failed, "anew"),
            (server("SESSION_NOT_FOUND"), Exit::Failed, "sessions list"),
            (
                server("X\u{9b}"),
                Exit::Failed,
                "\n  data: {\"domain\":\"interaction\",\"name\":\"X\u{fffd}\"}",
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
                "--time-limit",
            ),
        ] {
            let failure = explain(error);
            assert_eq!(Failure::exit_of(&failure), exit, "{failure:#}");
            let told = format!("{failure:#}");
            assert!(told.contains(part) && !told.contains('\u{1b}'), "{told}");
        }
    }
}
