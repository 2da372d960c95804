//! `#[flow]`, as a user writes it and as a client sees it.

use mcp_flow::prelude::*;
use mcp_flow::question::{choice, custom, date, file, integer, number, text};
use mcp_flow::{Revision, Server};
use mcp_flow_testkit::Peer;
use mcp_flow_testkit_fixture::memory;
use serde_json::{Value, json};

/// Target of a deployment
#[data]
#[derive(Debug)]
enum Target {
    Staging,
    Production,
}

/// Deploy a service
#[flow(waits = "7d")]
async fn deploy(
    flow: Flow,
    service: String,
    /// Environment to deploy to
    target: Target,
    #[param(default = 1, range = 1..=9)] replicas: u8,
) -> FlowResult<String> {
    let version = flow.ask("version", text("Which version?").pattern(r"^\d+\.\d+$")).await?;
    Ok(format!("{replicas} of {service} {version} to {target:?}"))
}

/// Restart a service
#[flow]
async fn restart(flow: Flow, service: String) -> FlowResult<String> {
    flow.ask("reason", text("Why?")).await.map(|reason| format!("{service}: {reason}"))
}

#[data]
#[derive(Debug)]
struct Trip {
    city: Option<String>,
}

#[data]
#[derive(Debug)]
struct Seats {
    /// Number of seats
    #[schemars(range(min = 2))]
    count: Option<u8>,
    /// True to book
    sure: Option<bool>,
    /// Date of departure
    #[schemars(regex(pattern = r"^\d{4}-\d\d-\d\d$"))]
    day: Option<String>,
}

#[data]
#[derive(Debug)]
struct Point {
    x: f64,
}

const SEATS: [&str; 2] = ["window", "aisle"];

/// Reserve seats
#[flow]
async fn reserve(flow: Flow, _: Seats) -> FlowResult<String> {
    let [seats, sure, day] = ["How many?", "Sure?", "When?"].map(str::to_owned);
    let count = flow.ask("count", integer(seats)).await?;
    let day = flow.ask("day", text(day)).await?;
    let sure = flow.ask("sure", mcp_flow::question::confirm(sure)).await?;
    Ok(format!("{count} {day} {sure}"))
}

/// Plan a trip
#[flow]
async fn plan(flow: Flow, trip: Trip) -> FlowResult<String> {
    let city = flow.ask("city", text("Where to?").length(2..=50)).await?;
    let day = flow.ask("day", date("Which day?").after(flow.today())).await?;
    let party = flow.ask("party", integer(format!("How many to {city}?")).range(1..=9)).await?;
    let most = 1000.0;
    let budget = flow.ask("budget", number("How much?").range(0.0..=most)).await?;
    let seat = flow.ask("seat", choice("Which seat?", &SEATS)).await?;
    let ticket = flow.ask("ticket", file("Ticket?").mime_type("image/*").optional()).await?;
    let place = flow.ask("place", custom::<Point>("Where?")).await?;
    let hotels = [format!("Hotel {city}")];
    let hotel = flow.ask("hotel", choice("Which hotel?", &hotels)).await?;
    Ok(format!("{trip:?} {day} {party} {budget} {seat} {ticket:?} {place:?} {hotel}"))
}

/// Ask for as many names as are wanted
#[flow]
async fn names(flow: Flow) -> FlowResult<String> {
    let mut names = Vec::new();
    for number in 1..=2 {
        names.push(flow.ask(&format!("name_{number}"), text("Who?")).await?);
    }
    Ok(names.join(" and "))
}

/// Ask elsewhere
#[flow]
async fn elsewhere(flow: Flow) -> FlowResult<String> {
    ask_elsewhere(&flow).await
}

async fn ask_elsewhere(flow: &Flow) -> FlowResult<String> {
    flow.ask("name", text("Who?")).await
}

/// Functions of the author's that have the names of the library's constructors.
mod own {
    use super::*;
    use mcp_flow::question::{Integer, Question, Text};

    /// A question type of the author's.
    pub(super) struct Amount(Integer);

    impl Amount {
        pub(super) fn length(self, _: &str) -> Self {
            self
        }
    }

    impl Question for Amount {
        type Answer = i64;

        fn prompt(&self) -> &mcp_flow::session::prompt::Prompt {
            self.0.prompt()
        }

        fn read(&self, value: Value) -> Option<i64> {
            self.0.read(value)
        }
    }

    pub(super) fn number(message: &str) -> Amount {
        Amount(integer(message).range(1..=9))
    }

    pub(super) fn text(label: &str) -> Integer {
        integer(label)
    }

    pub(super) fn confirm(message: &str, limit: i64) -> Integer {
        integer(message).range(1..=limit)
    }

    pub(super) fn date(message: &str) -> Text {
        mcp_flow::question::text(message)
    }

    pub(super) fn choice(message: &str, most: u64) -> Text {
        mcp_flow::question::text(message).length(1..=most)
    }
}

