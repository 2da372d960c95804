//! An agent that tries to skip steps by what it puts into the context, or leaves out.

use mcp_flow_testkit::Peer;
use serde_json::{Value, json};

use super::bundled::Agent;
use super::{World, agent, call, structured};

/// The list of a loop is a nested member of the context, and one of its steps needs a confirmation.
const PLAN: &str = "id: the-plan\nname: Plan\ndescription: Files of a plan\nversion: 1.0.0\n\
    preconditions: [There is a plan]\nclarificationPrompts: [Which files?]\n\
    metaGuidance: [Small steps]\nsteps:\n\
    - {id: files, type: loop, title: Files, loop: {type: forEach, items: plan.files, \
       maxIterations: 9}, body: [{id: change, title: Change, prompt: 'Change {{currentItem.name}}'}, \
       {id: risky, title: Risky, prompt: Look twice, runCondition: {var: currentItem.risky}}]}\n\
    - {id: last, title: Last, prompt: Finish}\n";

/// The context decides whether there is another round, and whether a step of it applies.
const REPAIR: &str = "id: repair-it\nname: Repair\ndescription: Until it is good\nversion: 1.0.0\nsteps:\n\
    - {id: repair, type: loop, title: Repair, loop: {type: while, condition: {var: failing}, \
       maxIterations: 5}, body: [{id: mend, title: Mend, prompt: Mend it}, \
       {id: approve, title: Approve, prompt: Have it looked at, runCondition: {var: visible}, \
        requireConfirmation: {var: public}}]}\n\
    - {id: last, title: Last, prompt: Finish}\n";

/// The context decides whether a loop, and the step before it, apply.
const FILES: &str = "id: the-files\nname: Files\ndescription: All files\nversion: 1.0.0\nsteps:\n\
    - {id: extra, title: Extra, prompt: More, runCondition: {var: extra}}\n\
    - {id: each, type: loop, title: Each, runCondition: {var: has}, loop: {type: forEach, \
       items: files, maxIterations: 9}, body: [{id: work, title: Work, prompt: Work}, \
       {id: check, title: Check, prompt: Check}]}\n\
    - {id: last, title: Last, prompt: Finish}\n";

/// A rule and a confirmation under conditions.
const STRICT: &str = "id: the-strict\nname: Strict\ndescription: By the book\nversion: 1.0.0\nsteps:\n\
    - {id: prove, title: Prove, prompt: Prove, requireConfirmation: {var: risky}, \
       validationCriteria: [{type: contains, value: PROOF, condition: {var: strict}}]}\n\
    - {id: last, title: Last, prompt: Finish}\n";

/// The number of rounds is fixed when the loop is entered, for nested lists too.
#[tokio::test]
async fn a_nested_list_cannot_be_emptied_within_its_loop() {
    let tricks = [
        json!({"plan": {"files": []}}),
        json!({"plan.files": [], "plan.files.0": {}, "currentItem.risky": false}),
        json!({"plan": null, "currentItem": {}, "currentIndex": 9}),
    ];
    for trick in tricks {
        let world = World::with(PLAN);
        let (_, server) = world.server();
        let mut peer = agent(&server, json!({})).await;
        let files = json!([{"name": "a"}, {"name": "b", "risky": true}, {"name": "c"}]);
        let start = json!({"workflowId": "the-plan", "context": {"plan": {"files": files}}});
        let response = structured(&call(&mut peer, "workflow_start", start).await).clone();
        let workflow = &response["workflow"];
        assert_eq!(workflow["preconditions"], json!(["There is a plan"]));
        assert_eq!(workflow["clarificationPrompts"], json!(["Which files?"]));
        let prompt = response["step"]["prompt"].as_str().unwrap();
        assert!(prompt.starts_with("- Small steps\n\nChange a"), "{prompt}");
        let shown = complete(&mut peer, response, |_| trick.clone()).await;
        assert_eq!(shown, ["change 1", "change 2", "risky 2", "change 3", "last"], "{trick}");
    }
}

