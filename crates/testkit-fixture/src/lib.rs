//! The server that scenarios run against, and the gate that controls its slow tools.
//!
//! [`memory`] connects a peer to a server without I/O.

// A failed expectation panics with the reason: that is how a test learns of it.
#![allow(clippy::panic, clippy::unwrap_used)]

mod client_requests;
mod flows;
pub mod memory;
mod prompts;

use std::sync::Arc;

use mcp_flow_proto::model::LogLevel;
use mcp_flow_server::{Context, Limits, Server, ServerBuilder, Tool, ToolOutput};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

pub use prompts::prompts;

/// Test server whose slow tools wait for the test instead of the clock.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// The server.
    pub server: Server,
    /// Gate that releases waiting tools.
    pub gate: Arc<Gate>,
}

/// Gate at which tools wait until a test releases them.
#[derive(Debug, Default)]
pub struct Gate {
    open: Notify,
    waiting: watch::Sender<usize>,
}

impl Gate {
    /// Releases one waiting call, or the next one that arrives.
    pub fn release_one(&self) {
        self.open.notify_one();
    }

    /// Releases all calls that wait now.
    pub fn release_all(&self) {
        self.open.notify_waiters();
    }

    /// Waits until exactly `count` calls are at the gate.
    pub async fn until_waiting(&self, count: usize) {
        let mut waiting = self.waiting.subscribe();
        let reached = waiting.wait_for(|waiting| *waiting == count);
        let _ = tokio::time::timeout(std::time::Duration::from_secs(30), reached)
            .await
            .expect("the calls get there");
    }

    pub(crate) async fn pass(&self) {
        let _inside = Inside::new(&self.waiting);
        self.open.notified().await;
    }
}

/// Counts a call as waiting until it is dropped.
struct Inside<'a>(&'a watch::Sender<usize>);

impl<'a> Inside<'a> {
    fn new(waiting: &'a watch::Sender<usize>) -> Self {
        waiting.send_modify(|waiting| *waiting += 1);
        Self(waiting)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

impl Fixture {
    /// The default server.
    pub fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    /// The default server with other limits.
    pub fn with_limits(limits: Limits) -> Self {
        Self::with(|builder| builder.limits(limits))
    }

    /// The default server, changed by `add`.
    pub fn with(add: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let gate = Arc::new(Gate::default());
        let builder = Server::builder("fixture", "1.2.3")
            .description("A server to be tried")
            .instructions("Call add to add.")
            .tools(tools(&gate));
        let server = add(builder).build().expect("the fixture's tools are good");
        Self { server, gate }
    }
}

impl Default for Fixture {
    fn default() -> Self {
        Self::new()
    }
}

fn tools(gate: &Arc<Gate>) -> Vec<Tool> {
    let (async_gate, blocking_gate) = (gate.clone(), gate.clone());
    let numbers = json!({
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
        "additionalProperties": false
    });
    let built = [
        Tool::builder("math.add").description("Adds").input_schema(numbers).quick(
            |_: &Context, arguments: Value| {
                arguments["a"].as_f64().unwrap_or_default()
                    + arguments["b"].as_f64().unwrap_or_default()
            },
        ),
        Tool::builder("wait").handler(move |_: Context, _: Value| {
            let gate = async_gate.clone();
            async move {
                gate.pass().await;
                "done"
            }
        }),
        Tool::builder("wait_blocking").blocking(move |context: &Context, _: Value| {
            let _inside = Inside::new(&blocking_gate.waiting);
            while !context.is_cancelled() {
                std::thread::yield_now();
            }
            "stopped"
        }),
        Tool::builder("fail").quick(|_: &Context, _: Value| Err::<(), _>("it did not work")),
        Tool::builder("panic").quick(|_: &Context, _: Value| -> () { panic!("secret detail") }),
        Tool::builder("panic_later").handler(async |_: Context, _: Value| -> () {
            tokio::task::yield_now().await;
            panic!("secret detail")
        }),
        Tool::builder("panic_blocking")
            .blocking(|_: &Context, _: Value| -> () { panic!("secret detail") }),
        Tool::builder("report").handler(report),
        Tool::builder("ask_client").handler(ask_client),
        Tool::builder("ask_client_twice").handler(async |context: Context, arguments: Value| {
            let both =
                (ask_client(context.clone(), arguments.clone()), ask_client(context, arguments));
            let (first, second) = tokio::join!(both.0, both.1);
            Ok::<_, String>(first? + &second?)
        }),
        Tool::builder("who").quick(|context: &Context, _: Value| {
            let name = context.peer().map_or("nobody", |peer| peer.name()).to_owned();
            ToolOutput::structured(json!({
                "client": name,
                "principal": context.principal().name(),
                "revision": context.revision().name(),
            }))
        }),
    ];
    let built = built.into_iter().chain(client_requests::tools());
    built.map(|tool| tool.expect("the fixture's tools are good")).collect()
}

/// Reports progress that also falls, and logs at two levels.
async fn report(context: Context, _: Value) -> &'static str {
    for progress in [1.0, 2.0, 1.5, 3.0] {
        context.progress(progress, Some(3.0), Some("working"));
        tokio::task::yield_now().await;
    }
    context.log(LogLevel::Debug, Some("report"), "small talk");
    context.log(LogLevel::Error, Some("report"), json!({"broken": true}));
    "reported"
}

async fn ask_client(context: Context, _: Value) -> Result<String, String> {
    let answer: Value = context
        .client()
        .request("roots/list", &json!({}))
        .await
        .map_err(|error| error.to_string())?;
    Ok(answer.to_string())
}
