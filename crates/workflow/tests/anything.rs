//! Properties that hold for any text and any context.

use std::collections::HashSet;

use mcp_flow_workflow::next::{Next, guidance, in_round, next};
use mcp_flow_workflow::{Format, Reading, Validation, WorkflowContext, fill};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

proptest! {
    /// Reading any text terminates, and reports why it is not a workflow.
    #[test]
    fn reading_any_text_terminates(text in "(?s).{0,400}", yaml in any::<bool>()) {
        let format = if yaml { Format::Yaml } else { Format::Json };
        let reading = Reading::of(&text, format, "general");
        prop_assert!(reading.workflow.is_some() || reading.first_error().is_some());
    }

    /// The same holds for text that resembles YAML.
    #[test]
    fn reading_any_yaml_like_text_terminates(text in "([ \\-]{0,4}[a-z&*!]{0,6}[:\\[\\]{},'\"|>#]{0,2}[ \n]){0,60}") {
        let _ = Reading::of(&text, Format::Yaml, "general");
    }

    /// Any steps, conditions and rules that can be read can be evaluated and serialized.
    #[test]
    fn any_readable_workflow_can_be_evaluated(steps in prop::collection::vec(step(), 1..4), context in context()) {
        let value = json!({"id": "any-one", "name": "A", "description": "B", "version": "1.0.0", "steps": steps});
        let reading = Reading::of(&value.to_string(), Format::Json, "general");
        let Some(workflow) = reading.workflow else {
            prop_assert!(reading.first_error().is_some());
            return Ok(());
        };
        let written = serde_json::to_string(&workflow).unwrap();
        prop_assert_eq!(Reading::of(&written, Format::Json, "x").workflow.unwrap(), workflow.clone());
        if let Ok(Next::Task { task, round, .. }) = next(&workflow, &HashSet::new(), &context) {
            let inside = in_round(&context, round.as_ref());
            prop_assert!(!guidance(&workflow, task, round.as_ref(), &inside).is_empty());
            let verdict = Validation::of(task.validation_criteria.as_ref(), "x", &inside);
            prop_assert_eq!(verdict.valid, verdict.issues.is_empty());
            prop_assert!(verdict.valid || !verdict.suggestions.is_empty());
        }
    }

    #[test]
    fn any_text_is_filled(text in "[a-z{}. ]{0,60}", context in context()) {
        let _ = fill(&text, &context);
    }
}

fn context() -> impl Strategy<Value = WorkflowContext> {
    prop::collection::vec(("[a-c]", value()), 0..4)
        .prop_map(|members| members.into_iter().collect())
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c0-9 ]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec(("[a-c]", inner), 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn condition() -> impl Strategy<Value = Value> {
    let test = ("[a-c]", prop::sample::select(&TESTS[..]), value())
        .prop_map(|(name, test, value)| json!({"var": name, test: value}));
    test.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|all| json!({"and": all})),
            prop::collection::vec(inner.clone(), 0..3).prop_map(|any| json!({"or": any})),
            inner.prop_map(|one| json!({"not": one})),
        ]
    })
}

fn rule() -> impl Strategy<Value = Value> {
    prop_oneof![
        "[a-c(*]{1,3}".prop_map(|pattern| json!({"type": "regex", "pattern": pattern})),
        (0u64..5, 0u64..5).prop_map(|(min, max)| json!({"type": "length", "min": min, "max": max})),
        "[a-c]{1,2}".prop_map(|value| json!({"not": {"type": "contains", "value": value}})),
        value().prop_map(|schema| json!({"type": "schema", "schema": schema})),
    ]
}

fn task() -> impl Strategy<Value = Value> {
    ("[a-z]{3,5}", condition(), prop::collection::vec(rule(), 0..3)).prop_map(
        |(id, condition, rules)| {
            json!({"id": id, "title": "T", "prompt": "{{a}} {{b.c}}", "runCondition": condition,
                   "validationCriteria": rules})
        },
    )
}

fn step() -> impl Strategy<Value = Value> {
    let looped = ("[a-z]{6,8}", prop::sample::select(&LOOPS[..]), condition(), task(), value())
        .prop_map(|(id, kind, condition, task, value)| {
            let mut rounds = json!({"type": kind, "maxIterations": 3});
            match kind {
                "for" => rounds["count"] = value,
                "forEach" => rounds["items"] = "a".into(),
                _ => rounds["condition"] = condition,
            }
            json!({"id": id, "type": "loop", "title": "L", "loop": rounds, "body": [task]})
        });
    prop_oneof![3 => task(), 1 => looped]
}

const TESTS: [&str; 9] =
    ["equals", "not_equals", "gt", "lte", "in", "contains", "startsWith", "matches", "odd"];

const LOOPS: [&str; 4] = ["while", "until", "for", "forEach"];
