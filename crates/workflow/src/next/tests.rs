//! Walkthroughs of workflows.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Next, guidance, in_round, next};
use crate::model::Workflow;
use crate::read::Reading;
use crate::source::Format;

/// WFL-038, WFL-039: each step once, in order, then completion.
#[test]
fn steps_run_in_order() {
    let workflow = workflow(json!([step("one"), step("two"), step("three")]));
    check(&workflow, &[], json!({}), "one");
    check(&workflow, &["one"], json!({}), "two");
    check(&workflow, &["two"], json!({}), "one");
    check(&workflow, &["two", "one"], json!({}), "three");
    check(&workflow, &["one", "two", "three"], json!({}), "complete");
}

/// WFL-034, C-64: conditional steps appear and disappear with the context, and none is lost.
#[test]
fn blocked_steps_describe_what_they_wait_for() {
    let mut large = step("large");
    large["runCondition"] = json!({"var": "size", "equals": "large"});
    let workflow = workflow(json!([step("one"), large, step("last")]));
    check(&workflow, &["one"], json!({"size": "Large"}), "large");
    check(&workflow, &["one"], json!({"size": "small"}), "last");
    check(&workflow, &["one"], json!({}), "last");
    check(&workflow, &["one", "last"], json!({}), "large: set `size` to \"large\"");
    check(&workflow, &["one", "last"], json!({"size": "s"}), "complete");
    check(&workflow, &["one", "last", "large"], json!({}), "complete");
}

#[test]
fn loops_repeat_their_body() {
    let looped = |rounds: Value| {
        let body = [step("aaa"), step("bbb")];
        let looped =
            json!({"id": "loop", "type": "loop", "title": "L", "loop": rounds, "body": body});
        workflow(json!([step("one"), looped, step("last")]))
    };
    let limit = "has reached its limit of";
    let past = ["one", "aaa", "bbb"];
    let three = looped(json!({"type": "for", "count": 3, "maxIterations": 5}));
    check(&three, &["one"], json!({}), "aaa in round 1");
    check(&three, &["one", "aaa"], json!({}), "bbb in round 1");
    check(&three, &past, json!({}), "aaa in round 2");
    check(&three, &["one"], json!({"currentIteration": 2}), "aaa in round 2");
    check(&three, &["one", "aaa"], json!({"currentIteration": 2}), "bbb in round 2");
    check(&three, &past, json!({"currentIteration": 3}), "last");
    check(&three, &["one", "loop"], json!({}), "last");
    check(&three, &["one"], json!({"currentIteration": 4}), "last");

    let counted = looped(json!({"type": "for", "count": "n", "maxIterations": 5}));
    check(&counted, &["one"], json!({"n": "2"}), "aaa in round 1");
    check(&counted, &["one"], json!({"n": 0}), "last");
    check(&counted, &["one"], json!({"n": []}), "needs `n` to be a number, not []");
    check(&counted, &past, json!({"n": 9, "currentIteration": 5}), limit);

    let each = json!({"type": "forEach", "items": "l", "maxIterations": 5, "itemVar": "it"});
    let each = looped(each);
    check(&each, &["one"], json!({"l": ["x", "y"]}), "aaa in round 1");
    check(&each, &past, json!({"l": ["x", "y"]}), "aaa in round 2");
    check(&each, &past, json!({"l": ["x"]}), "last");
    check(&each, &["one"], json!({"l": []}), "last");
    check(&each, &["one"], json!({}), "needs `l` to be a list in the context");

    let until = looped(json!({"type": "until", "condition": {"var": "ok"}, "maxIterations": 2}));
    check(&until, &["one"], json!({}), "aaa in round 1");
    check(&until, &past, json!({}), "aaa in round 2");
    check(&until, &past, json!({"ok": true}), "last");
    check(&until, &past, json!({"currentIteration": 2}), limit);
    let open = looped(json!({"type": "while", "condition": {"var": "more"}, "maxIterations": 2}));
    check(&open, &["one"], json!({}), "last");
    check(&open, &["one", "last"], json!({}), "loop: set `more` to true");
    check(&open, &["one", "last"], json!({"more": false}), "complete");
    check(&open, &["one"], json!({"more": true}), "aaa in round 1");
    // A round is completed before the condition is evaluated again.
    check(&open, &["one", "aaa"], json!({"more": false}), "bbb in round 1");
    check(&open, &past, json!({"more": false}), "last");

    let absent = json!({"type": "until", "condition": {"not": {"var": "bad"}}, "maxIterations": 2});
    let absent = looped(absent);
    check(&absent, &["one", "last"], json!({}), "loop: set `bad` to true");
    check(&absent, &["one"], json!({"bad": true}), "aaa in round 1");
    let twice = json!({"var": "currentIteration", "lte": 2});
    let twice = looped(json!({"type": "while", "condition": twice, "maxIterations": 9}));
    check(&twice, &["one"], json!({}), "aaa in round 1");
    check(&twice, &past, json!({}), "aaa in round 2");
    check(&twice, &past, json!({"currentIteration": 2}), "last");
}

