//! Enforced workflow runs: after a crash, in an offline store, and on a running server.

use mcp_flow::Revision;
use mcp_flow_testkit::Peer;
use mcp_flow_testkit::process::Program;
use serde_json::{Value, json};

use super::{PROGRAM, Server, run_in};

const WORKFLOW: &str = "id: three-steps\nname: Three\ndescription: Three steps\nversion: 1.0.0\nsteps:\n\
    - {id: one, title: One, prompt: First, validationCriteria: [{type: contains, value: done}]}\n\
    - {id: two, title: Two, prompt: Second secret, requireConfirmation: true}\n\
    - {id: three, title: Three, prompt: Third secret}\n";

/// C-11: a run survives a crash of its server and continues with the workflow it was started with,
/// though the file has changed; the person answers by `interaction.*`, which no tool has.
#[tokio::test]
async fn a_run_survives_a_crash_and_a_changed_file() {
    let fixture = RunFixture::new();
    let (mut program, mut peer) = fixture.server().await;
    let first = tool(&mut peer, "workflow_start", json!({"workflowId": "three-steps"})).await;
    let refused = tool(&mut peer, "workflow_continue", answer(&first, "all finished")).await;
    assert_eq!(refused["status"], "refused");
    let step = answer(&refused, "it is done");
    let second = tool(&mut peer, "workflow_continue", step.clone()).await;
    assert_eq!(second["step"]["id"], "two");
    program.kill().await;

    std::fs::write(fixture.file(), WORKFLOW.replace("Third", "Another").replace("two", "2nd"))
        .unwrap();
    let (mut program, mut peer) = fixture.server().await;
    // Messages sent before the crash may be sent again.
    let again = tool(&mut peer, "workflow_continue", step).await;
    assert_eq!(again["step"], second["step"]);
    let waiting = tool(&mut peer, "workflow_continue", answer(&again, "work")).await;
    assert_eq!(waiting["status"], "waiting_for_confirmation");
    for (method, params) in [
        ("tools/call", json!({"name": "workflow_run", "arguments": {"workflowId": "three-steps"}})),
        (
            "interaction.start",
            json!({"toolName": "workflow_run",
            "initialParams": {"workflowId": "three-steps", "2.two.confirm": true}}),
        ),
    ] {
        assert_eq!(peer.call(method, params).await["error"]["code"], -32602, "{method}");
    }
    program.kill().await;

    let (_program, mut peer) = fixture.server().await;
    let run = waiting["runId"].as_str().unwrap();
    let agreed =
        json!({"sessionId": run, "response": {"value": true, "turnId": waiting["turnId"]}});
    assert_eq!(peer.call("interaction.respond", agreed).await["result"]["accepted"], true);
    let third = tool(&mut peer, "workflow_status", json!({"runId": run})).await;
    assert_eq!(third["step"]["prompt"], "Third secret");
    assert_eq!(third["done"][1]["confirmed"], true);
    let last = tool(&mut peer, "workflow_continue", answer(&third, "all")).await;
    assert_eq!(last["status"], "complete");
    let started = tool(&mut peer, "workflow_start", json!({"workflowId": "three-steps"})).await;
    let pinned = |status: &Value| status["workflow"]["hash"].clone();
    let other = tool(&mut peer, "workflow_status", json!({"runId": started["runId"]})).await;
    let ended = tool(&mut peer, "workflow_status", json!({"runId": run})).await;
    assert_ne!(pinned(&other), pinned(&ended), "a new run is of the new content");
}

/// Without elicitation in the client, the log has a working command for the person. The agent
/// learns that a person has to confirm, not how.
#[tokio::test]
async fn a_person_confirms_by_the_command_in_the_log() {
    let fixture = RunFixture::new();
    let (mut program, mut peer) = fixture.server().await;
    let first = tool(&mut peer, "workflow_start", json!({"workflowId": "three-steps"})).await;
    let second = tool(&mut peer, "workflow_continue", answer(&first, "it is done")).await;
    let work = answer(&second, "work");
    let waiting = tool(&mut peer, "workflow_continue", work.clone()).await;
    let again = tool(&mut peer, "workflow_continue", work).await;
    let status = tool(&mut peer, "workflow_status", json!({"runId": first["runId"]})).await;
    for reply in [&waiting, &again, &status] {
        assert_eq!(reply["status"], "waiting_for_confirmation");
        let text = reply.to_string();
        assert!(text.contains("Only a person") && !text.contains("sessions answer"), "{text}");
    }
    let log = program.log();
    program.kill().await;
    assert_eq!(log.matches("mcp-flow sessions answer").count(), 1, "received once: {log}");
    let received = log.split('`').nth(1).unwrap();
    let words: Vec<_> = received.strip_prefix("mcp-flow ").unwrap().split(' ').collect();
    let elsewhere = tempfile::tempdir().unwrap();
    let (out, err, code) = run_in(elsewhere.path(), &words, "");
    assert_eq!(code, 0, "{received}: {out} {err}");
    let (_program, mut peer) = fixture.server().await;
    let third = tool(&mut peer, "workflow_status", json!({"runId": first["runId"]})).await;
    assert_eq!(third["step"]["id"], "three");
}

