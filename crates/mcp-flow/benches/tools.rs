//! Cost of a tool call: by attribute and by builder, and of the argument check.
//!
//! `cargo bench -p mcp-flow --bench tools`. Rounds of the two kinds take turns, and the median
//! round counts, so that both meet the same machine.

#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use mcp_flow::prelude::*;
use mcp_flow::{Connection, ConnectionInfo};
use mcp_flow_proto::Raw;
use serde_json::json;

/// Add two numbers
#[tool(quick)]
fn by_attribute(a: f64, b: f64) -> f64 {
    a + b
}

#[derive(serde::Deserialize)]
struct Pair {
    a: f64,
    b: f64,
}

fn by_hand() -> Tool {
    let number = json!({"type": "number"});
    Tool::builder("by_hand")
        .description("Add two numbers")
        .input_schema(json!({
            "type": "object",
            "properties": {"a": number, "b": number},
            "required": ["a", "b"],
            "additionalProperties": false
        }))
        .quick(|_: &Context, Pair { a, b }: Pair| a + b)
        .unwrap()
}

/// Twenty fields of the kinds that are common
#[tool(quick)]
#[expect(clippy::too_many_arguments, reason = "that is what is measured")]
fn many(
    name: String,
    #[param(length = 1..=200)] street: String,
    #[param(range = 1..=9999)] number: u32,
    city: String,
    #[param(default)] country: String,
    latitude: f64,
    longitude: f64,
    active: bool,
    verified: bool,
    #[param(range = 0..=150)] age: u8,
    score: f64,
    level: i64,
    note: Option<String>,
    tags: Vec<String>,
    weights: Vec<f64>,
    size: Size,
    parent: Option<u64>,
    created: String,
    changed: String,
    comment: Option<String>,
) -> u8 {
    black_box((name, street, number, city, country, latitude, longitude, active, verified, score));
    black_box((level, note, tags, weights, size, parent, created, changed, comment));
    age
}

#[data]
#[serde(rename_all = "snake_case")]
enum Size {
    Small,
    Large,
}

fn main() {
    let server = Server::builder("bench", "1")
        .tools((tools![by_attribute, many], by_hand()))
        .build()
        .unwrap();
    let connection = server.connect(ConnectionInfo::new("bench")).unwrap();
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
    connection.receive(hello.as_bytes());

    let (mut attribute, mut hand) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        attribute.push(calls(&connection, "by_attribute"));
        hand.push(calls(&connection, "by_hand"));
    }
    let (attribute, hand) = (median(attribute), median(hand));
    let ratio = attribute.as_secs_f64() / hand.as_secs_f64();
    eprintln!("a call: by attribute {attribute:?}, by hand {hand:?}");
    eprintln!("by attribute / by hand <= 1.1: {ratio:.3} {}", verdict(ratio <= 1.1));

    let tool = mcp_flow::IntoTools::into_tools(tools![many]).unwrap().remove(0);
    let arguments = arguments().to_string();
    let check = |_: u32| tool.check(Raw::Json(black_box(&arguments))).unwrap();
    let time = median((0..ROUNDS).map(|_| per_iteration(check)).collect());
    let held = time < Duration::from_micros(3);
    eprintln!("check of 20 fields in {} bytes < 3 us: {time:?} {}", arguments.len(), verdict(held));
}

/// Measures one call, from its frame to its reply.
fn calls(connection: &Connection, tool: &str) -> Duration {
    let frame = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"a":2,"b":3}}}}}}"#
    );
    per_iteration(|_| {
        connection.receive(black_box(frame.as_bytes()));
        let reply = connection.take_output().unwrap();
        connection.recycle(reply);
    })
}

fn per_iteration(mut work: impl FnMut(u32)) -> Duration {
    let start = Instant::now();
    (0..ITERATIONS).for_each(&mut work);
    start.elapsed() / ITERATIONS
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn verdict(held: bool) -> &'static str {
    if held { "held" } else { "NOT held" }
}

fn arguments() -> serde_json::Value {
    json!({
        "name": "Ada Example", "street": "Long Road", "number": 17, "city": "Bern",
        "country": "Switzerland", "latitude": 46.95, "longitude": 7.45, "active": true,
        "verified": false, "age": 42, "score": 0.75, "level": -3, "note": null,
        "tags": ["a", "bb", "ccc"], "weights": [1, 2.5], "size": "large", "parent": 12345,
        "created": "2026-01-01T00:00:00Z", "changed": "2026-02-01T00:00:00Z",
        "comment": "a sentence of usual length, with a few words"
    })
}

const ROUNDS: u32 = 15;
const ITERATIONS: u32 = 100_000;
