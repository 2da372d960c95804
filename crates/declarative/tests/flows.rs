//! Flow files: questions, calls, approvals, versions.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_declarative::Trust;
use mcp_flow_server::Principal;
use mcp_flow_server::permissions::{AccessRule, Names};
use mcp_flow_session::MemoryStore;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Tools, until};

/// A session, as a client without push runs it.
struct Session<'a> {
    tools: &'a Tools,
    id: String,
    next: Value,
}

impl<'a> Session<'a> {
    async fn start(tools: &'a Tools, name: &str, params: Value) -> Self {
        let params = json!({"toolName": name, "initialParams": params});
        let (result, _) = tools.request("interaction.start", params).await;
        let id = result["sessionId"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned();
        let mut session = Self { tools, id, next: result["next"].clone() };
        session.settle().await;
        session
    }

    async fn answer(&mut self, value: Value) {
        let params = json!({"sessionId": self.id, "response": {"value": value}});
        let (result, _) = self.tools.request("interaction.respond", params).await;
        assert_eq!(result["accepted"], true, "{value}: {result}");
        self.next = result["next"].clone();
        self.settle().await;
    }

    async fn settle(&mut self) {
        while self.next["pending"] == true {
            let params = json!({"sessionId": self.id});
            let (result, _) = self.tools.request("interaction.continue", params).await;
            self.next = result["next"].clone();
        }
    }

    fn message(&self) -> &str {
        self.next["prompt"]["message"].as_str().unwrap_or_else(|| panic!("{}", self.next))
    }

    fn data(&self) -> &Value {
        let data = &self.next["complete"]["result"]["data"];
        // What is not an object is the member of one.
        data.get("value").unwrap_or(data)
    }
}

fn example(name: &str) -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tools");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

#[tokio::test]
async fn a_flow_asks_all_types_of_questions() {
    let tools = Tools::of(&example("survey.yaml"));
    let mut session = Session::start(&tools, "survey", json!({})).await;
    session.answer(json!("Ada")).await;
    assert_eq!(session.message(), "Which color, Ada?");
    assert_eq!(session.next["prompt"]["choices"][1], json!({"value": "b", "label": "Blue"}));
    for (kind, value) in [
        ("choice", json!("b")),
        ("number", json!(3)),
        ("date", json!("2026-01-02")),
        ("file", Value::Null),
        ("custom", json!({"city": "Ulm"})),
        ("confirm", json!(true)),
    ] {
        assert_eq!(session.next["prompt"]["type"], kind, "{}", session.next);
        session.answer(value).await;
    }
    let data = session.data();
    assert_eq!(data["ordered"], 3, "{data}");
    assert_eq!((&data["color"], &data["city"]), (&json!("b"), &json!("Ulm")));
    assert_eq!(data["boxes"][1], "large for Ada");
}

/// The same flow as a plain tool: every value is an argument.
#[tokio::test]
async fn a_flow_takes_all_values_upfront() {
    let tools = Tools::of(&example("survey.yaml"));
    let arguments = json!({"name": "Ada", "color": "r", "count": 2, "day": "2026-01-02", "note": "",
        "address": {"city": "Ulm"}, "sure": false});
    let (result, _) = tools.call("survey", arguments).await;
    assert_eq!(result["structuredContent"], json!({"ordered": 0}), "{result}");
    let (result, _) = tools.call("survey", json!({"name": "Ada", "color": "green"})).await;
    let text = result.to_string();
    assert!(text.contains("color"), "{text}");
}

#[tokio::test]
async fn approvals_are_given_by_a_person_only() {
    let tools = Tools::of(&example("deploy.yaml"));
    assert_eq!(tools.listed().await, ["deploy"], "internal tools are not listed");
    let (result, _) = tools.call("deploy.run", json!({})).await;
    assert!(result.to_string().contains("Unknown tool"), "{result}");
    // Neither an argument nor a parameter of the start approves.
    let given = json!({"service": "shop", "version": "1.2.3", "environment": "production", "approve": true});
    let (result, _) = tools.call("deploy", given.clone()).await;
    assert!(result.to_string().contains("approve"), "{result}");
    let start = json!({"toolName": "deploy", "initialParams": given});
    let (result, _) = tools.request("interaction.start", start).await;
    assert!(result["sessionId"].is_null(), "{result}");
    let given = json!({"service": "shop", "version": "1.2.3", "environment": "production"});
    let mut session = Session::start(&tools, "deploy", given.clone()).await;
    assert_eq!(session.message(), "Deploy shop 1.2.3 to production?");
    session.answer(json!(true)).await;
    let log = &session.data()["log"];
    assert_eq!(*log, "deploying shop 1.2.3 to production");
    let mut session = Session::start(&tools, "deploy", given).await;
    session.answer(json!(false)).await;
    let result = &session.next["complete"]["result"];
    assert_eq!(result["success"], false, "{result}");
    assert_eq!(result["error"]["message"], "Not approved: Deploy shop 1.2.3 to production?");
    // Without production nobody needs to approve.
    let given = json!({"service": "shop", "version": "1.2.3", "environment": "staging"});
    let (result, _) = tools.call("deploy", given).await;
    assert_eq!(result["structuredContent"]["deployed"], "shop 1.2.3", "{result}");
}

#[tokio::test]
async fn flows_call_flows_and_tools_of_the_server() {
    let tools = Tools::of(
        r#"
tools:
- name: outer
  description: d
  flow:
  - call: {tool: inner, arguments: {a: 2}, as: inner}
  - forEach:
      items: [1, 2]
      as: n
      do:
      - call: {tool: echo, arguments: {text: "{{n}}/{{index}}"}, as: last}
  - call: {tool: builtin, arguments: {b: 1}, as: builtin}
  - return: ["{{inner}}", "{{last}}", "{{builtin}}"]
- name: inner
  description: d
  input: {properties: {a: {type: integer}}}
  flow:
  - ask: {key: b, type: number, message: "{{a}} and?"}
  - return: {sum: ["{{a}}", "{{b}}"]}
- name: echo
  description: d
  input: {properties: {text: {type: string}}}
  run: {program: echo, args: ["{{text}}"]}
- name: fails
  description: d
  flow: [{call: {tool: failing}}, {return: 1}]
- name: failing
  description: d
  run: {program: sh, args: [-c, 'echo broken >&2; exit 1']}
- name: wrong
  description: d
  flow: [{call: {tool: nowhere}}, {return: 1}]
"#,
    );
    let builtin = mcp_flow_server::Tool::builder("builtin").quick(
        |context: &mcp_flow_server::Context, arguments: Value| {
            json!({"by": context.principal().name(), "got": arguments})
        },
    );
    tools.server.add_tools(builtin).unwrap();
    let mut session = Session::start(&tools, "outer", json!({})).await;
    assert_eq!(session.message(), "2 and?");
    session.answer(json!(3)).await;
    assert_eq!(
        *session.data(),
        json!([{"sum": [2, 3]}, "2/1", {"by": "local", "got": {"b": 1}}]),
        "{}",
        session.next
    );
    assert!(tools.failure("fails", json!({})).await.contains("broken"));
    assert!(tools.failure("wrong", json!({})).await.contains("nowhere"));
}

/// The result of a flow conforms to what is listed for it, and is structured if it has a schema.
#[tokio::test]
async fn results_of_flows_conform_to_their_schemas() {
    let value = |schema: Value| json!({"type": "object", "properties": {"value": schema}, "required": ["value"]});
    for (output, returned, structured, text, listed) in [
        (
            json!({"schema": {"type": "array"}}),
            json!([1, 2]),
            json!({"value": [1, 2]}),
            "{\"value\":[1,2]}",
            value(json!({"type": "array"})),
        ),
        (
            json!({"schema": {"type": "string"}}),
            json!("x"),
            json!({"value": "x"}),
            "{\"value\":\"x\"}",
            value(json!({"type": "string"})),
        ),
        (
            json!({"as": "json", "pick": "/a/0", "schema": {"type": "object", "required": ["b"]}}),
            json!({"a": [{"b": 1}]}),
            json!({"b": 1}),
            "{\"b\":1}",
            json!({"type": "object", "required": ["b"]}),
        ),
        (
            json!({"as": "json", "pick": "/a"}),
            json!({"a": 7}),
            json!({"value": 7}),
            "{\"value\":7}",
            Value::Null,
        ),
        (json!({"as": "text"}), json!({"a": 7}), Value::Null, "{\"a\":7}", Value::Null),
        (
            json!({"schema": {"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}}),
            json!(3),
            json!({"value": 3}),
            "{\"value\":3}",
            json!({"type": "object", "$defs": {"n": {"type": "integer"}}, "anyOf": [
                {"$ref": "#/$defs/n"}, {"properties": {"value": {"$ref": "#/$defs/n"}}, "required": ["value"]}]}),
        ),
    ] {
        let tool = json!({"name": "f", "description": "d", "flow": [{"return": returned}], "output": output});
        let tools = Tools::of(&json!({"tools": [tool]}).to_string());
        let (result, _) = tools.call("f", json!({})).await;
        assert_eq!(result["isError"], false, "{output}: {result}");
        assert_eq!(result["structuredContent"], structured, "{output}: {result}");
        assert_eq!(result["content"][0]["text"], text, "{output}: {result}");
        let (list, _) = tools.request("tools/list", json!({})).await;
        assert_eq!(list["tools"][0]["outputSchema"], listed, "{output}: {list}");
    }
    let tools = Tools::of(
        "tools: [{name: f, description: d, flow: [{return: 5}], output: {schema: {type: string}}}, {name: g, description: d, \
         flow: [{return: {a: 1}}], output: {pick: /b}}]",
    );
    let failure = tools.failure("f", json!({})).await;
    assert!(failure.contains("the output must be a text, not 5"), "{failure}");
    assert!(tools.failure("g", json!({})).await.contains("the output has nothing at /b"));
}

#[tokio::test]
async fn cyclic_calls_are_not_served() {
    let tools = Tools::of(
        "tools: [{name: a, description: d, flow: [{call: {tool: b}}]}, {name: b, description: d, flow: [{call: \
         {tool: a}}]}, {name: c, description: d, flow: [{return: 1}]}]",
    );
    assert_eq!(tools.listed().await, ["c"]);
    let problems = &tools.library.files()[0].problems;
    assert!(problems.iter().any(|problem| problem.message.contains("a -> b -> a")), "{problems:?}");
}

/// A session goes on with the file it began with: after a change, after a restart, and without the
/// file.
#[tokio::test]
async fn sessions_continue_with_their_version_of_the_file() {
    let flow = |text: &str| {
        format!(
            "tools: [{{name: greet, description: d, flow: [{{ask: {{key: a, message: first}}}}, {{ask: {{key: b, message: \
             second}}}}, {{return: '{text} {{{{a}}}} {{{{b}}}}'}}]}}]"
        )
    };
    let store = Arc::new(MemoryStore::new());
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("greet.yaml");
    std::fs::write(&file, flow("one")).unwrap();
    let tools = Tools::open(folder, Trust::System, Some(store.clone()));
    let _watching = tools.library.watch().unwrap();
    let mut first = Session::start(&tools, "greet", json!({})).await;
    first.answer(json!("x")).await;
    let second = Session::start(&tools, "greet", json!({})).await;
    let (first_id, second_id) = (first.id.clone(), second.id);
    std::fs::write(&file, flow("two")).unwrap();
    until("the new version", async || {
        let (result, _) = tools.call("greet", json!({"a": "x", "b": "y"})).await;
        result["content"][0]["text"] == "two x y"
    })
    .await;
    // Another process on the same store, with the changed file.
    let copy = TempDir::new().unwrap();
    std::fs::write(copy.path().join("greet.yaml"), flow("three")).unwrap();
    tools.flows.engine().shutdown().await;
    let restarted = Tools::open(copy, Trust::System, Some(store.clone()));
    let mut first = Session { tools: &restarted, id: first_id, next: Value::Null };
    first.answer(json!("y")).await;
    assert_eq!(*first.data(), "one x y");
    restarted.flows.engine().shutdown().await;
    // And one without the file.
    let empty = Tools::open(TempDir::new().unwrap(), Trust::System, Some(store));
    let mut second = Session { tools: &empty, id: second_id, next: Value::Null };
    second.answer(json!("x")).await;
    second.answer(json!("z")).await;
    assert_eq!(*second.data(), "one x z");
    let shutdown = tokio::time::timeout(Duration::from_secs(10), empty.flows.engine().shutdown());
    shutdown.await.unwrap_or_else(|_| panic!("the engine did not shut down"));
}

/// The tools of the file that a session calls are those it began with, even if they have other names now.
#[tokio::test]
async fn sessions_continue_with_the_called_tools_of_their_file() {
    let file = |name: &str, text: &str| {
        format!(
            "tools:\n- {{name: outer, description: d, flow: [{{ask: {{key: a, message: first}}}}, {{call: {{tool: \
             {name}sub, as: sub}}}}, {{return: '{{{{sub}}}}'}}]}}\n- {{name: {name}sub, description: d, flow: \
             [{{call: {{tool: {name}cmd, as: cmd}}}}, {{return: '{text} sub, {{{{cmd}}}}'}}]}}\n- {{name: {name}cmd, \
             description: d, run: {{program: echo, args: [{text} command]}}}}"
        )
    };
    let tools = Tools::of(&file("old", "one"));
    let _watching = tools.library.watch().unwrap();
    let mut session = Session::start(&tools, "outer", json!({})).await;
    std::fs::write(tools.path().join("tools.yaml"), file("new", "two")).unwrap();
    until("the new version", async || tools.listed().await.contains(&"newcmd".to_owned())).await;
    session.answer(json!("x")).await;
    assert_eq!(session.data().as_str().unwrap().trim(), "one sub, one command");
    let mut session = Session::start(&tools, "outer", json!({})).await;
    session.answer(json!("x")).await;
    assert_eq!(session.data().as_str().unwrap().trim(), "two sub, two command");
}

/// Whatever a file admits as arguments: none of them approves.
#[tokio::test]
async fn arguments_never_approve() {
    let tools = Tools::of(
        r#"
tools:
- name: open
  description: d
  input: {patternProperties: {"": {}}}
  flow: [{approve: {message: Sure?}}, {return: done}]
- name: outer
  description: d
  input: {patternProperties: {"": {}}, properties: {key: {}}}
  flow: [{ask: {key: "{{key}}", as: asked, type: confirm, message: Really?}}, {call: {tool: open, arguments: {approve: true}}}]
"#,
    );
    let (result, _) = tools.call("open", json!({"approve": true})).await;
    assert!(
        result.to_string().contains("approve") && !result.to_string().contains("done"),
        "{result}"
    );
    let mut session = Session::start(&tools, "open", json!({"approve": true})).await;
    assert_eq!(session.message(), "Sure?");
    session.answer(json!(true)).await;
    assert_eq!(*session.data(), "done");
    let given = json!({"key": "open.approve", "open.approve": true, "approve": true});
    let session = Session::start(&tools, "outer", given).await;
    assert_eq!(session.message(), "Sure?", "{}", session.next);
}

#[tokio::test]
async fn loops_and_values_are_bounded() {
    let tools = Tools::of(
        r#"
tools:
- name: count
  description: d
  input: {properties: {items: {type: array}}}
  flow:
  - forEach: {items: items, as: a, do: [{set: {last: "{{a}}"}}]}
  - return: "{{last}}"
- name: nested
  description: d
  input: {properties: {items: {type: array}}}
  flow:
  - forEach: {items: items, as: a, do: [{forEach: {items: items, as: b, do: [{set: {last: "{{b}}"}}]}}]}
  - return: "{{last}}"
- name: doubling
  description: d
  input: {properties: {items: {type: array}}}
  flow:
  - set: {x: [1]}
  - forEach: {items: items, as: a, do: [{set: {x: ["{{x}}", "{{x}}"]}}]}
  - return: 1
- name: wide
  description: d
  flow:
  - set: {x: "0123456789012345678901234567890123456789"}
  - set: {x: "{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}"}
  - set: {x: "{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}"}
  - set: {x: "{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}"}
  - set: {x: "{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}"}
  - set: {x: "{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}{{x}}"}
  - return: 1
"#,
    );
    let items = |count: usize| json!({"items": (0..count).collect::<Vec<_>>()});
    let (counted, _) = tools.call("count", items(5_000)).await;
    assert_eq!(counted["structuredContent"]["value"], 4_999, "{counted}");
    let failure = tools.failure("nested", items(400)).await;
    assert!(failure.contains("a flow runs at most 100000 steps"), "{failure}");
    for (name, arguments) in [("doubling", items(64)), ("wide", json!({}))] {
        let failure = tools.failure(name, arguments).await;
        assert!(failure.contains("more than 64 MiB"), "{name}: {failure}");
    }
}

/// Flows of two libraries call each other through the server, which nobody sees before.
#[tokio::test]
async fn sessions_that_call_each_other_are_bounded() {
    let flow = |name: &str, called: &str| {
        format!("tools: [{{name: {name}, description: d, flow: [{{call: {{tool: {called}}}}}]}}]")
    };
    let tools = Tools::of(&flow("ping", "pong"));
    let other = TempDir::new().unwrap();
    std::fs::write(other.path().join("t.yaml"), flow("pong", "ping")).unwrap();
    let library =
        mcp_flow_declarative::ToolLibrary::open([other.path().to_owned()], None, Trust::System);
    library.unwrap().attach(&tools.server, &tools.flows);
    let failure = tools.failure("ping", json!({})).await;
    assert!(failure.contains("more than 8 levels deep"), "{failure}");
}

/// A flow calls tools with the scopes of the caller that started it, also after an answer.
#[tokio::test]
async fn calls_of_flows_have_the_scopes_of_their_caller() {
    let rule = |scope: &str, tools: &[&str], flows: &[&str]| AccessRule {
        scopes: vec![scope.to_owned()],
        tools: Names::new(tools),
        flows: Names::new(flows),
        ..AccessRule::default()
    };
    let rules = vec![rule("work", &["builtin"], &["outer"]), rule("start", &[], &["outer"])];
    let tools = Tools::permitted(
        "tools: [{name: outer, description: d, flow: [{ask: {key: a, message: m}}, {call: {tool: builtin, as: r}}, \
         {return: '{{r}}'}]}]",
        rules,
    );
    let builtin = mcp_flow_server::Tool::builder("builtin").quick(
        |context: &mcp_flow_server::Context, _: Value| json!({"by": context.principal().name()}),
    );
    tools.server.add_tools(builtin).unwrap();
    let call = async |scopes: &[&str]| {
        let params = json!({"name": "outer", "arguments": {"a": "x"}});
        let principal = Principal::named("ada").scoped(scopes);
        tools.request_by(principal, "tools/call", params).await.0
    };
    let allowed = call(&["work"]).await;
    assert_eq!(allowed["structuredContent"]["by"], "ada", "{allowed}");
    let denied = call(&["start"]).await;
    assert!(denied.to_string().contains("builtin"), "{denied}");
    assert_eq!(denied["isError"], true, "{denied}");
}