/// Ask by functions of the author's own
#[flow]
async fn own_questions(flow: Flow) -> FlowResult<String> {
    let text = own::text;
    let amount = flow.ask("amount", own::number("How much?").length("short")).await?;
    let label = flow.ask("label", text("label")).await?;
    let limit = flow.ask("limit", own::confirm("Which limit?", 9)).await?;
    let day = flow.ask("day", own::date("Which day?")).await?;
    let seat = flow.ask("seat", own::choice("Which seat?", 3)).await?;
    Ok(format!("{amount} {label} {limit} {day} {seat}"))
}

/// Ask by the library's functions, whatever else has their names
#[flow]
async fn imported_questions(flow: Flow) -> FlowResult<String> {
    use mcp_flow::question::confirm;
    let date = flow.ask("date", date("Which day?")).await?;
    let sure = flow.ask("sure", confirm(format!("On {date}?"))).await?;
    Ok(format!("{date} {sure}"))
}

/// A function of the author's is not taken for the library's constructor of the same name: its key
/// is listed without a type, and no value is refused at the start by rules that the question does
/// not have.
#[tokio::test]
async fn own_question_functions_are_not_taken_for_the_library() {
    let mut peer = connect().await;
    let given = json!({"amount": 3, "label": 1, "limit": 9, "day": "soon", "seat": "12C"});
    let started = start(&mut peer, "own_questions", given).await;
    assert!(started.get("error").is_none(), "{started}");
    let listed = peer.call("tools/list", json!({})).await["result"]["tools"].clone();
    let properties = |name: &str| {
        let tools = listed.as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        tool["inputSchema"]["properties"].clone()
    };
    let own = properties("own_questions");
    for key in ["amount", "label", "limit", "day", "seat"] {
        assert_eq!(own[key].get("type"), None, "{key}: {own}");
    }
    let imported = properties("imported_questions");
    assert_eq!(imported["date"]["format"], "date", "{imported}");
    assert_eq!(imported["sure"]["type"], "boolean", "{imported}");
    let refused = start(&mut peer, "imported_questions", json!({"sure": "perhaps"})).await;
    assert_eq!(refused["error"]["data"]["field"], "sure", "{refused}");
}

/// A flow takes plain parameters as a tool does, one type for all of them, or one value.
#[tokio::test]
async fn parameters_are_arguments() {
    let mut peer = connect().await;
    let given = json!({"service": "web", "target": "Staging", "version": "1.2"});
    let reply = peer.call_tool("deploy", given).await;
    assert_eq!(reply["result"]["content"][0]["text"], "1 of web 1.2 to Staging", "{reply}");
    let given = json!({"service": "web", "reason": "slow"});
    let reply = peer.call_tool("restart", given).await;
    assert_eq!(reply["result"]["content"][0]["text"], "web: slow", "{reply}");
    let listed = peer.call("tools/list", json!({})).await["result"]["tools"].clone();
    let schema = |name: &str| {
        let tools = listed.as_array().unwrap();
        tools.iter().find(|tool| tool["name"] == name).unwrap()["inputSchema"].clone()
    };
    assert_eq!(schema("deploy")["required"], json!(["service", "target"]));
    assert_eq!(schema("deploy")["properties"]["target"]["description"], "Environment to deploy to");
    assert_eq!(schema("deploy")["properties"]["replicas"]["maximum"], 9);
    assert_eq!(schema("restart")["required"], json!(["service"]));
    assert_eq!(schema("plan")["properties"]["city"]["type"], "string");
    assert!(schema("plan").get("required").is_none());
    let refused = start(&mut peer, "deploy", json!({"service": "web"})).await;
    assert_eq!(refused["error"]["data"]["field"], "target", "{refused}");
}

/// INT-020, INT-082, C-58: what is given for a later question is refused at the start, by the rules
/// that are known without running the flow.
#[tokio::test]
async fn later_questions_are_checked_at_the_start() {
    let mut peer = connect().await;
    for (key, wrong) in [
        ("city", json!("X")),
        ("day", json!("tomorrow")),
        ("party", json!(10)),
        ("budget", json!("much")),
        ("seat", json!("roof")),
        ("ticket", json!({"uri": "file:///etc/passwd"})),
        ("ticket", json!({"name": "a.txt", "mimeType": "text/plain", "data": "AAAA"})),
        ("place", json!({"x": "far"})),
    ] {
        let refused = start(&mut peer, "plan", json!({key: wrong})).await;
        assert_eq!(refused["error"]["code"], -32004, "{key}: {refused}");
        assert_eq!(refused["error"]["data"]["field"], key, "{refused}");
    }
    // What only the running flow knows is not judged before it asks.
    for given in [
        json!({"day": "1999-01-31", "budget": 1001, "hotel": "Hotel Paris"}),
        json!({"seat": "aisle", "place": {"x": 1.5}, "ticket": {"uri": "https://example.org/a"}}),
        json!({"party": null, "ticket": {"name": "a.png", "mimeType": "image/png", "data": ""}}),
    ] {
        let started = start(&mut peer, "plan", given).await;
        let asked = &started["result"]["initialPrompt"]["metadata"]["key"];
        assert_eq!(asked, "city", "{started}");
    }
    let reply = peer.call_tool("plan", json!({"city": "Oslo", "day": "tomorrow"})).await;
    let told = &reply["result"]["_meta"]["error"]["data"]["violations"][0];
    assert_eq!(told["pointer"], "/day", "{reply}");
    assert!(told["message"].as_str().unwrap().contains("YYYY-MM-DD"), "{reply}");
}

