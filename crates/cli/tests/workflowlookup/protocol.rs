//! Protocol of seed 004: handshake, discovery, errors, shutdown.

use super::*;

/// WFL-001, WFL-006, WFL-010, WFL-011, WFL-013, WFL-017, WFL-019, WFL-021, WFL-022, WFL-024,
/// WFL-058, WFL-059, C-48: the six messages of the sample session.
#[test]
fn the_sample_session_works_literally() {
    let replies = session(
        &[],
        &[
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
            "clientInfo": {"name": "claude-desktop", "version": "1.0.0"}}}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}),
            json!({"jsonrpc": "2.0", "id": 3, "method": "workflow_list", "params": {}}),
        ],
    );
    let tools: Value = serde_json::from_str(TOOLS).unwrap();
    assert_eq!(
        replies[0],
        json!({"jsonrpc": "2.0", "id": 1, "result": {
        "protocolVersion": "2024-11-05",
        "capabilities": {"tools": {"listChanged": false, "notifyProgress": false},
                         "resources": {"listChanged": false}},
        "serverInfo": {"name": "workflowlookup", "version": "1.0.0",
                       "description": "Workflow Orchestration System MCP Server"}}})
    );
    assert_eq!(replies[1], json!({"jsonrpc": "2.0", "id": 2, "result": {"tools": tools}}));
    let listed = json!({"id": "ai-task-implementation", "name": "AI Task Prompt Workflow",
        "description": "Guides through task understanding → planning → implementation → verification",
        "category": "development", "version": "1.0.0"});
    assert_eq!(replies[2]["result"]["workflows"][0], listed);
}

/// WFL-007, WFL-008, WFL-009, WFL-014, WFL-015, WFL-016, WFL-061: valid and invalid first messages.
#[test]
fn the_handshake_follows_the_specification() {
    let open = |params: Value| request("initialize", params);
    let replies = session(
        &[],
        &[
            request("workflow_list", json!({})),
            open(json!({"protocolVersion": "2024-10-01", "capabilities": {}})),
            open(json!({"capabilities": {}})),
            open(json!({"protocolVersion": "2024-11-05"})),
            open(json!({"protocolVersion": 7, "capabilities": {}})),
            open(json!({"protocolVersion": "2024-11-05", "capabilities": {}})),
            request("workflow_list", Value::Null),
        ],
    );
    check_error(&replies[0], -32600, "Invalid Request", json!({"name": "NOT_INITIALIZED"}));
    check_error(
        &replies[1],
        -32000,
        "Unsupported protocol version",
        json!({"supportedVersions": ["2024-11-05"], "requestedVersion": "2024-10-01"}),
    );
    check_error(
        &replies[2],
        -32602,
        "Invalid params",
        json!({"details": "protocolVersion is required"}),
    );
    check_error(
        &replies[3],
        -32602,
        "Invalid params",
        json!({"details": "capabilities is required"}),
    );
    check_error(&replies[4], -32602, "Invalid params", json!({}));
    assert_eq!(replies[5]["result"]["protocolVersion"], "2024-11-05");
    assert!(replies[6]["result"]["workflows"].is_array());
}

/// WFL-014, WFL-016, C-04, C-21: the stateless revision is unknown, before and after the handshake.
#[test]
fn nothing_is_served_without_the_handshake() {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1.0.0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let call = request("tools/call", json!({"name": "workflow_list", "_meta": meta}));
    let discover = request("server/discover", json!({"_meta": meta}));
    let requests = [call.clone(), discover.clone(), initialize(), call, discover];
    let replies = session(&[], &requests);
    for reply in &replies[..2] {
        check_error(reply, -32600, "Invalid Request", json!({"name": "NOT_INITIALIZED"}));
    }
    let result = &replies[3]["result"];
    assert!(result["content"].is_array() && result.get("resultType").is_none(), "{result}");
    check_error(&replies[4], -32601, "Method not found", json!({"method": "server/discover"}));
}

/// C-04: this project's client tries the newest revision first, and falls back to the one of this
/// profile.
#[test]
fn the_client_finds_the_one_revision() {
    let server = [PROGRAM, "stdio", "--profile", "workflowlookup"];
    let output = run(&[&["ping", "--"], &server[..]].concat(), b"");
    let output = String::from_utf8(output.stdout).unwrap();
    assert!(output.starts_with("workflowlookup 1.0.0, MCP 2024-11-05"), "{output}");
}

/// C-23, C-34: undeclared capabilities do not exist.
#[test]
fn resources_cannot_be_subscribed_to() {
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        let asked = request(method, json!({"uri": "workflow:/workflow.schema.json"}));
        let replies = opened(&[], &[asked.to_string()]);
        check_error(&replies[0], -32601, "Method not found", json!({"method": method}));
    }
}

