//! `#[tool]` and its kin, as a user writes them and as a client sees them.

use std::sync::atomic::{AtomicU64, Ordering};

use mcp_flow::prelude::*;
use mcp_flow::{Revision, Server};
use mcp_flow_testkit::Peer;
use mcp_flow_testkit_fixture::memory;
use serde_json::{Value, json};

/// Add two numbers
#[tool(name = "calculator.add", title = "Addition", quick, read_only, open_world = false)]
pub(crate) fn add(
    /// First number
    a: f64,
    /// Second number
    b: f64,
) -> f64 {
    a + b
}

/// Repeat a word
///
/// As often as asked.
#[tool(category = "text", category = "play", meta(version = 2, note = "x"))]
fn repeat(
    #[param(length = 1..=10, example = "ho")] word: String,
    #[param(default = 2, range = 1..=5)] count: u8,
    separator: Option<String>,
    #[param(name = "inCapitals", default)] in_capitals: bool,
) -> String {
    let word = if in_capitals { word.to_uppercase() } else { word };
    vec![word; count.into()].join(separator.as_deref().unwrap_or(" "))
}

/// Size of a thing
#[data]
#[derive(Debug)]
#[serde(rename_all = "snake_case")]
enum Size {
    /// Fits in a hand
    Small,
    /// Does not
    Large,
}

#[data]
#[derive(Debug)]
struct Parcel {
    size: Size,
    weights: Vec<f64>,
    address: Address,
}

#[data]
#[derive(Debug)]
struct Address {
    city: String,
    /// Its size
    size: Option<Size>,
    near: Option<Box<Place>>,
}

/// A point
#[data]
#[derive(Debug)]
struct Place {
    x: f64,
}

#[data]
struct Quote {
    /// In cents
    price: u32,
    route: Vec<String>,
}

/// Price of sending a parcel
#[tool]
async fn quote(context: &Context, parcel: Parcel) -> Result<Quote, Failure> {
    context.progress(1.0, None, None);
    tokio::task::yield_now().await;
    if parcel.weights.is_empty() {
        return Err(Failure::new("NOTHING_TO_SEND", "Give at least one weight.").with("least", 1));
    }
    let price = if matches!(parcel.size, Size::Small) { 500 } else { 900 };
    Ok(Quote { price, route: vec![parcel.address.city] })
}

/// All arguments at once
#[tool(quick)]
fn describe(#[arguments] address: Address) -> Vec<Content> {
    vec![Content::text(address.city), Content::image([1], "image/png")]
}

/// Anything goes
#[tool(quick, allow_unknown_arguments)]
fn relaxed(r#type: Option<i64>) -> Structured<Vec<i64>> {
    Structured(r#type.into_iter().collect())
}

/// A parameter may be called like its tool
#[tool(quick)]
fn echo(echo: String) -> String {
    echo
}

/// Tool names do not clash with other names in scope.
mod hazards {
    use mcp_flow::prelude::*;

    /// Called like a parameter and a variable elsewhere
    #[tool(quick)]
    pub(crate) fn path(schema: String, map: Option<String>) -> String {
        let path = schema;
        map.unwrap_or(path)
    }

    /// Called like something derived code uses
    #[tool(quick)]
    #[expect(dead_code, reason = "it only has to compile")]
    fn schema(path: String) -> String {
        path
    }
}

/// Has nothing to say
#[tool(quick)]
fn silent() {}

/// Counts what it is told to count
#[derive(Default)]
struct Counter {
    total: AtomicU64,
}

#[tool(prefix = "counter.")]
impl Counter {
    /// Add to the count
    #[tool(quick)]
    fn count(
        &self,
        /// Number of them
        #[param(default = 1)]
        more: u64,
    ) -> u64 {
        self.total.fetch_add(more, Ordering::Relaxed) + more
    }

    /// Count later
    #[tool(name = "count_later")]
    async fn later(&self, context: Context, more: u64) -> String {
        tokio::task::yield_now().await;
        format!("{} of {}", self.count(more), context.tool().unwrap().definition().name)
    }

    /// Knows nothing of the count
    #[tool(quick)]
    fn zero() -> u64 {
        0
    }
}

/// MCP-025, MCP-088: a tool is listed with the name, doc comment and parameters of its function.
#[tokio::test]
async fn a_tool_is_listed_with_its_signature() {
    let mut peer = peer().await;
    let listed = peer.call("tools/list", json!({})).await["result"]["tools"].clone();
    let tool = |name: &str| {
        let tools = listed.as_array().unwrap();
        tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name}")).clone()
    };
    assert_eq!(
        tool("calculator.add"),
        json!({
            "name": "calculator.add",
            "title": "Addition",
            "description": "Add two numbers",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "a": {"description": "First number", "type": "number"},
                    "b": {"description": "Second number", "type": "number"},
                },
                "required": ["a", "b"],
                "additionalProperties": false,
            },
            "annotations": {"readOnlyHint": true, "openWorldHint": false},
        })
    );
    let repeat = tool("repeat");
    assert_eq!(repeat["description"], "Repeat a word\n\nAs often as asked.");
    assert_eq!(repeat["_meta"], json!({"categories": ["text", "play"], "version": 2, "note": "x"}));
    assert_eq!(
        repeat["inputSchema"],
        json!({
            "type": "object",
            "properties": {
                "word": {"type": "string", "minLength": 1, "maxLength": 10, "examples": ["ho"]},
                "count": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
                "separator": {"type": "string"},
                "inCapitals": {"type": "boolean", "default": false},
            },
            "required": ["word"],
            "additionalProperties": false,
        })
    );
    let parcel = &tool("quote")["inputSchema"]["properties"]["parcel"];
    assert_eq!(parcel["properties"]["size"]["oneOf"][0]["const"], "small");
    assert_eq!(tool("quote")["outputSchema"]["required"], json!(["price", "route"]));
    let address = &tool("describe")["inputSchema"];
    assert_eq!(address["required"], json!(["city"]));
    assert_eq!(address["properties"]["size"]["description"], "Its size");
    assert!(!address.to_string().contains("null"), "{address}");
    assert_eq!(tool("relaxed").get("outputSchema"), None, "only objects in this revision");
    assert_eq!(tool("counter.count")["description"], "Add to the count");
}

