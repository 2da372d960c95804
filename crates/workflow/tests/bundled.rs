//! Bundled workflows: each is valid, and an agent that tracks its own progress can complete it.
//! `runs/bundled.rs` completes them as enforced runs.

use std::collections::HashSet;

use mcp_flow_workflow::next::{Next, guidance, in_round, next};
use mcp_flow_workflow::{Library, Validation, WorkflowContext};
use serde_json::json;

/// WFL-024: six or more, without errors or warnings.
#[test]
fn bundled_workflows_are_valid() {
    let library = Library::bundled();
    assert!(library.broken().is_empty(), "{:?}", library.broken());
    assert!(library.entries().len() >= 6);
    let first = library.find("ai-task-implementation").unwrap();
    assert_eq!((&*first.name, &*first.category), ("AI Task Prompt Workflow", "development"));
}

/// WFL-038, WFL-039: an agent that follows the instructions completes each workflow.
#[test]
fn bundled_workflows_can_be_completed() {
    // Long enough for every rule, and with every word that some step requires.
    let output = "- APPROVE: the test was expected to fail because of the cause, is confirmed, and all tests pass now. This is a how-to. "
        .repeat(3);
    let library = Library::bundled();
    for entry in library.entries() {
        let workflow = entry.workflow;
        let mut done: HashSet<Box<str>> = HashSet::new();
        let mut context: WorkflowContext = json!({
            "hypotheses": ["a", "b"], "refactorings": ["one", "two", "three"], "securitySensitive": true,
        })
        .as_object()
        .unwrap()
        .clone();
        let mut steps = 0;
        loop {
            let completed: HashSet<&str> = done.iter().map(|id| &**id).collect();
            match next(&workflow, &completed, &context).unwrap() {
                Next::Complete => break,
                Next::Blocked(blocked) => panic!("{}: {blocked:?}", workflow.id),
                Next::Task { task, round, .. } => {
                    if let Some(round) = &round {
                        if round.is_new {
                            for task in workflow.body(round.looped) {
                                done.remove(&task.id);
                            }
                        }
                        context = in_round(&context, Some(round)).into_owned();
                    }
                    let text = guidance(&workflow, task, round.as_ref(), &context);
                    assert!(!text.contains("{{"), "{}: {text}", workflow.id);
                    let verdict =
                        Validation::of(task.validation_criteria.as_ref(), &output, &context);
                    assert!(verdict.valid, "{} {}: {verdict:?}", workflow.id, task.id);
                    let lazy = Validation::of(task.validation_criteria.as_ref(), "ok", &context);
                    assert!(!lazy.valid, "{} {} lets anything pass", workflow.id, task.id);
                    done.insert(task.id.clone());
                    steps += 1;
                }
            }
        }
        assert!(steps >= 4, "{} has {steps} steps", workflow.id);
    }
}