/// WFL-029, WFL-043, WFL-045 to WFL-052, WFL-057, WFL-063: every error of the table, after which
/// the next line works.
#[test]
fn errors_are_those_of_the_table() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("broken-one.json"), "{\n  \"id\": \"inner-broken\",\n  oops")
        .unwrap();
    let newer = json!({"id": "from-the-future", "name": "F", "description": "F", "version": "1.0.0",
        "minimumServerVersion": "9.0.0", "steps": [{"id": "one", "title": "1", "prompt": "1"}]});
    std::fs::write(folder.path().join("newer.json"), newer.to_string()).unwrap();
    let arguments = ["--diagnostics", "--workflows", folder.path().to_str().unwrap()];
    let call = |tool: &str, arguments: Value| {
        request("tools/call", json!({"name": tool, "arguments": arguments}))
    };
    let next = |params: Value| request("workflow_next", params);
    let ai = "ai-task-implementation";
    let mut lines =
        vec!["garbage".to_owned(), "{\"jsonrpc\":\"2.0\"}".to_owned(), "\u{fffd}".to_owned()];
    let requests = [
        request("non_existent_tool", json!({})),
        next(json!({"completedSteps": []})),
        request("workflow_get", json!({"id": "nonexistent-workflow"})),
        request("workflow_get", json!({"id": "broken-one"})),
        request("workflow_get", json!({"id": "inner-broken"})),
        request("workflow_get", json!({"id": "from-the-future"})),
        request("workflow_list", json!({})),
        next(json!({"workflowId": ai, "completedSteps": [], "currentStep": "nonexistent-step"})),
        next(json!({"workflowId": ai, "completedSteps": ["nonexistent-step"]})),
        request(
            "workflow_validate",
            json!({"workflowId": ai, "stepId": "nonexistent-step", "output": "x"}),
        ),
        request(
            "workflow_validate",
            json!({"workflowId": "nonexistent-workflow", "stepId": "abc", "output": "x"}),
        ),
        call("panic", json!({})),
        call("nonexistent", json!({})),
    ];
    lines.extend(requests.iter().map(ToString::to_string));
    let replies = opened(&arguments, &lines);
    assert_eq!(replies[0]["id"], Value::Null);
    check_error(&replies[0], -32700, "Parse error", json!({}));
    assert!(replies[0]["error"]["data"]["details"].is_string());
    check_error(&replies[1], -32600, "Invalid Request", json!({}));
    check_error(&replies[2], -32700, "Parse error", json!({}));
    let replies = &replies[3..];
    check_error(&replies[0], -32601, "Method not found", json!({"method": "non_existent_tool"}));
    check_error(
        &replies[1],
        -32602,
        "Invalid params",
        json!({"details": "workflowId is required"}),
    );
    let unknown = json!({"workflowId": "nonexistent-workflow"});
    check_error(&replies[2], -32001, "Workflow not found", unknown.clone());
    check_error(
        &replies[3],
        -32002,
        "Invalid workflow",
        json!({"workflowId": "broken-one", "file": "broken-one.json"}),
    );
    assert_eq!(replies[3]["error"]["data"]["problems"][0]["line"], 3);
    check_error(&replies[4], -32002, "Invalid workflow", json!({"workflowId": "inner-broken"}));
    check_error(
        &replies[5],
        -32002,
        "Invalid workflow",
        json!({"minimumServerVersion": "9.0.0", "serverVersion": "1.0.0"}),
    );
    let listed = replies[6]["result"]["workflows"].as_array().unwrap();
    for one in listed {
        let is_newer = one["id"] == "from-the-future";
        assert_eq!(one["incompatible"].is_string(), is_newer, "{one}");
    }
    assert!(listed.iter().any(|one| one["id"] == "from-the-future"), "{listed:?}");
    let step = json!({"stepId": "nonexistent-step"});
    for reply in &replies[7..10] {
        check_error(reply, -32003, "Step not found", step.clone());
    }
    check_error(&replies[10], -32001, "Workflow not found", unknown);
    check_error(&replies[11], -32603, "Internal error", json!({}));
    check_error(&replies[12], -32602, "Invalid params", json!({"tool": "nonexistent"}));
}

/// WFL-002, WFL-003, WFL-005: a hundred concurrent requests are answered in order, one line each.
#[test]
fn replies_come_in_order() {
    let lines: Vec<_> = (0..100)
        .map(|id| {
            json!({"jsonrpc": "2.0", "id": format!("é{id}"), "method": "workflow_list"}).to_string()
        })
        .collect();
    let replies = opened(&[], &lines);
    let ids: Vec<_> =
        replies.iter().map(|reply| reply["id"].as_str().unwrap().to_owned()).collect();
    let sent: Vec<_> = (0..100).map(|id| format!("é{id}")).collect();
    assert_eq!(ids, sent);
}

/// WFL-005, C-17: ping is answered in order as well.
#[test]
fn ping_is_answered_in_order() {
    let sleep = json!({"name": "sleep", "arguments": {"ms": 50}});
    let lines = [
        initialize(),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": sleep}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "workflow_list"}),
    ];
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    for order in [&["--profile", "workflowlookup"][..], &["--ordered", "--store", "memory:"]] {
        let arguments = [&["stdio", "--diagnostics"], order].concat();
        let output = run(&arguments, input.as_bytes());
        let text = String::from_utf8(output.stdout).unwrap();
        let ids: Vec<_> = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone())
            .collect();
        assert_eq!(ids, [json!("open"), json!(1), json!(2), json!(3)], "{order:?}");
    }
}

