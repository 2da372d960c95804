//! A fake agent that would get past steps by what it says of the task, or does not say.

use mcp_flow_testkit::Peer;
use serde_json::{Value, json};

use super::bundled::Agent;
use super::{World, agent, call, structured};

/// The list of a loop is a member of what the agent says, and one of its steps needs a person.
const PLAN: &str = "id: the-plan\nname: Plan\ndescription: Files of a plan\nversion: 1.0.0\n\
    preconditions: [There is a plan]\nclarificationPrompts: [Which files?]\n\
    metaGuidance: [Small steps]\nsteps:\n\
    - {id: files, type: loop, title: Files, loop: {type: forEach, items: plan.files, \
       maxIterations: 9}, body: [{id: change, title: Change, prompt: 'Change {{currentItem.name}}'}, \
       {id: risky, title: Risky, prompt: Look twice, runCondition: {var: currentItem.risky}}]}\n\
    - {id: last, title: Last, prompt: Finish}\n";

/// Whether there is another round, and whether a step of it applies, is for the agent to say.
const REPAIR: &str = "id: repair-it\nname: Repair\ndescription: Until it is good\nversion: 1.0.0\nsteps:\n\
    - {id: repair, type: loop, title: Repair, loop: {type: while, condition: {var: failing}, \
       maxIterations: 5}, body: [{id: mend, title: Mend, prompt: Mend it}, \
       {id: approve, title: Approve, prompt: Have it looked at, runCondition: {var: visible}, \
        requireConfirmation: {var: public}}]}\n\
    - {id: last, title: Last, prompt: Finish}\n";

/// What comes before a loop, and the loop itself, apply by what the agent says.
const FILES: &str = "id: the-files\nname: Files\ndescription: All files\nversion: 1.0.0\nsteps:\n\
    - {id: extra, title: Extra, prompt: More, runCondition: {var: extra}}\n\
    - {id: each, type: loop, title: Each, runCondition: {var: has}, loop: {type: forEach, \
       items: files, maxIterations: 9}, body: [{id: work, title: Work, prompt: Work}, \
       {id: check, title: Check, prompt: Check}]}\n\
    - {id: last, title: Last, prompt: Finish}\n";

/// A rule and a confirmation that count when the agent says so.
const STRICT: &str = "id: the-strict\nname: Strict\ndescription: By the book\nversion: 1.0.0\nsteps:\n\
    - {id: prove, title: Prove, prompt: Prove, requireConfirmation: {var: risky}, \
       validationCriteria: [{type: contains, value: PROOF, condition: {var: strict}}]}\n\
    - {id: last, title: Last, prompt: Finish}\n";

/// Rounds are as many as there were when the loop was entered, whatever path leads to the list.
#[tokio::test]
async fn a_list_within_the_context_cannot_be_emptied_in_its_loop() {
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
        let told = structured(&call(&mut peer, "workflow_start", start).await).clone();
        let workflow = &told["workflow"];
        assert_eq!(workflow["preconditions"], json!(["There is a plan"]));
        assert_eq!(workflow["clarificationPrompts"], json!(["Which files?"]));
        let prompt = told["step"]["prompt"].as_str().unwrap();
        assert!(prompt.starts_with("- Small steps\n\nChange a"), "{prompt}");
        let walked = walk(&mut peer, told, |_| trick.clone()).await;
        assert_eq!(walked, ["change 1", "change 2", "risky 2", "change 3", "last"], "{trick}");
    }
}

