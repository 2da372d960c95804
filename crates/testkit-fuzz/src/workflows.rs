//! Any bytes as a workflow file.

use std::collections::HashSet;

use mcp_flow_workflow::next::{Next, guidance, in_round, next};
use mcp_flow_workflow::{Format, Problem, Reading, Validation, Workflow, WorkflowContext};

/// Input: a byte that selects JSON or YAML, then the file.
///
/// Reading terminates with a workflow or its problems. A workflow is the same after serializing and
/// reading it again, and all its steps can be evaluated without a panic.
pub fn run(data: &[u8]) {
    let Some((kind, file)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(file) else { return };
    let format = if kind % 2 == 0 { Format::Yaml } else { Format::Json };
    let reading = Reading::of(text, format, "general");
    for problem in &reading.problems {
        assert!(!problem.message.is_empty(), "a problem says what it is");
    }
    let Some(workflow) = reading.workflow else {
        assert!(reading.problems.iter().any(Problem::is_error), "nothing is refused silently");
        return;
    };
    let written = serde_json::to_string(&workflow).expect("a workflow can be written");
    let again = Reading::of(&written, Format::Json, "other").workflow;
    assert_eq!(again.as_ref(), Some(&workflow), "{written}");
    go_through(&workflow);
}

fn go_through(workflow: &Workflow) {
    let mut done: HashSet<&str> = HashSet::new();
    let mut context = WorkflowContext::new();
    for _ in 0..MAX_STEPS {
        let Ok(Next::Task { task, round, .. }) = next(workflow, &done, &context) else { return };
        if let Some(round) = round.as_ref().filter(|round| round.is_new) {
            for task in workflow.body(round.looped) {
                done.remove(&*task.id);
            }
        }
        context = in_round(&context, round.as_ref()).into_owned();
        assert!(
            !guidance(workflow, task, round.as_ref(), &context).is_empty(),
            "it says something"
        );
        let validation =
            Validation::of(task.validation_criteria.as_ref(), "all tests pass", &context);
        assert_eq!(validation.valid, validation.issues.is_empty(), "{validation:?}");
        assert!(validation.valid || !validation.suggestions.is_empty(), "{validation:?}");
        done.insert(&task.id);
    }
}

/// Enough for several loop rounds.
const MAX_STEPS: usize = 30;