/// WFL-034: steps of a loop are evaluated anew in each round, and none is lost.
#[test]
fn conditions_within_loops_are_evaluated_each_round() {
    let looped = |rounds: Value, condition: Value, more: &[&str]| {
        let mut some = step("some");
        some["runCondition"] = condition;
        let body: Vec<_> = more.iter().map(|id| step(id)).chain([some]).collect();
        let looped =
            json!({"id": "loop", "type": "loop", "title": "L", "loop": rounds, "body": body});
        workflow(json!([looped, step("last")]))
    };
    let each = json!({"type": "forEach", "items": "l", "maxIterations": 5});
    let list = || json!({"l": ["a", "b", "c"]});
    let at = |iteration: u32| json!({"l": ["a", "b", "c"], "currentIteration": iteration});

    let third = looped(each.clone(), json!({"var": "currentItem", "equals": "c"}), &[]);
    check(&third, &[], list(), "some in round 3");
    check(&third, &["some"], at(3), "last");
    let nowhere = looped(each.clone(), json!({"var": "currentItem.kind", "equals": "z"}), &[]);
    check(&nowhere, &["last"], list(), "complete");
    let first = looped(each.clone(), json!({"var": "currentIndex", "equals": 0}), &["other"]);
    check(&first, &["other"], list(), "some in round 1");
    check(&first, &["other", "some"], list(), "other in round 2");
    check(&first, &["other"], at(2), "other in round 3");
    check(&first, &["other", "last"], at(3), "complete");

    let large = looped(each.clone(), json!({"var": "large"}), &[]);
    check(&large, &["last"], list(), "some: set `large` to true");
    let expected = json!({"l": ["a", "b"], "large": false});
    check(&large, &["last"], expected, "complete");
    check(&large, &[], json!({"l": ["a"], "large": true}), "some in round 1");
    // An undecided condition prevents a new round.
    let open = looped(each, json!({"var": "large"}), &["other"]);
    check(&open, &["other"], list(), "last");
    check(&open, &["other", "last"], list(), "some: set `large` to true");
    check(&open, &["other"], json!({"l": ["a", "b"], "large": false}), "other in round 2");

    let until = json!({"type": "until", "condition": {"var": "ok"}, "maxIterations": 4});
    let idle = looped(until, json!({"var": "currentIteration", "gt": 9}), &[]);
    check(&idle, &["last"], json!({}), "complete");
    check(&idle, &["last"], json!({"ok": true}), "complete");
}