/// Missing variables decide nothing: they are asked for before a later step is shown, and a round
/// that was begun is completed.
#[tokio::test]
async fn an_agent_cannot_skip_a_step_by_omitting_context() {
    let world = World::with(REPAIR);
    let (_, server) = world.server();
    let mut peer = agent(&server, json!({})).await;
    let start = json!({"workflowId": "repair-it"});
    let response = structured(&call(&mut peer, "workflow_start", start).await).clone();
    let mut said = [
        ("For `repair`: set `failing` to true", json!({"failing": true})),
        ("Mend it", json!({})),
        // In the middle of a round it claims that none is needed.
        ("For `approve`: set `visible` to true", json!({"visible": true, "failing": false})),
        ("Have it looked at", json!({})),
        ("Have it looked at", json!({"public": false})),
        ("Finish", json!({})),
    ]
    .into_iter();
    let shown = complete(&mut peer, response, |step| {
        let (prompt, context) = said.next().unwrap();
        assert!(step["prompt"].as_str().unwrap().contains(prompt), "{step}");
        context
    })
    .await;
    assert_eq!(shown, ["context", "mend 1", "context", "approve 1", "approve 1", "last"]);
}

/// A loop that was entered is completed, whatever the context says later.
#[tokio::test]
async fn new_context_does_not_end_a_loop() {
    let rounds = ["work 1", "check 1", "work 2", "check 2"];
    for (trick, after) in [
        (json!({"extra": true}), &["extra", "last"][..]),
        (json!({"has": false}), &["last"]),
        (json!({"has": false, "extra": true, "files": []}), &["extra", "last"]),
    ] {
        let world = World::with(FILES);
        let (_, server) = world.server();
        let mut peer = agent(&server, json!({})).await;
        let context = json!({"extra": false, "has": true, "files": [1, 2]});
        let start = json!({"workflowId": "the-files", "context": context});
        let response = structured(&call(&mut peer, "workflow_start", start).await).clone();
        let shown = complete(&mut peer, response, |_| trick.clone()).await;
        assert_eq!(shown, [&rounds[..], after].concat(), "{trick}");
    }
}

/// The requirements of a step do not change when the agent takes back context, together with the
/// output or after a rejection.
#[tokio::test]
async fn an_agent_cannot_relax_the_requirements_of_a_step() {
    let world = World::with(STRICT);
    let (_, server) = world.server();
    let mut agent = Agent::new(agent(&server, json!({"elicitation": {}})).await);
    let context = json!({"strict": true});
    let start = json!({"workflowId": "the-strict", "context": context});
    let mut response = agent.call("workflow_start", start).await;
    for (output, context, issue) in [
        ("x", json!({}), "is still undecided: set `risky` to true"),
        ("x", json!({"risky": false}), "does not contain \"PROOF\""),
        ("x", json!({"risky": false, "strict": false}), "does not contain \"PROOF\""),
        ("a PROOF", json!({"risky": true}), "did not agree"),
        ("a PROOF", json!({"risky": false}), "did not agree"),
    ] {
        agent.agrees = false;
        let given = json!({"token": response["token"], "output": output, "context": context});
        response = agent.call("workflow_continue", given).await;
        assert_eq!(response["status"], "refused", "{response}");
        assert!(response["issues"][0].as_str().unwrap().contains(issue), "{issue}: {response}");
    }
    agent.agrees = true;
    let given =
        json!({"token": response["token"], "output": "a PROOF", "context": {"risky": false}});
    response = agent.call("workflow_continue", given).await;
    assert_eq!(response["step"]["id"], "last");
    assert_eq!(agent.asked, 3);
}

/// The size limit applies to the agent's context, not to loop variables.
#[tokio::test]
async fn a_large_loop_item_does_not_stop_a_run() {
    let world = World::with(PLAN);
    let (_, server) = world.server();
    let mut peer = agent(&server, json!({})).await;
    let files = |length: usize| {
        let files = json!([{"name": "n".repeat(length)}]);
        json!({"workflowId": "the-plan", "context": {"plan": {"files": files}}})
    };
    let refused = call(&mut peer, "workflow_start", files(300_000)).await;
    assert_eq!(refused["isError"], true);
    let response = call(&mut peer, "workflow_start", files(200_000)).await;
    let response = structured(&response).clone();
    assert_eq!(complete(&mut peer, response, |_| json!({})).await, ["change 1", "last"]);
}

/// Completes a run; returns the steps that were shown, with their rounds.
async fn complete(
    peer: &mut Peer,
    mut response: Value,
    mut context: impl FnMut(&Value) -> Value,
) -> Vec<String> {
    let mut shown = Vec::new();
    while response["status"] != "complete" {
        let step = &response["step"];
        let round = step.get("round").map_or_else(String::new, |round| format!(" {round}"));
        shown.push(format!("{}{round}", step["id"].as_str().unwrap()));
        let given = json!({"token": response["token"], "output": "work", "context": context(&response["step"])});
        response = structured(&call(peer, "workflow_continue", given).await).clone();
    }
    shown
}