/// INT-020, INT-100: a name that the flow does not know is refused, with the one that may have been
/// meant; a flow whose names are not all known takes any.
#[tokio::test]
async fn unknown_parameters_are_refused() {
    let mut peer = connect().await;
    let refused = start(&mut peer, "plan", json!({"ctiy": "Oslo"})).await;
    let error = &refused["error"];
    assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32004), &json!("ctiy")));
    assert!(error["message"].as_str().unwrap().contains("did you mean city?"), "{refused}");
    let reply = peer.call_tool("restart", json!({"service": "web", "raeson": "slow"})).await;
    let text = reply["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("did you mean reason?"), "{reply}");
    let reply = peer.call_tool("names", json!({"name_1": "Ada", "name_2": "Bob"})).await;
    assert_eq!(reply["result"]["content"][0]["text"], "Ada and Bob", "{reply}");
    let reply = peer.call_tool("elsewhere", json!({"name": "Ada"})).await;
    assert_eq!(reply["result"]["content"][0]["text"], "Ada", "{reply}");
}

/// INT-020: what an invalid parameter should be is said by its question, or by its description.
#[tokio::test]
async fn invalid_parameters_come_with_a_suggestion() {
    let mut peer = connect().await;
    for (flow, key, wrong, suggestion) in [
        ("plan", "seat", "roof", "Use one of window, aisle"),
        ("reserve", "day", "tomorrow", "It should be: Date of departure"),
    ] {
        let refused = start(&mut peer, flow, json!({key: wrong})).await;
        assert_eq!(refused["error"]["data"]["suggestion"], suggestion, "{refused}");
    }
}

/// INT-100: what is missing has the schema that is listed, and an example of its type.
#[tokio::test]
async fn missing_values_have_examples_of_their_types() {
    let mut peer = connect().await;
    let reply = peer.call_tool("reserve", json!({"count": 3})).await;
    let told = &reply["result"]["_meta"]["error"]["data"];
    assert_eq!(told["example"], json!({"count": 3, "day": "…", "sure": true}), "{reply}");
    let schema = json!({"type": "boolean", "description": "True to book"});
    assert_eq!(told["missing"][1], json!({"key": "sure", "schema": schema}), "{reply}");
    let reply = peer.call_tool("plan", json!({"city": "Oslo"})).await;
    let told = &reply["result"]["_meta"]["error"]["data"];
    assert_eq!(told["example"]["place"], json!({"x": 1}), "{reply}");
}

/// INT-022, INT-071: a flow waits as long as it says, one that says nothing as long as the protocol
/// has it, and a day if it was called as a tool.
#[tokio::test]
async fn a_flow_says_how_long_it_waits() {
    let mut peer = connect().await;
    let given = json!({"service": "web", "target": "Staging"});
    let started = start(&mut peer, "deploy", given).await;
    assert_eq!(started["result"]["_meta"]["timeout"], 7 * DAY, "{started}");
    let started = start(&mut peer, "restart", json!({"service": "web"})).await;
    assert_eq!(started["result"]["_meta"]["timeout"], 300_000, "{started}");
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}});
    let params = json!({"name": "names", "arguments": {}, "_meta": meta});
    let asked = peer.call("tools/call", params).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let listed = peer.call("interaction.list", json!({})).await["result"]["sessions"].clone();
    let called = listed.as_array().unwrap().iter().find(|one| one["toolName"] == "names").unwrap();
    let time = |name: &str| called[name].as_u64().unwrap();
    assert_eq!(time("expiresAt") - time("lastActivityAt"), DAY, "{called}");
}

const DAY: u64 = 24 * 60 * 60 * 1000;

async fn start(peer: &mut Peer, flow: &str, params: Value) -> Value {
    peer.call("interaction.start", json!({"toolName": flow, "initialParams": params})).await
}

async fn connect() -> Peer {
    let flows =
        flows![deploy, restart, reserve, plan, names, elsewhere, own_questions, imported_questions];
    let server = Server::builder("flows", "1.0.0").flows(flows).build().unwrap();
    let mut peer = memory::connect(&server);
    peer.initialize(Revision::V2025_11_25).await;
    peer
}
