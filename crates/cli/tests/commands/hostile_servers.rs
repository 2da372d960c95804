//! Hostile servers: texts stay harmless for the terminal, and every command ends with an exit code
//! that says how.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use mcp_flow_testkit::scripted::{ScriptedRequest, http};
use serde_json::{Value, json};

use super::{PROGRAM, run};

/// Sets the window title, clears the screen and reverses the text direction.
const EVIL: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}\u{e0041}\r\u{8}evil";

/// PAT-023, PAT-033: no text of a server controls the terminal: in tables, results, errors,
/// questions, logs and file names.
#[test]
fn no_control_characters_of_a_server_reach_the_terminal() {
    let evil = |what: &str| json!(format!("{what}{EVIL}"));
    let address = http(move |mut asked| answer(&mut asked, evil));
    let url = format!("http://{address}/mcp");
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().to_str().unwrap();
    for (words, code) in [
        (&["ping", &url][..], 0),
        (&["tools", &url], 0),
        (&["resources", &url], 0),
        (&["prompts", &url], 0),
        (&["call", &url, "text"], 0),
        (&["call", &url, "data"], 0),
        (&["call", &url, "fail"], 1),
        (&["call", &url, "error"], 4),
        (&["call", &url, "files", "--output", into], 0),
        (&["call", &url, "elsewhere", "--output", into], 0),
        (&["call", &url, "ask"], 4),
        (&["call", &url, "needs"], 2),
        (&["call", &url, "needs", "x=1"], 2),
        (&["call", &url, "flow"], 1),
        (&["call", &url, "nothing"], 2),
        (&["read", &url, "x:/y"], 0),
        (&["read", &url, "x:/no"], 4),
        (&["prompt", &url, "p"], 0),
        (&["sessions", "--url", &url, "list"], 0),
        (&["sessions", "--url", &url, "show", "s"], 0),
        (&["sessions", "--url", &url, "answer", "s", "x"], 1),
        (&["workflow", "--url", &url, "runs"], 0),
        (&["workflow", "--url", &url, "run", "w"], 4),
    ] {
        for format in ["table", "plain", "json"] {
            let words = [words, &["--format", format, "--log-level", "info"]].concat();
            let (out, err, ended) = run(&words, "\n");
            let said = format!("{out}{err}");
            let acts = |character: char| {
                (character.is_control() && character != '\n' && character != '\t')
                    || ['\u{202e}', '\u{e0041}'].contains(&character)
            };
            assert!(!said.contains(acts), "{words:?}: {said:?}");
            assert_eq!(ended, code, "{words:?}: {said}");
        }
    }
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!name.contains(char::is_control) && !name.starts_with('.'), "{name:?}");
    }
}

