//! Bundled workflows as enforced runs, with a person who confirms.

use mcp_flow_testkit::Peer;
use mcp_flow_workflow::Library;
use serde_json::{Value, json};

use super::{World, agent, structured};

/// WFL-038, WFL-039: every bundled workflow can be completed as a run. Blank outputs are rejected,
/// a person is asked where the workflow requires it, and a rejection counts.
#[tokio::test]
async fn bundled_workflows_can_be_completed_as_runs() {
    // Long enough for every rule, and with every word that some step requires.
    let output =
        "- APPROVE: the test was expected to fail because of the cause, is confirmed, and \
                  all tests pass now. This is a how-to. "
            .repeat(3);
    for entry in Library::bundled().entries() {
        let id = &*entry.workflow.id;
        let (_, server) = World::new().server();
        let mut agent = Agent::new(agent(&server, json!({"elicitation": {}})).await);
        let context = json!({"hypotheses": ["a", "b"], "refactorings": ["one", "two", "three"],
            "securitySensitive": true});
        let start = json!({"workflowId": id, "context": context});
        let mut response = agent.call("workflow_start", start).await;
        let run = response["runId"].clone();
        let mut steps = 0;
        while response["status"] != "complete" {
            assert_eq!(response["status"], "step", "{id}: {response}");
            let step = response["step"]["id"].clone();
            let lazy = json!({"token": response["token"], "output": "ok"});
            response = agent.call("workflow_continue", lazy).await;
            assert_eq!(
                (&response["status"], &response["step"]["id"]),
                (&json!("refused"), &step),
                "{id}"
            );
            // The person rejects the first valid output, and the step is repeated.
            let asked = agent.asked;
            agent.agrees = false;
            let good = |response: &Value| json!({"token": response["token"], "output": output});
            let mut next = agent.call("workflow_continue", good(&response)).await;
            agent.agrees = true;
            if agent.asked > asked {
                assert_eq!((&next["status"], &next["step"]["id"]), (&json!("refused"), &step));
                next = agent.call("workflow_continue", good(&next)).await;
                assert_eq!(agent.asked, asked + 2, "{id} {step}");
                agent.confirmed += 1;
            }
            response = next;
            steps += 1;
            assert!(steps < 100, "{id} has no end");
        }
        let status = agent.call("workflow_status", json!({"runId": run})).await;
        let done = status["done"].as_array().unwrap();
        assert_eq!(done.len(), steps, "{id}");
        let confirmed = done.iter().filter(|done| done["confirmed"] == true).count();
        assert_eq!(confirmed, agent.confirmed, "{id}");
        assert!(confirmed >= 1, "{id} asks no person");
    }
}

/// An agent whose client asks its user.
pub(crate) struct Agent {
    peer: Peer,
    /// Answer of the user.
    pub(crate) agrees: bool,
    /// Number of confirmations asked for.
    pub(crate) asked: usize,
    /// Number of steps confirmed.
    confirmed: usize,
}

impl Agent {
    pub(crate) fn new(peer: Peer) -> Self {
        Self { peer, agrees: true, asked: 0, confirmed: 0 }
    }

    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.peer.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        loop {
            let message = self.peer.next().await;
            if message["method"] == "elicitation/create" {
                self.asked += 1;
                let content = json!({"agree": self.agrees});
                let answer = json!({"action": "accept", "content": content});
                self.peer.send(json!({"jsonrpc": "2.0", "id": message["id"], "result": answer}));
            } else if message["id"] == id {
                return structured(&message["result"]).clone();
            }
        }
    }
}
