//! A minimal correct HTTP server, written by hand with axum.
//!
//! It has one tool and no sessions, revisions, streams, limits or cancellation. The difference to
//! MCP Flow is the cost of those.

use std::fmt;

use axum::{
    Json, Router,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Runtime, listener};
use crate::report::name;

/// The configuration axum leaves to its user.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Settings {
    #[arg(long, value_enum)]
    runtime: Runtime,
}

pub(crate) fn serve(settings: Settings) -> anyhow::Result<()> {
    let router = Router::new().route("/mcp", post(answer));
    Ok(settings.runtime.build()?.block_on(listener::serve(router))?)
}

impl Settings {
    /// Iterates over all configurations, to find the fastest on this machine.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Runtime::value_variants().iter().map(|&runtime| Self { runtime })
    }

    /// Returns the arguments that `benches serve-axum` parses to these settings.
    pub(crate) fn to_arguments(self) -> Vec<String> {
        vec![format!("--runtime={}", name(&self.runtime))]
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&name(&self.runtime))
    }
}

async fn answer(Json(Request { id, method, params }): Json<Request>) -> Response {
    let Some(id) = id else { return StatusCode::ACCEPTED.into_response() };
    match (method.as_str(), params) {
        ("tools/call", Params { name: Some(name), arguments: Some(Addends { a, b }) })
            if name == "calculator.add" =>
        {
            Json(Reply::sum(id, a + b)).into_response()
        }
        ("initialize", _) => Json(initialized(&id)).into_response(),
        _ => Json(refused(&id)).into_response(),
    }
}

#[derive(Deserialize)]
struct Request {
    id: Option<Value>,
    method: String,
    #[serde(default)]
    params: Params,
}

#[derive(Default, Deserialize)]
struct Params {
    name: Option<String>,
    arguments: Option<Addends>,
}

#[derive(Deserialize)]
struct Addends {
    a: f64,
    b: f64,
}

#[derive(Serialize)]
struct Reply {
    jsonrpc: &'static str,
    id: Value,
    result: CallResult,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallResult {
    content: [Content; 1],
    is_error: bool,
}

#[derive(Serialize)]
struct Content {
    r#type: &'static str,
    text: String,
}

impl Reply {
    fn sum(id: Value, sum: f64) -> Self {
        let content = [Content { r#type: "text", text: sum.to_string() }];
        Self { jsonrpc: "2.0", id, result: CallResult { content, is_error: false } }
    }
}

fn initialized(id: &Value) -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": id,
        "result": {
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "bare-axum", "version": "0.1.0" },
        },
    })
}

fn refused(id: &Value) -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": id,
        "error": { "code": -32601, "message": "only calculator.add is known here" },
    })
}