/// What is left out decides nothing: it is asked for before anything later is shown, and a round
/// that was begun is finished.
#[tokio::test]
async fn an_agent_cannot_skip_a_step_by_silence() {
    let world = World::with(REPAIR);
    let (_, server) = world.server();
    let mut peer = agent(&server, json!({})).await;
    let start = json!({"workflowId": "repair-it"});
    let told = structured(&call(&mut peer, "workflow_start", start).await).clone();
    let mut said = [
        ("For `repair`: set `failing` to true", json!({"failing": true})),
        ("Mend it", json!({})),
        // In the middle of a round it says that there is no need for one.
        ("For `approve`: set `visible` to true", json!({"visible": true, "failing": false})),
        ("Have it looked at", json!({})),
        ("Have it looked at", json!({"public": false})),
        ("Finish", json!({})),
    ]
    .into_iter();
    let walked = walk(&mut peer, told, |step| {
        let (prompt, context) = said.next().unwrap();
        assert!(step["prompt"].as_str().unwrap().contains(prompt), "{step}");
        context
    })
    .await;
    assert_eq!(walked, ["context", "mend 1", "context", "approve 1", "approve 1", "last"]);
}

/// A loop that was entered is gone round to its end, whatever else would apply by now.
#[tokio::test]
async fn a_loop_is_not_left_for_what_was_said_in_it() {
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
        let told = structured(&call(&mut peer, "workflow_start", start).await).clone();
        let walked = walk(&mut peer, told, |_| trick.clone()).await;
        assert_eq!(walked, [&rounds[..], after].concat(), "{trick}");
    }
}

/// What a step needs does not change by taking back what was said, in the same breath or after a
/// person said no.
#[tokio::test]
async fn an_agent_cannot_take_back_what_makes_a_step_strict() {
    let world = World::with(STRICT);
    let (_, server) = world.server();
    let mut agent = Agent::new(agent(&server, json!({"elicitation": {}})).await);
    let context = json!({"strict": true});
    let start = json!({"workflowId": "the-strict", "context": context});
    let mut told = agent.call("workflow_start", start).await;
    for (output, context, issue) in [
        ("x", json!({}), "is still open: set `risky` to true"),
        ("x", json!({"risky": false}), "does not contain \"PROOF\""),
        ("x", json!({"risky": false, "strict": false}), "does not contain \"PROOF\""),
        ("a PROOF", json!({"risky": true}), "did not agree"),
        ("a PROOF", json!({"risky": false}), "did not agree"),
    ] {
        agent.agrees = false;
        let given = json!({"token": told["token"], "output": output, "context": context});
        told = agent.call("workflow_continue", given).await;
        assert_eq!(told["status"], "refused", "{told}");
        assert!(told["issues"][0].as_str().unwrap().contains(issue), "{issue}: {told}");
    }
    agent.agrees = true;
    let given = json!({"token": told["token"], "output": "a PROOF", "context": {"risky": false}});
    told = agent.call("workflow_continue", given).await;
    assert_eq!(told["step"]["id"], "last");
    assert_eq!(agent.asked, 3);
}

/// What the agent says is bounded; what a loop adds to it is not the agent's.
#[tokio::test]
async fn a_large_item_does_not_stop_a_run() {
    let world = World::with(PLAN);
    let (_, server) = world.server();
    let mut peer = agent(&server, json!({})).await;
    let files = |length: usize| {
        let files = json!([{"name": "n".repeat(length)}]);
        json!({"workflowId": "the-plan", "context": {"plan": {"files": files}}})
    };
    let refused = call(&mut peer, "workflow_start", files(300_000)).await;
    assert_eq!(refused["isError"], true);
    let told = call(&mut peer, "workflow_start", files(200_000)).await;
    let told = structured(&told).clone();
    assert_eq!(walk(&mut peer, told, |_| json!({})).await, ["change 1", "last"]);
}

/// Goes to the end of a run; gives the steps that were shown, with their rounds.
async fn walk(
    peer: &mut Peer,
    mut told: Value,
    mut context: impl FnMut(&Value) -> Value,
) -> Vec<String> {
    let mut walked = Vec::new();
    while told["status"] != "complete" {
        let step = &told["step"];
        let round = step.get("round").map_or_else(String::new, |round| format!(" {round}"));
        walked.push(format!("{}{round}", step["id"].as_str().unwrap()));
        let given =
            json!({"token": told["token"], "output": "work", "context": context(&told["step"])});
        told = structured(&call(peer, "workflow_continue", given).await).clone();
    }
    walked
}
