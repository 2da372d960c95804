//! Schemas of seed 004: inputs, outputs, examples.

use super::*;

/// WFL-020, WFL-025, WFL-028, WFL-036, WFL-040, WFL-042: each example request of the specification
/// gets a response of the documented shape, valid by the output schema.
#[test]
fn the_examples_of_the_specification_work() {
    let tools: Vec<Value> = serde_json::from_str(TOOLS).unwrap();
    let lines: Vec<_> = tools
        .iter()
        .map(|tool| {
            let example = &tool["examples"]["request"];
            request(example["method"].as_str().unwrap(), example["params"].clone()).to_string()
        })
        .collect();
    let replies = opened(&[], &lines);
    for (tool, reply) in tools.iter().zip(&replies) {
        let result = &reply["result"];
        for (name, example) in tool["examples"]["response"].as_object().unwrap() {
            let found = &result[name];
            let same_kind = std::mem::discriminant(found) == std::mem::discriminant(example);
            assert!(same_kind, "{}: {name} is {found}", tool["name"]);
        }
    }
    assert_eq!(replies[1]["result"]["id"], "ai-task-implementation");
    assert_eq!(replies[1]["result"]["steps"][0]["id"], "understand");
    assert_eq!(replies[1]["result"]["steps"][0]["requireConfirmation"], true);
    assert_eq!(replies[2]["result"]["step"]["id"], "understand");
    assert_eq!(replies[2]["result"]["isComplete"], false);
    let guidance = replies[2]["result"]["guidance"]["prompt"].as_str().unwrap();
    assert!(["PREP:", "IMPLEMENT:", "VERIFY:"].iter().all(|word| guidance.contains(word)));
    assert_eq!(replies[3]["result"], json!({"valid": true, "issues": [], "suggestions": []}));
}

/// WFL-018, WFL-023, WFL-026, WFL-027, WFL-032, WFL-033, WFL-041, C-54: inputs that are accepted
/// and rejected.
#[test]
fn inputs_are_validated_against_their_schemas() {
    let ai = "ai-task-implementation";
    let long = "a".repeat(65);
    let most = "a".repeat(64);
    let next = |steps: Value| json!({"workflowId": ai, "completedSteps": steps});
    let check = |method: &str, params: Value, code: Option<i64>| {
        (request(method, params.clone()).to_string(), method.to_owned(), params, code)
    };
    let bad = Some(-32602);
    let table = [
        check("workflow_list", json!({"x": 1}), bad),
        check("workflow_list", json!({"_meta": {"progressToken": 1}}), None),
        check("workflow_list", json!([]), bad),
        check("workflow_get", json!({}), bad),
        check("workflow_get", json!({"id": ai, "y": 1}), bad),
        check("workflow_get", json!({"id": ai, "_meta": {}}), None),
        check("workflow_get", json!({"id": "ab"}), bad),
        check("workflow_get", json!({"id": long}), bad),
        check("workflow_get", json!({"id": "Bad_Id"}), bad),
        check("workflow_get", json!({"id": "../x"}), bad),
        check("workflow_get", json!({"id": 7}), bad),
        check("workflow_get", json!({"id": "abc"}), Some(-32001)),
        check("workflow_get", json!({"id": most}), Some(-32001)),
        check("workflow_next", json!({"workflowId": ai}), bad),
        check("workflow_next", next(json!(["understand", "understand"])), bad),
        check("workflow_next", next(json!(["Under_stand"])), bad),
        check("workflow_next", next(json!("understand")), bad),
        check("workflow_next", json!({"workflowId": ai, "completedSteps": [], "z": 1}), bad),
        check("workflow_next", json!({"workflowId": ai, "completedSteps": [], "context": 1}), bad),
        check(
            "workflow_next",
            json!({"workflowId": ai, "completedSteps": [], "context": {"a": [1]}}),
            None,
        ),
        check(
            "workflow_next",
            json!({"workflowId": ai, "completedSteps": [], "currentStep": "plan"}),
            None,
        ),
        check("workflow_validate", json!({"workflowId": ai, "stepId": "plan", "output": ""}), bad),
        check("workflow_validate", json!({"workflowId": ai, "stepId": "plan"}), bad),
        check(
            "workflow_validate",
            json!({"workflowId": ai, "stepId": "plan", "output": "x", "q": 1}),
            bad,
        ),
        check(
            "workflow_validate",
            json!({"workflowId": ai, "stepId": "plan", "output": "x"}),
            None,
        ),
    ];
    let lines: Vec<_> = table.iter().map(|(line, ..)| line.clone()).collect();
    for (reply, (_, method, params, code)) in opened(&[], &lines).iter().zip(&table) {
        assert_eq!(reply["error"]["code"].as_i64(), *code, "{method} {params}: {reply}");
        if *code == bad {
            assert!(reply["error"]["data"]["details"].is_string(), "{reply}");
        }
    }
}

/// WFL-031, WFL-035, WFL-038, WFL-039, WFL-044, C-28, C-29: a user's workflow runs to its end;
/// outputs that fail are explained.
#[test]
fn a_workflow_runs_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let workflow = "id: my-own\nname: Mine\ndescription: Own → one\nsteps:\n\
        - {id: one, title: One, prompt: 'First {{who}}'}\n\
        - {id: two, title: Two, prompt: Second, runCondition: {var: deep}}\n\
        - {id: three, title: Three, prompt: Third, validationCriteria: [{type: contains, value: done}]}\n";
    std::fs::write(folder.path().join("mine.yaml"), workflow).unwrap();
    let arguments = ["--workflows", folder.path().to_str().unwrap()];
    let next = |steps: Value, context: Value| {
        request(
            "workflow_next",
            json!({"workflowId": "my-own", "completedSteps": steps, "context": context}),
        )
        .to_string()
    };
    let judge = |output: &str| {
        request(
            "workflow_validate",
            json!({"workflowId": "my-own", "stepId": "three", "output": output}),
        )
        .to_string()
    };
    let lines = [
        next(json!([]), json!({"who": "Ada"})),
        next(json!(["one"]), json!({"deep": true})),
        next(json!(["one"]), json!({})),
        next(json!(["one", "three"]), json!({})),
        next(json!(["one", "two", "three"]), json!({})),
        judge("done"),
        judge("not yet"),
        request("workflow_get", json!({"id": "my-own"})).to_string(),
    ];
    let replies = opened(&arguments, &lines);
    let result = |index: usize| &replies[index]["result"];
    assert_eq!(
        (&result(0)["step"]["id"], &result(0)["step"]["prompt"]),
        (&json!("one"), &json!("First Ada"))
    );
    assert_eq!(
        (&result(1)["step"]["id"], &result(2)["step"]["id"]),
        (&json!("two"), &json!("three"))
    );
    assert_eq!((&result(3)["isComplete"], &result(3)["step"]), (&json!(false), &json!({})));
    assert!(result(3)["guidance"]["prompt"].as_str().unwrap().contains("set `deep` to true"));
    assert_eq!((&result(4)["isComplete"], &result(4)["step"]), (&json!(true), &json!({})));
    assert!(!result(4)["guidance"]["prompt"].as_str().unwrap().is_empty());
    assert_eq!(result(5)["valid"], true);
    assert_eq!(result(6)["valid"], false);
    assert!(!result(6)["issues"].as_array().unwrap().is_empty());
    assert!(!result(6)["suggestions"].as_array().unwrap().is_empty());
    assert_eq!(
        (&result(7)["version"], &result(7)["category"]),
        (&json!("0.0.0"), &json!("general"))
    );
    assert_eq!(result(7)["description"], "Own → one");
}