/// INT-054, C-11: the same commands list, resume, cancel and export runs in an offline store and on
/// a running server.
#[tokio::test]
async fn runs_are_managed_from_the_command_line() {
    let fixture = RunFixture::new();
    let (mut program, mut peer) = fixture.server().await;
    let first = tool(&mut peer, "workflow_start", json!({"workflowId": "three-steps"})).await;
    tool(&mut peer, "workflow_continue", answer(&first, "it is done")).await;
    let other = tool(&mut peer, "workflow_start", json!({"workflowId": "code-review"})).await;
    program.kill().await;
    let [run, other] =
        [&first, &other].map(|received| received["runId"].as_str().unwrap().to_owned());

    check_commands(&fixture, &["--store", &fixture.store], &run, &other);
    let server = Server::start(&["--store", &fixture.store, "--workflows", &fixture.workflows()]);
    let (started, code) = fixture.workflow(&["--url", server.url(), "run", "three-steps"], "");
    assert_eq!(code, 2, "nobody answers: {started}");
    let (listed, _) = fixture.workflow(&["--url", server.url(), "runs", "--format", "json"], "");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let runs = listed["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    let is_fresh = |run: &&Value| run["status"] == "step" && run["done"] == json!([]);
    let fresh = runs.iter().find(is_fresh).unwrap();
    let waiting = fresh["runId"].as_str().unwrap().to_owned();
    let (said, code) = fixture
        .workflow(&["--url", server.url(), "resume", &waiting], "done\nwork\nn\nbetter\ny\nall\n");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("Second secret") && said.contains("did not agree"), "{said}");
    assert!(said.contains("Three is done, in 3 steps"), "{said}");
    let (text, _) = fixture.workflow(&["--url", server.url(), "export", &waiting], "");
    assert!(text.contains("\n\nConfirmed by a person.\n\n> better\n"), "{text}");
}

/// Checks the commands on a run at its second step, and on another that they cancel.
fn check_commands(fixture: &RunFixture, at: &[&str], run: &str, other: &str) {
    let at = |words: &[&str]| fixture.workflow(&[at, words].concat(), "");
    let (table, code) = at(&["runs"]);
    assert_eq!(code, 0);
    let row = table.lines().find(|line| line.contains(run)).unwrap();
    assert!(row.contains("three-steps") && row.contains("step") && row.contains("Two"), "{table}");
    let (text, _) = at(&["export", run]);
    assert!(text.contains("# Three") && text.contains("## 1. One\n\n> it is done"), "{text}");
    assert!(!text.contains("secret"), "{text}");
    assert_eq!(at(&["cancel", other, "--reason", "enough"]).1, 0);
    assert_eq!(at(&["cancel", other]).1, 1, "once is enough");
    assert!(at(&["runs"]).0.contains("cancelled"));
    let file = fixture.folder.path().join("run.md");
    assert_eq!(at(&["export", other, "--output", file.to_str().unwrap()]).1, 0);
    assert!(std::fs::read_to_string(file).unwrap().contains("code-review"));
    assert_eq!(at(&["export", "session_00000000000000000000000000000000"]).1, 1);
}

/// A store and a workflow in a folder of their own.
struct RunFixture {
    folder: tempfile::TempDir,
    store: String,
}

impl RunFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = format!("redb:{}", folder.path().join("journal.redb").display());
        let fixture = Self { folder, store };
        std::fs::create_dir(fixture.file().parent().unwrap()).unwrap();
        std::fs::write(fixture.file(), WORKFLOW).unwrap();
        fixture
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("workflows/three.yaml")
    }

    fn workflows(&self) -> String {
        self.folder.path().join("workflows").display().to_string()
    }

    /// Starts a server on the store, and an agent whose client has no elicitation.
    async fn server(&self) -> (Program, Peer) {
        let workflows = self.workflows();
        let arguments = ["stdio", "--store", &self.store, "--workflows", &workflows];
        let (program, mut peer) = Program::start(PROGRAM, &arguments);
        peer.initialize(Revision::V2025_11_25).await;
        (program, peer)
    }

    /// Runs `mcp-flow workflow` with input, and returns its output and exit code.
    fn workflow(&self, words: &[&str], input: &str) -> (String, i32) {
        let words = [&["workflow"], words].concat();
        let (out, err, code) = run_in(self.folder.path(), &words, input);
        (out + &err, code)
    }
}

/// The arguments that continue a run with a step's output.
fn answer(received: &Value, output: &str) -> Value {
    json!({"token": received["token"], "output": output})
}

async fn tool(peer: &mut Peer, name: &str, arguments: Value) -> Value {
    let result = peer.call_tool(name, arguments).await["result"].clone();
    assert_eq!(result["isError"], false, "{result}");
    result["structuredContent"].clone()
}