/// WFL-050, WFL-052: a line above the limit is a server error with the text of the table.
#[test]
fn a_line_that_is_too_long_is_a_server_error() {
    let long = format!("{{\"jsonrpc\":\"2.0\",\"x\":\"{}\"}}", "x".repeat(16 * 1024 * 1024));
    let replies = opened(&[], &[long]);
    check_error(&replies[0], -32000, "Server error", json!({"name": "PAYLOAD_TOO_LARGE"}));
    let details = replies[0]["error"]["data"]["details"].as_str().unwrap();
    assert!(details.contains("the limit is 16777216 bytes"), "{details}");
}

/// WFL-004, WFL-053, WFL-054, C-20: `shutdown` is answered last, then the program exits with 0.
#[test]
fn shutdown_is_answered_and_ends_the_program() {
    let lines = [
        initialize().to_string(),
        json!({"jsonrpc": "2.0", "id": 5, "method": "workflow_list"}).to_string(),
        json!({"jsonrpc": "2.0", "id": 99, "method": "shutdown", "params": {}}).to_string(),
    ];
    let mut child = spawn(&["stdio", "--profile", "workflowlookup"], Path::new("."));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(format!("{}\n", lines.join("\n")).as_bytes()).unwrap();
    // The input stays open: the program ends by itself.
    let output = end(child);
    drop(stdin);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().last().unwrap(), "{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":null}");
    assert_eq!(text.lines().count(), 3);
}

/// WFL-050, WFL-056: an unusable directory is reported to the first request.
#[test]
fn an_unusable_directory_is_fatal() {
    let arguments = ["stdio", "--profile", "workflowlookup", "--workflows", "/nonexistent/place"];
    for (input, id) in
        [(format!("{}\n", initialize()), json!("open")), (String::new(), Value::Null)]
    {
        let output = run(&arguments, input.as_bytes());
        assert_eq!(output.status.code(), Some(1));
        let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(reply["id"], id);
        check_error(&reply, -32000, "Server error", json!({}));
        let details = reply["error"]["data"]["details"].as_str().unwrap();
        assert!(details.contains("/nonexistent/place"), "{details}");
    }
}

/// WFL-016: nothing is sent before the first request, and standard error stays empty without a
/// problem.
#[test]
fn startup_prints_nothing() {
    let output = run(&["stdio", "--profile", "workflowlookup"], b"");
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
}

/// WFL-062: both versions are reported.
#[test]
fn versions_are_reported() {
    let output = run(&["--version"], b"");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("2024-11-05") && text.contains("1.0.0"), "{text}");
}

/// C-19, WFL-060: the same tools by `tools/call`; failures are results that a model can read, or
/// errors if so configured.
#[test]
fn tools_can_be_called_by_tools_call() {
    let call = |tool: &str, arguments: Value| {
        request("tools/call", json!({"name": tool, "arguments": arguments})).to_string()
    };
    let lines = [
        call("workflow_list", json!({})),
        request("workflow_list", json!({})).to_string(),
        call("workflow_get", json!({"id": "code-reveiw"})),
    ];
    let replies = opened(&[], &lines);
    let content = &replies[0]["result"]["content"][0];
    assert_eq!(content["type"], "text");
    let inner: Value = serde_json::from_str(content["text"].as_str().unwrap()).unwrap();
    assert_eq!(inner, replies[1]["result"]);
    let failed = &replies[2]["result"];
    assert_eq!(
        (&failed["isError"], &failed["_meta"]["error"]["code"]),
        (&json!(true), &json!(-32001))
    );
    let text = failed["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("Workflow not found") && text.contains("`code-review`"), "{text}");
    let replies = opened(&["--tool-errors=protocol"], &lines[2..]);
    check_error(&replies[0], -32001, "Workflow not found", json!({"workflowId": "code-reveiw"}));
}

/// WFL-012, C-23: workflows and their schema can be read.
#[test]
fn declared_resources_can_be_read() {
    let lines = [
        request("resources/list", json!({})).to_string(),
        request("resources/read", json!({"uri": "workflow:/workflow.schema.json"})).to_string(),
        request("resources/read", json!({"uri": "workflow:/workflows/code-review"})).to_string(),
    ];
    let replies = opened(&[], &lines);
    assert!(replies[0]["result"]["resources"].as_array().unwrap().len() >= 7);
    let text = |reply: &Value| reply["result"]["contents"][0]["text"].as_str().unwrap().to_owned();
    let schema: Value = serde_json::from_str(&text(&replies[1])).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let workflow: Value = serde_json::from_str(&text(&replies[2])).unwrap();
    assert_eq!(workflow["id"], "code-review");
}
