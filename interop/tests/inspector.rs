//! The official inspector on the command line.

use interop::{ARGUMENTS, Outcome, Served, node, program, run};
use serde_json::json;
use tokio::process::Command;

/// MCP-016, C-30: every listed schema is accepted by strict hosts.
#[tokio::test]
async fn the_inspector_lists_tools_without_problems() {
    for era in ERAS {
        let outcome = inspect(era, &["--method", "tools/list", "--strict"]).await;
        assert!(outcome.code == Some(0) && outcome.stderr.is_empty(), "{outcome:#?}");
        let listed = outcome.json();
        let tools = listed["result"]["tools"].as_array().expect("a list of tools");
        for name in ["calculator.add", "echo"] {
            let tool = tools.iter().find(|tool| tool["name"] == name).expect(name);
            assert_eq!(tool["inputSchema"]["type"], "object");
        }
    }
}

/// MCP-017, MCP-018, PAT-029.
#[tokio::test]
async fn the_inspector_calls_a_tool() {
    for era in ERAS {
        let call = ["--method", "tools/call", "--tool-name", "calculator.add"];
        let outcome = inspect(era, &[&call[..], &["--tool-arg", "a=2", "b=3"]].concat()).await;
        assert!(outcome.code == Some(0) && outcome.stderr.is_empty(), "{outcome:#?}");
        assert_eq!(outcome.json()["result"]["content"], json!([{"type": "text", "text": "5"}]));
    }
}

/// MCP-028, PAT-032: a failing tool differs from a failed call.
#[tokio::test]
async fn the_inspector_sees_a_tool_fail() {
    for era in ERAS {
        let outcome = inspect(era, &["--method", "tools/call", "--tool-name", "fail"]).await;
        assert_eq!(outcome.code, Some(TOOL_FAILED), "{outcome:#?}");
        assert!(outcome.stderr.contains("tool_is_error"), "{outcome:#?}");
        assert_eq!(outcome.json()["result"]["isError"], true);
    }
}

/// MCP-017, MCP-020: over HTTP as over a pipe. The inspector does not end its session, so the
/// program has to.
#[tokio::test]
async fn the_inspector_calls_a_tool_over_http() {
    for (transport, kind) in [("http", "mcp"), ("sse", "sse")] {
        for era in ERAS {
            let served = Served::start().await;
            let mut inspector = inspector(era);
            inspector.args(["--method", "tools/call", "--tool-name", "calculator.add"]);
            inspector.args(["--tool-arg", "a=2", "b=3", "--transport", transport]);
            let outcome = run(inspector.args(["--server-url", served.url(kind)])).await;
            assert!(outcome.code == Some(0) && outcome.stderr.is_empty(), "{outcome:#?}");
            assert_eq!(outcome.json()["result"]["content"][0]["text"], "5");
            served.stop().await;
        }
    }
}

/// The inspector follows a call that runs as a task only.
#[tokio::test]
async fn the_inspector_follows_a_task() {
    let folder = tempfile::tempdir().unwrap();
    let file = "tools:\n- {name: slow, description: d, task: required, flow: [{call: {tool: wait}}, {return: {done: \
                true}}]}\n- {name: wait, description: d, internal: true, run: {program: sleep, args: [1]}}\n";
    std::fs::write(folder.path().join("tools.yaml"), file).unwrap();
    let mut inspector = inspector("modern");
    inspector.args(["--method", "tools/call", "--tool-name", "slow", "--"]).arg(program());
    let outcome = run(inspector.args(ARGUMENTS).arg("--tools").arg(folder.path())).await;
    assert!(outcome.code == Some(0) && outcome.stderr.is_empty(), "{outcome:#?}");
    assert_eq!(outcome.json()["result"]["structuredContent"], json!({"done": true}));
}

/// The inspector checks all skills, of directories and of workflows, by its rules for the extension.
#[tokio::test]
async fn the_inspector_verifies_skills() {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("tidy-up");
    std::fs::create_dir(&skill).unwrap();
    let text = "---\nname: tidy-up\ndescription: Brings order\n---\n\nFold, then stack.\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    let mut inspector = inspector("modern");
    inspector.args(["--method", "skills/list", "--verify", "--require-digests", "--"]);
    inspector.arg(program()).args(ARGUMENTS).arg("--skills").arg(folder.path());
    let outcome = run(&mut inspector).await;
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert!(outcome.stdout.contains("\"name\":\"tidy-up\""), "{outcome:#?}");
    assert!(outcome.stderr.contains("no conformance errors"), "{outcome:#?}");
}

async fn inspect(era: &str, arguments: &[&str]) -> Outcome {
    let mut inspector = inspector(era);
    inspector.args(arguments);
    run(inspector.arg("--").arg(program()).args(ARGUMENTS)).await
}

fn inspector(era: &str) -> Command {
    let mut inspector = node("inspector/node_modules/.bin/mcp-inspector");
    inspector.args(["--cli", "--format", "json", "--protocol-era", era]);
    inspector
}

const ERAS: [&str; 2] = ["legacy", "modern"];

/// Exit code of the inspector for a result with `isError`.
const TOOL_FAILED: i32 = 5;
