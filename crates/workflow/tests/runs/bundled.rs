//! The bundled workflows as enforced runs, with a person who confirms.

use mcp_flow_testkit::Peer;
use mcp_flow_workflow::Library;
use serde_json::{Value, json};

use super::{World, agent, structured};

/// WFL-038, WFL-039: every bundled workflow can be walked to its end as a run, in which a lazy output
/// gets nowhere, a person is asked where the workflow says so, and their no counts.
#[tokio::test]
async fn every_bundled_workflow_is_walked_to_its_end() {
    // Long enough for all, and with every word some step asks for.
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
        let mut told = agent.call("workflow_start", start).await;
        let run = told["runId"].clone();
        let mut steps = 0;
        while told["status"] != "complete" {
            assert_eq!(told["status"], "step", "{id}: {told}");
            let step = told["step"]["id"].clone();
            let lazy = json!({"token": told["token"], "output": "ok"});
            told = agent.call("workflow_continue", lazy).await;
            assert_eq!((&told["status"], &told["step"]["id"]), (&json!("refused"), &step), "{id}");
            // The person says no to the first good output, and the step stays.
            let asked = agent.asked;
            agent.agrees = false;
            let good = |told: &Value| json!({"token": told["token"], "output": output});
            let mut next = agent.call("workflow_continue", good(&told)).await;
            agent.agrees = true;
            if agent.asked > asked {
                assert_eq!((&next["status"], &next["step"]["id"]), (&json!("refused"), &step));
                next = agent.call("workflow_continue", good(&next)).await;
                assert_eq!(agent.asked, asked + 2, "{id} {step}");
                agent.confirmed += 1;
            }
            told = next;
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

/// An agent whose client asks the person behind it.
pub(crate) struct Agent {
    peer: Peer,
    /// What the person says.
    pub(crate) agrees: bool,
    /// How often they were asked.
    pub(crate) asked: usize,
    /// How many steps they have agreed to.
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
