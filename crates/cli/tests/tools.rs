//! The example tools of the real program.

use mcp_flow::Revision;
use mcp_flow_testkit::Peer;
use mcp_flow_testkit::process::Program;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// MCP-064, MCP-065, MCP-088, C-38: arithmetic, under both names, with a category.
#[tokio::test]
async fn the_calculator_calculates() {
    let (_program, mut peer) = start(&["stdio"]).await;
    for (tool, expected) in [
        ("calculator.add", "5"),
        ("calculator.subtract", "-1"),
        ("calculator.multiply", "6"),
        ("calculator.power", "8"),
        ("calculator_add", "5"),
    ] {
        let reply = peer.call_tool(tool, json!({"a": 2, "b": 3})).await;
        assert_eq!(reply["result"]["content"][0]["text"], expected, "{tool}");
    }
    let failed = peer.call_tool("calculator.divide", json!({"a": 1, "b": 0})).await;
    assert_eq!(failed["result"]["isError"], true);
    assert_eq!(failed["result"]["_meta"]["error"]["data"]["name"], "DIVISION_BY_ZERO");
    let large = peer.call_tool("calculator.power", json!({"a": 10, "b": 400})).await;
    assert_eq!(large["result"]["isError"], true, "what is no number is not sent as one");
    let add = &tools(&mut peer).await[0];
    assert_eq!(add["_meta"]["categories"], json!(["arithmetic"]));
}

/// Example tools are disabled by an option or by the configuration file.
#[tokio::test]
async fn examples_can_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("flow.toml");
    std::fs::write(&config, "[offer]\nexamples = false\n").unwrap();
    let config = config.to_str().unwrap();
    for options in [&["--no-examples"][..], &["--config", config]] {
        let options = [&["stdio", "--store", "memory:", "--diagnostics"], options].concat();
        let (_program, mut peer) = start(&options).await;
        let listed = tools(&mut peer).await;
        let names: Vec<_> = listed.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"echo") && names.contains(&"workflow_list"), "{names:?}");
        for example in ["calculator.add", "wh40k.roll_dice", "long_operation", "book_trip"] {
            assert!(!names.contains(&example), "{names:?}");
        }
        let prompts = peer.call("prompts/list", json!({})).await;
        assert!(!prompts.to_string().contains("description\":"), "{prompts}");
        let refused = peer.call("interaction.start", json!({"toolName": "register"})).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
}

/// INT-020, INT-082: example flows reject unknown and invalid parameters at the start, and suggest
/// the nearest name.
#[tokio::test]
async fn wrong_parameters_of_flows_are_refused_at_the_start() {
    let (_program, mut peer) = start(&["stdio", "--store", "memory:"]).await;
    for (flow, key, wrong) in [
        ("book_trip", "day", json!("tomorrow")),
        ("book_trip", "travellers", json!(10)),
        ("all_prompts", "date", json!("garbage")),
        ("all_prompts", "choice", json!("c")),
        ("all_prompts", "custom", json!({"x": 1})),
        ("all_prompts", "file", json!({"uri": "javascript:alert(1)"})),
        ("countdown", "from", json!(61)),
        ("register", "nmae", json!("Ada")),
    ] {
        let params = json!({"toolName": flow, "initialParams": {key: wrong}});
        let refused = peer.call("interaction.start", params).await["error"].clone();
        assert_eq!(refused["code"], -32004, "{flow} {key}: {refused}");
        assert_eq!(refused["data"]["field"], key, "{refused}");
    }
    let reply = peer.call_tool("register", json!({"nmae": "Ada"})).await;
    assert!(reply.to_string().contains("did you mean name?"), "{reply}");
}

