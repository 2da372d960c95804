//! Any bytes as the file of a workflow.

use std::collections::HashSet;

use mcp_flow_workflow::next::{Next, guidance, in_round, next};
use mcp_flow_workflow::{Context, Format, Problem, Reading, Verdict, Workflow};

/// The first byte says whether the rest is JSON or YAML.
///
/// Reading ends, and says why it was in vain. What can be read is the same when it is written back
/// and read again, and can be gone through without a panic, for as many steps as it takes.
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
    let mut context = Context::new();
    for _ in 0..MOST_STEPS {
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
        let verdict = Verdict::of(task.validation_criteria.as_ref(), "all tests pass", &context);
        assert_eq!(verdict.valid, verdict.issues.is_empty(), "{verdict:?}");
        assert!(verdict.valid || !verdict.suggestions.is_empty(), "{verdict:?}");
        done.insert(&task.id);
    }
}

/// Enough to go round some loops.
const MOST_STEPS: usize = 30;
