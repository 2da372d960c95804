//! Benchmark of the encodings: a list of 200 tools from values to a frame and back.
//!
//! `cargo run --release -p benches -- cbor` runs this and checks the numbers. It prints one line of
//! JSON: for each encoding the size of the frame in bytes, and the median time in nanoseconds to
//! encode and to decode it. Rounds alternate between the encodings, so that both see the same
//! conditions.

#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::hint::black_box;
use std::time::Instant;

use mcp_flow_proto::model::{ListResult, ToolAnnotations, ToolDefinition};
use mcp_flow_proto::{Encoding, Incoming, Message, Revision, write};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A tool list as a client decodes it.
#[derive(Debug, Deserialize)]
struct Listed {
    tools: Vec<ListedTool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "they are decoded, and that is what is measured")]
struct ListedTool {
    name: String,
    title: Option<String>,
    description: Option<String>,
    input_schema: Map<String, Value>,
    output_schema: Option<Map<String, Value>>,
    annotations: Option<ToolAnnotations>,
}

fn main() {
    let tools: Vec<_> = (0..TOOLS).map(tool).collect();
    let mut times = [(); 4].map(|()| Vec::new());
    for _ in 0..ROUNDS {
        for (index, encoding) in Encoding::ALL.into_iter().enumerate() {
            let frame = encode(&tools, encoding);
            times[2 * index].push(time(|| drop(black_box(encode(black_box(&tools), encoding)))));
            times[2 * index + 1].push(time(|| decode(black_box(&frame), encoding)));
        }
    }
    let [encode_json, decode_json, encode_cbor, decode_cbor] = times.map(median);
    let bytes = |encoding| encode(&tools, encoding).len();
    print(&json!({
        "json": {"bytes": bytes(Encoding::Json), "encode": encode_json, "decode": decode_json},
        "cbor": {"bytes": bytes(Encoding::Cbor), "encode": encode_cbor, "decode": decode_cbor},
    }));
}

fn encode(tools: &[ToolDefinition], encoding: Encoding) -> Vec<u8> {
    let entries = tools.iter().map(|tool| tool.wire((&tool.name).into(), Revision::V2025_11_25));
    let (name, next_cursor, stateless) = ("tools", None, None);
    let list = ListResult { name, entries: entries.collect(), next_cursor, stateless };
    let mut frame = Vec::new();
    write::result(&mut frame, encoding, &7.into(), &encoding.encode(&list).unwrap());
    frame
}

fn decode(frame: &[u8], encoding: Encoding) {
    let Ok(Incoming::Message(Message::Response(response))) = Incoming::decode(frame, encoding)
    else {
        unreachable!("it was encoded as a response")
    };
    let listed: Listed = response.outcome.unwrap().decode().unwrap();
    assert_eq!(black_box(listed).tools.len(), TOOLS);
}

/// Creates a typical tool: a few sentences, a few arguments, sometimes an output schema.
fn tool(number: usize) -> ToolDefinition {
    let object = |value: Value| value.as_object().cloned().unwrap();
    let words = ["invoice", "customer", "shipment", "calendar", "repository"][number % 5];
    ToolDefinition {
        name: format!("{words}.update_{number}"),
        title: Some(format!("Update {words} {number}")),
        description: Some(format!(
            "Update one {words} and return what it is afterwards. Fields that are left out stay as \
             they are; use {words}.list to find the identifier."
        )),
        input_schema: object(json!({
            "type": "object",
            "properties": {
                "identifier": {"type": "string", "minLength": 1, "maxLength": 64,
                               "description": format!("Which {words} to update")},
                "amount": {"type": "number", "minimum": 0, "maximum": 1e6, "default": 12.5},
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 20},
                "state": {"type": "string", "enum": ["open", "closed", "archived"]},
                "urgent": {"type": "boolean", "default": false},
            },
            "required": ["identifier", "state"],
            "additionalProperties": false,
        })),
        output_schema: number.is_multiple_of(3).then(|| {
            object(json!({
                "type": "object",
                "properties": {"identifier": {"type": "string"}, "version": {"type": "integer"}},
                "required": ["identifier", "version"],
            }))
        }),
        annotations: Some(ToolAnnotations {
            read_only_hint: Some(false),
            idempotent_hint: Some(true),
            ..ToolAnnotations::default()
        }),
        ..ToolDefinition::default()
    }
}

/// Returns the average time in nanoseconds.
fn time(mut work: impl FnMut()) -> u64 {
    let start = Instant::now();
    (0..ITERATIONS).for_each(|_| work());
    u64::try_from((start.elapsed() / ITERATIONS).as_nanos()).unwrap()
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times[times.len() / 2]
}

#[expect(clippy::print_stdout, reason = "whoever runs this reads the line")]
fn print(line: &Value) {
    println!("{line}");
}

const TOOLS: usize = 200;
const ROUNDS: usize = 31;
const ITERATIONS: u32 = 20;