/// Two loops with the same round variable: the second starts at its own first round.
#[test]
fn a_second_loop_starts_at_its_first_round() {
    let looped = |id: &str, body: &str, count: u32| {
        let rounds = json!({"type": "for", "count": count, "maxIterations": 5});
        json!({"id": id, "type": "loop", "title": "L", "loop": rounds, "body": [step(body)]})
    };
    let two = workflow(json!([looped("loop-a", "aaa", 2), looped("loop-b", "bbb", 3)]));
    let context = json!({"currentIteration": 2});
    check(&two, &["aaa"], context.clone(), "bbb in round 1");
    let done = HashSet::from(["aaa"]);
    let Ok(Next::Task { ended, .. }) = next(&two, &done, context.as_object().unwrap()) else {
        panic!("there is something to do")
    };
    assert_eq!(ended.iter().map(|looped| &*looped.id).collect::<Vec<_>>(), ["loop-a"]);
    // As the note says: the loop that has ended is reported as completed.
    check(&two, &["aaa", "loop-a"], json!({"currentIteration": 1}), "bbb in round 1");
    check(&two, &["aaa", "loop-a", "bbb"], json!({"currentIteration": 1}), "bbb in round 2");
    check(&two, &["aaa", "loop-a", "bbb"], json!({"currentIteration": 3}), "complete");
}

#[test]
fn the_body_of_a_loop_runs_only_in_the_loop() {
    let rounds = json!({"type": "for", "count": 2, "maxIterations": 2});
    let looped =
        json!({"id": "loop", "type": "loop", "title": "L", "loop": rounds, "body": "body"});
    let workflow = workflow(json!([step("body"), looped]));
    check(&workflow, &[], json!({}), "body in round 1");
    check(&workflow, &["body"], json!({}), "body in round 2");
    check(&workflow, &["body"], json!({"currentIteration": 2}), "complete");
}

/// WFL-037: role, then guidance, then the prompt, then the round.
#[test]
fn guidance_is_assembled_in_order() {
    let sweep = json!({
        "id": "sweep", "title": "S", "prompt": "Sweep {{currentItem}}",
        "guidance": ["Mind {{cat}}", "Be kind"], "requireConfirmation": {"var": "careful"},
    });
    let rounds = json!({"type": "forEach", "items": "l", "maxIterations": 2});
    let looped = json!({"id": "loop", "type": "loop", "title": "Rooms of {{who}}", "loop": rounds,
        "body": [sweep]});
    let mut workflow = workflow(json!([looped]));
    workflow.agent_role = Some("You are {{who}}.".into());
    workflow.meta_guidance = vec!["Never hurry, {{who}}".into()];
    let context = json!({"l": ["hall"], "who": "Ada", "careful": "yes"});
    let context = context.as_object().unwrap();
    let Ok(Next::Task { task, round, .. }) = next(&workflow, &HashSet::new(), context) else {
        panic!("there is something to do")
    };
    let context = in_round(context, round.as_ref());
    assert_eq!(
        guidance(&workflow, task, round.as_ref(), &context),
        "You are Ada.\n\n- Never hurry, Ada\n- Mind {{cat}}\n- Be kind\n\nSweep hall\n\nThis is round 1 of 1 of the \
         loop \"Rooms of Ada\", for \"hall\".\n\nThe user has to confirm the outcome of this step before you \
         go on."
    );
}

fn check(workflow: &Workflow, done: &[&str], context: Value, expected: &str) {
    let completed: HashSet<_> = done.iter().copied().collect();
    let found = match next(workflow, &completed, context.as_object().unwrap()) {
        Ok(Next::Task { task, round: None, .. }) => task.id.to_string(),
        Ok(Next::Task { task, round: Some(round), .. }) => {
            format!("{} in round {}", task.id, round.iteration)
        }
        Ok(Next::Blocked(blocked)) => {
            let words: Vec<_> =
                blocked.iter().map(|one| format!("{}: {}", one.step, one.wanted)).collect();
            words.join("; ")
        }
        Ok(Next::Complete) => "complete".to_owned(),
        Err(fault) => {
            assert!(fault.to_string().contains(expected), "{fault}");
            return;
        }
    };
    assert_eq!(found, expected, "after {done:?} with {context}");
}

fn step(id: &str) -> Value {
    json!({"id": id, "title": "T", "prompt": "P"})
}

fn workflow(steps: Value) -> Workflow {
    let value =
        json!({"id": "abc", "name": "A", "description": "B", "version": "1.0.0", "steps": steps});
    let reading = Reading::of(&value.to_string(), Format::Json, "x");
    reading.workflow.unwrap_or_else(|| panic!("{:?}", reading.problems))
}