/// MCP-066, MCP-067, MCP-068: names, dice and battles.
#[tokio::test]
async fn game_tools_work() {
    let (_program, mut peer) = start(&["stdio"]).await;
    let name = |reply: Value| reply["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    let first = name(peer.call_tool("wh40k.inquisitor_name", json!({"seed": 7})).await);
    let again = name(peer.call_tool("wh40k.inquisitor_name", json!({"seed": 7})).await);
    assert_eq!(first, again);

    let dice = json!({"diceCount": 12, "diceSides": 4, "flavor": "save"});
    let roll = peer.call_tool("wh40k.roll_dice", dice).await["result"]["structuredContent"].clone();
    let rolls: Vec<_> =
        roll["rolls"].as_array().unwrap().iter().map(|die| die.as_u64().unwrap()).collect();
    assert!(rolls.len() == 12 && rolls.iter().all(|die| (1..=4).contains(die)), "{rolls:?}");
    for bad in [json!(0), json!(-1), json!(101), json!(1.5), json!("6")] {
        let refused = peer.call_tool("wh40k.roll_dice", json!({"diceCount": bad})).await;
        assert_eq!(refused["result"]["isError"], true, "{bad}");
    }

    let forces = json!({"imperialForce": "Guard", "enemyForce": "Orks"});
    let call = json!({"name": "wh40k.battle_simulation", "arguments": forces});
    let both = [peer.ask("tools/call", call.clone()), peer.ask("tools/call", call)];
    for id in both {
        let battle = peer.reply_to(id).await["result"]["structuredContent"].clone();
        assert_eq!(
            (&battle["ImperialForce"], &battle["EnemyForce"]),
            (&json!("Guard"), &json!("Orks"))
        );
        assert!(battle["IsImperialVictory"].is_boolean());
        let report = battle["BattleReport"].as_str().unwrap();
        assert!(report.contains("Guard") && report.contains("Orks"), "{report}");
    }
}

/// C-38: an option lists tools under names without dots, for hosts that reject them.
#[tokio::test]
async fn names_can_be_listed_without_dots() {
    let (_program, mut peer) = start(&["stdio", "--tool-names=underscore"]).await;
    let listed = tools(&mut peer).await;
    let names: Vec<_> = listed.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"calculator_add") && names.iter().all(|name| !name.contains('.')));
    for name in ["calculator_add", "calculator.add"] {
        let reply = peer.call_tool(name, json!({"a": 2, "b": 3})).await;
        assert_eq!(reply["result"]["content"][0]["text"], "5", "{name}");
    }
}

/// C-18: an option sets which tools are direct methods; by default the four workflow tools are.
#[tokio::test]
async fn tools_can_be_methods() {
    for (choice, add, list) in [
        (&[][..], false, true),
        (&["--direct-methods=workflow"], false, true),
        (&["--direct-methods=none"], false, false),
        (&["--direct-methods=all"], true, true),
    ] {
        let (_program, mut peer) = start(&[&["stdio"], choice].concat()).await;
        let called = peer.call_tool("calculator.add", json!({"a": 2, "b": 3})).await;
        let added = peer.call("calculator.add", json!({"a": 2, "b": 3})).await;
        let listed = peer.call("workflow_list", json!({"_meta": {}})).await;
        match add {
            true => assert_eq!(added["result"], called["result"]),
            false => assert_eq!(added["error"]["data"]["method"], "calculator.add"),
        }
        match list {
            true => assert!(listed["result"]["workflows"].is_array(), "{choice:?}: {listed}"),
            false => assert_eq!(listed["error"]["code"], -32601, "{choice:?}: {listed}"),
        }
    }
    let (_program, mut peer) = start(&["stdio", "--direct-methods=all"]).await;
    let roll = peer.call("wh40k.roll_dice", json!({"diceCount": 2, "diceSides": 4})).await;
    assert_eq!(roll["result"]["rolls"].as_array().unwrap().len(), 2, "{roll}");
    let failed = peer.call("calculator.divide", json!({"a": 1, "b": 0})).await;
    assert_eq!(failed["error"]["data"]["name"], "TOOL_FAILED", "{failed}");
    let wrong = peer.call("calculator.divide", json!({"a": 1})).await;
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
}

async fn start(arguments: &[&str]) -> (Program, Peer) {
    let (program, mut peer) = Program::start(PROGRAM, arguments);
    peer.initialize(Revision::V2025_11_25).await;
    (program, peer)
}

async fn tools(peer: &mut Peer) -> Vec<Value> {
    peer.call("tools/list", json!({})).await["result"]["tools"].as_array().unwrap().clone()
}