fn answer(asked: &mut ScriptedRequest, evil: impl Fn(&str) -> Value) {
    let tool = |name: &str| {
        json!({"name": name, "description": evil("d"),
            "inputSchema": {"type": "object", "properties": {format!("a{EVIL}"): {"type": "string"}}}})
    };
    let params = asked.message["params"].clone();
    let text = |text: Value| json!([{"type": "text", "text": text}]);
    match asked.method() {
        "server/discover" => asked.result(&json!({
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "extensions": {"x/interaction": {"interactive": true}}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": evil("n"), "version": evil("v")}}})),
        "tools/list" => {
            let mut tools = ["text", "data", "fail", "error", "files", "elsewhere", "ask"].map(tool).to_vec();
            let schema = json!({"type": "object", "additionalProperties": false,
                "required": [evil("r")], "properties": {format!("r{EVIL}"): {"type": "number"}}});
            tools.push(json!({"name": "needs", "inputSchema": schema}));
            tools.push(json!({"name": "flow", "inputSchema": {"type": "object"},
                "_meta": {"interactive": true}}));
            tools.push(tool(&format!("evil{EVIL}")));
            asked.result(&json!({"tools": tools}));
        }
        "resources/list" => asked.result(&json!({"resources": [{"uri": evil("x:/"), "name": evil("n"),
            "mimeType": evil("m"), "description": evil("d")}]})),
        "resources/templates/list" => asked.result(&json!({"resourceTemplates": [{"name": evil("n"),
            "uriTemplate": evil("x:/{y}")}]})),
        "prompts/list" => asked.result(&json!({"prompts": [{"name": "p", "description": evil("d")},
            {"name": evil("p"), "arguments": [{"name": evil("a")}]}]})),
        "prompts/get" => asked.result(&json!({"messages":
            [{"role": evil("user"), "content": {"type": "text", "text": evil("t")}}]})),
        "resources/read" if params["uri"] == "x:/y" => asked.result(&json!({"contents":
            [{"uri": evil("x:/"), "text": evil("t")}, {"uri": evil("x:/"), "blob": "AA=="}]})),
        "tools/call" => {
            let name = params["name"].as_str().unwrap_or_default().to_owned();
            asked.begin_events();
            asked.event(&json!({"jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "error", "logger": evil("l"), "data": evil("log")}}));
            asked.event(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params":
                {"progressToken": asked.message["id"], "progress": 1, "total": 2, "message": evil("p")}}));
            let link = |uri: String| json!({"type": "resource_link", "name": evil("../.n"), "uri": uri});
            let host = asked.host().to_owned();
            match name.as_str() {
                "data" => asked.result(&json!({"content": [], "structuredContent": {"x": evil("s")}})),
                "fail" => asked.result(&json!({"content": text(evil("t")), "isError": true})),
                "files" => asked.result(&json!({"content": [link(format!("http://{host}/f")),
                    {"type": "resource", "resource": {"uri": evil("x:/"), "text": "held"}}]})),
                "elsewhere" => asked.result(&json!({"content": [link(format!("http://b.example/{EVIL}"))]})),
                "ask" => asked.result(&json!({"resultType": "input_required", "inputRequests": {"k": {
                    "method": "elicitation/create", "params": {"message": evil("m"), "requestedSchema":
                    {"type": "object", "required": ["a"], "properties": {"a": {"type": "number",
                    "title": evil("t"), "description": evil("d")}}}}}}})),
                "text" => asked.result(&json!({"content": text(evil("t"))})),
                "workflow_status" => asked.result(&json!({"content": [], "structuredContent":
                    {"runId": evil("r"), "status": evil("s"), "workflow": {"id": evil("w")},
                     "step": {"title": evil("t")}}})),
                _ => asked.error(-32000, &format!("e{EVIL}")),
            }
        }
        "interaction.start" => asked.result(&json!({"sessionId": evil("s"), "initialPrompt": {
            "type": "number", "message": evil("m"), "metadata": {"key": evil("k")}}})),
        "interaction.list" => asked.result(&json!({"sessions": [{"sessionId": evil("s"),
            "state": evil("s"), "toolName": evil("t")}, {"sessionId": "s", "toolName": "workflow_run"}]})),
        "interaction.getState" => asked.result(&json!({"sessionId": evil("s"), "state": evil("s"),
            "history": [{"prompt": {"message": evil("m")}, "response": {"value": evil("v")}}],
            "currentPrompt": {"type": "text", "message": evil("m")}})),
        "interaction.respond" => asked.result(&json!({"accepted": false,
            "validation": {"error": evil("e"), "suggestion": evil("s")}})),
        _ if asked.line.starts_with("GET") => asked.content("200 OK", "text/plain", "fetched"),
        _ => asked.error(-32603, &format!("no{EVIL}")),
    }
}

/// MCP-035: an endless list, a schema that cannot be compiled, an invalid message, an oversized
/// one, and silence: each ends with its exit code.
#[test]
fn every_request_to_a_hostile_server_ends() {
    let twice = |index: usize| {
        let next = json!({"$ref": format!("#/$defs/d{}", index + 1)});
        (format!("d{index}"), json!({"allOf": [next, next]}))
    };
    let bomb: serde_json::Map<_, _> = (0..60).map(twice).collect();
    let address =
        http(move |mut asked: ScriptedRequest| match (&*asked.line.clone(), asked.method()) {
            ("POST /silent", _) => asked.until_closed(),
            ("POST /loop", "resources/list" | "prompts/list") => {
                asked.result(&json!({"resources": [], "prompts": [], "nextCursor": "again"}));
            }
            ("POST /garbage", "tools/list") => {
                asked.content("200 OK", "application/json", "\u{1b}[2J{");
            }
            ("POST /long", "tools/list") => {
                asked.write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n");
                for _ in 0..65 {
                    asked.write(&" ".repeat(1 << 20));
                }
                asked.until_closed();
            }
            (_, "server/discover") => asked.result(&json!({"supportedVersions": ["2026-07-28"]})),
            (_, "tools/list") => {
                let property = json!({"$ref": "#/$defs/d0"});
                let schema =
                    json!({"type": "object", "properties": {"a": property}, "$defs": bomb});
                asked.result(&json!({"tools": [{"name": "bomb", "inputSchema": schema}]}));
            }
            _ => asked.result(&json!({"content": [{"type": "text", "text": "done"}]})),
        });
    let at = |path: &str| format!("http://{address}/{path}");
    for (words, code, received) in [
        (["resources", &at("loop"), "", ""], 4, "the same cursor twice"),
        (["prompts", &at("loop"), "", ""], 4, "the same cursor twice"),
        (["tools", &at("garbage"), "", ""], 4, "not a response"),
        (["tools", &at("long"), "", ""], 4, "more than 67108864 bytes"),
        (["tools", &at("silent"), "--timeout", "1"], 3, "--timeout"),
        (["call", &at("bomb"), "bomb", "a=x"], 0, "done"),
    ] {
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let (out, err, ended) = run(&words, "");
        assert!(
            ended == code && (out.clone() + &err).contains(received),
            "{words:?} {ended}: {out}{err}"
        );
    }
}

/// INT-088: an expired session is started again with the answers so far, and the person is
/// informed.
#[test]
fn an_expired_session_is_restarted() {
    let starts = Mutex::new(Vec::new());
    let (received, started) = channel();
    let address = http(move |mut asked: ScriptedRequest| {
        let prompt = |key: &str| json!({"type": "text", "message": key, "metadata": {"key": key}});
        let params = asked.message["params"].clone();
        match asked.method() {
            "server/discover" => asked.result(&json!({"supportedVersions": ["2026-07-28"],
                "capabilities": {"extensions": {"io.mcp-flow/interaction": {"interactive": true}}}})),
            "tools/list" => asked.result(&json!({"tools": [{"name": "flow",
                "inputSchema": {"type": "object"}, "_meta": {"interactive": true}}]})),
            "interaction.start" => {
                let mut starts = starts.lock().unwrap();
                starts.push(());
                received.send(params["initialParams"].clone()).unwrap();
                let key = if starts.len() == 1 { "name" } else { "email" };
                asked.result(&json!({"sessionId": format!("s{}", starts.len()),
                    "initialPrompt": prompt(key)}));
            }
            "interaction.respond" => match params["response"]["value"].as_str() {
                Some("Ada") => asked.result(
                    &json!({"accepted": true, "next": {"prompt": prompt("email")}}),
                ),
                _ if params["sessionId"] == "s1" => asked.error(-31002, "Session expired"),
                _ => asked.result(&json!({"accepted": true, "next": {"complete": {
                    "result": {"success": true, "data": {}}, "summary": "registered"}}})),
            },
            _ => asked.error(-32601, "Method not found"),
        }
    });
    let words = ["call", &format!("http://{address}/mcp"), "flow"];
    let (out, err, code) = run(&words, "Ada\na@b.example\na@b.example\n");
    assert!(code == 0 && err.contains("registered"), "{code}: {out} {err}");
    assert!(err.contains("has expired"), "{err}");
    let started: Vec<Value> = started.try_iter().collect();
    assert_eq!(started, [json!({}), json!({"name": "Ada"})]);
}

/// WFL-065: conformance tests end with a server that writes endlessly or never exits.
#[test]
fn conformance_tests_report_unusable_servers() {
    for command in [&["yes"][..], &["sh", "-c", "exec >&-; read line; exec sleep 1000"]] {
        let words = [&["workflow", "conform", "--"], command].concat();
        let (out, err, code) = run(&words, "");
        assert_eq!(code, 1, "{command:?}: {out}{err}");
    }
    let (_, err, code) = run(&["tools", "--", PROGRAM, "no-such-command"], "");
    assert!(code == 3 && err.contains("no-such-command"), "{code}: {err}");
}
