//! Small files that would be expensive to process are rejected with the reason, or processed
//! cheaply. Without bounds, most of these tests would not terminate, or exhaust memory.

use mcp_flow_workflow::next::guidance;
use mcp_flow_workflow::{Condition, Format, Reading, Step, Validation};
use serde_json::{Map, Value, json};

/// A workflow with one step that also has these members.
fn with(members: Value) -> Value {
    let mut step = json!({"id": "one", "title": "One", "prompt": "Do"});
    step.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    json!({"id": "any-one", "name": "A", "description": "B", "version": "1.0.0", "steps": [step]})
}

fn nested(levels: usize, inner: Value) -> Value {
    (1..levels).fold(inner, |inner, _| json!({"not": inner}))
}

fn schema_rule(schema: &Value) -> Value {
    json!({"type": "schema", "schema": schema})
}

/// References that require two to the power of `length` checks.
fn exploding(length: usize) -> Value {
    let mut defs = Map::new();
    for place in 0..length {
        let next = json!({"$ref": format!("#/$defs/d{}", place + 1)});
        defs.insert(format!("d{place}"), json!({"allOf": [next, next]}));
    }
    defs.insert(format!("d{length}"), json!({"type": "string"}));
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

/// WFL-030: the cost of a file of at most a megabyte is bounded, and the problem names what exceeds
/// it.
#[test]
fn expensive_files_are_rejected() {
    let variable = || json!({"var": "a"});
    let text = || json!({"type": "contains", "value": "a"});
    let patterns: Vec<_> = (0..1900)
        .map(|number| json!({"type": "regex", "pattern": format!("(?i)\\pL{{20}}{number}")}))
        .collect();
    let in_schema: Map<String, Value> = (0..1000)
        .map(|number| (format!("p{number}"), json!({"pattern": format!("\\pL{{30}}{number}")})))
        .collect();
    let loops: Vec<_> = (0..15_000).map(|_| json!({"loop": 1, "body": "nowhere-at-all"})).collect();
    let mut many_steps = with(json!({}));
    many_steps["steps"] = json!(loops);
    let long = "n".repeat(100_000);
    let inside: Map<String, Value> =
        (0..9000).map(|number| (number.to_string(), json!(1))).collect();
    let anchors = (0..50).map(|number| format!("&a{number} [")).collect::<String>();
    let anchors = format!("id: {anchors}{}{}", "x, ".repeat(40_000), "]".repeat(50));
    let cases = [
        (json!({"runCondition": nested(17, variable())}), "conditions nest at most 16"),
        (json!({"validationCriteria": nested(17, text())}), "rules nest at most 16"),
        (json!({"runCondition": {"or": vec![variable(); 2001]}}), "at most 2000 conditions"),
        (json!({"validationCriteria": vec![text(); 2001]}), "at most 2000 rules"),
        (json!({"validationCriteria": schema_rule(&exploding(30))}), "more than 200000 checks"),
        (
            json!({"validationCriteria": vec![schema_rule(&exploding(15)); 40]}),
            "more than 200000 checks",
        ),
        (
            json!({"validationCriteria": schema_rule(&json!({"$ref": "https://a.example/b"}))}),
            "refers to what is not in it",
        ),
        (json!({"validationCriteria": patterns}), "patterns up to here"),
        (
            json!({"validationCriteria": schema_rule(&json!({"properties": in_schema}))}),
            "patterns up to here",
        ),
        (json!({&long: inside}), "nnn...` is unknown"),
        (json!({"\\\"".repeat(200_000): 1, "promt": 1}), "did you mean `prompt`?"),
    ];
    let cases =
        cases.map(|(members, expected)| (Format::Json, with(members).to_string(), expected));
    let more = [
        (Format::Json, many_steps.to_string(), "at most 1000 steps"),
        (Format::Json, format!("[{}1]", "{},".repeat(200_000)), "more than 50000 values"),
        (Format::Yaml, format!("[{}1]", "[],".repeat(200_000)), "more than 50000 values"),
        (Format::Yaml, anchors, "anchors and aliases"),
        (Format::Json, format!("{{\"{long}\":1,\"{long}\":2}}"), "nnn...` is duplicated"),
        (Format::Yaml, format!("id: !{long} x\n"), "nnn... is unknown"),
    ];
    for (format, text, expected) in cases.into_iter().chain(more) {
        let reading = Reading::of(&text, format, "general");
        let problems: Vec<_> = reading.problems.iter().map(ToString::to_string).collect();
        assert!(reading.workflow.is_none(), "{expected}");
        assert!(problems.iter().any(|one| one.contains(expected)), "{expected}: {problems:.300?}");
        assert!(problems.len() <= 100 && problems.iter().all(|one| one.len() < 600), "{expected}");
    }
}

/// Nesting at the limit is accepted.
#[test]
fn files_at_the_limits_are_accepted() {
    let lines: Vec<_> = (0..20_000).map(|number| format!("Mind {number}")).collect();
    let whole = with(json!({
        "runCondition": nested(16, json!({"var": "a"})),
        "validationCriteria": nested(16, json!({"type": "length", "min": 1})),
        "guidance": lines,
    }));
    let reading = Reading::of(&whole.to_string(), Format::Json, "general");
    assert_eq!(reading.problems, []);
}

/// Each part of a condition is evaluated once.
#[test]
fn deep_conditions_are_evaluated() {
    let variable = || Condition::Variable { name: "a".into(), comparisons: Vec::new() };
    let deep = (0..60).fold(variable(), |inner, _| Condition::And(vec![inner]));
    assert!(!deep.is_decided(&Map::new(), &[]));
    assert!(deep.is_decided(&Map::new(), &["a"]));
}

/// WFL-044: a schema that refers to itself twice doubles the work with each level of the output.
#[test]
fn outputs_too_deep_for_their_schema_are_rejected() {
    let part = json!({"items": {"$ref": "#"}});
    let schema = json!({"anyOf": [part, part, {"type": "string"}]});
    let whole = with(json!({"validationCriteria": schema_rule(&schema)}));
    let workflow = Reading::of(&whole.to_string(), Format::Json, "general").workflow.unwrap();
    let Step::Task(task) = &workflow.steps[0] else { panic!("it is a task") };
    for (levels, valid) in [(3, true), (60, false)] {
        let output = format!("{}\"x\"{}", "[".repeat(levels), "]".repeat(levels));
        let verdict = Validation::of(task.validation_criteria.as_ref(), &output, &Map::new());
        assert_eq!(verdict.valid, valid, "{verdict:?}");
        assert!(valid || verdict.issues[0].contains("too deep"), "{verdict:?}");
    }
}

/// WFL-034: a long context value is not repeated in a thousand lines.
#[test]
fn templates_do_not_multiply_the_context() {
    let lines: Vec<_> = (0..1000).map(|number| format!("{{{{a}}}} {number}")).collect();
    let whole = with(json!({"guidance": lines, "prompt": "Do {{b}}"}));
    let workflow = Reading::of(&whole.to_string(), Format::Json, "general").workflow.unwrap();
    let Step::Task(task) = &workflow.steps[0] else { panic!("it is a task") };
    let context = json!({"a": "x".repeat(200_000), "b": "this"});
    let expected = guidance(&workflow, task, None, context.as_object().unwrap());
    assert!(expected.len() < 300 * 1024, "{}", expected.len());
    assert!(expected.contains("Do this") && expected.contains("[...] 999"));
}