/// MCP-025, MCP-027: arguments are decoded as the types of the parameters.
#[tokio::test]
async fn arguments_are_decoded_as_declared() {
    let mut peer = peer().await;
    check(&mut peer, "calculator.add", json!({"a": 2, "b": 3}), "5").await;
    check(&mut peer, "repeat", json!({"word": "ho"}), "ho ho").await;
    check(&mut peer, "repeat", json!({"word": "ho", "separator": null}), "ho ho").await;
    check(&mut peer, "repeat", json!({"word": "ho", "count": 3.0}), "ho ho ho").await;
    check(&mut peer, "repeat", json!({"word": "a", "separator": "-", "count": 2}), "a-a").await;
    check(&mut peer, "repeat", json!({"word": "a", "inCapitals": true}), "A A").await;
    check(&mut peer, "describe", json!({"city": "Bern"}), "Bern").await;
    let full = json!({"city": "Bern", "size": "small", "near": {"x": 1}});
    check(&mut peer, "describe", full, "Bern").await;
    check(&mut peer, "describe", json!({"city": "B", "size": null, "near": null}), "B").await;
    check(&mut peer, "relaxed", json!({"type": 1, "other": 2}), "[1]").await;
    check(&mut peer, "counter.count", json!({}), "1").await;
    check(&mut peer, "counter.count_later", json!({"more": 4}), "5 of counter.count_later").await;
    check(&mut peer, "counter.zero", json!({}), "0").await;
    let nothing = peer.call_tool("silent", json!({})).await;
    assert_eq!(nothing["result"], json!({"content": [], "isError": false}));
}

/// PAT-030: invalid arguments never reach the function, and the result explains them.
#[tokio::test]
async fn invalid_arguments_are_explained() {
    let mut peer = peer().await;
    for (tool, arguments, expected) in [
        ("repeat", json!({"word": ""}), "word must not be empty"),
        ("repeat", json!({"word": "a", "count": 9}), "count must be at most 5, not 9"),
        ("repeat", json!({"word": "a", "cuont": 1}), "this tool takes word, count, separator"),
        ("quote", json!({"parcel": {"size": "huge"}}), "must be \\\"small\\\" or \\\"large\\\""),
        ("silent", json!({"a": 1}), "this tool takes none"),
    ] {
        let reply = peer.call_tool(tool, arguments).await;
        assert_eq!(reply["result"]["isError"], true, "{reply}");
        assert!(reply.to_string().contains(expected), "{reply}");
    }
}

/// MCP-028: a `Failure` is a result with a name and data.
#[tokio::test]
async fn a_failure_has_a_name() {
    let mut peer = peer().await;
    let mut parcel = json!({"size": "small", "weights": [], "address": {"city": "Bern"}});
    let failed = peer.call_tool("quote", json!({"parcel": parcel})).await["result"].clone();
    assert_eq!(failed["isError"], true);
    assert_eq!(failed["content"][0]["text"], "Give at least one weight.");
    assert_eq!(
        failed["_meta"]["error"]["data"],
        json!({"domain": "mcp", "name": "NOTHING_TO_SEND", "least": 1})
    );
    parcel["weights"] = json!([1.5]);
    let done = peer.call_tool("quote", json!({"parcel": parcel})).await["result"].clone();
    assert_eq!(done["structuredContent"], json!({"price": 500, "route": ["Bern"]}));
}

/// The attribute leaves the function unchanged.
#[tokio::test]
async fn a_tool_can_be_called_as_a_function() {
    assert!((add(2.0, 3.0) - 5.0).abs() < f64::EPSILON);
    assert_eq!(repeat("a".into(), 1, None, true), "A");
    assert_eq!(Counter::default().count(3), 3);
    silent();
}

fn server() -> Server {
    Server::builder("test", "1.0.0")
        .tools(tools![add, repeat, quote, describe, relaxed, silent, echo, hazards::path])
        .tools(Counter::default())
        .build()
        .unwrap()
}

async fn peer() -> Peer {
    let mut peer = memory::connect(&server());
    peer.initialize(Revision::V2025_11_25).await;
    peer
}

async fn check(peer: &mut Peer, tool: &str, arguments: Value, expected: &str) {
    let reply = peer.call_tool(tool, arguments).await;
    assert_eq!(reply["result"]["content"][0]["text"], expected, "{reply}");
}
