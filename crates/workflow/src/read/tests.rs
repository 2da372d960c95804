//! Problems reported for invalid files.

use serde_json::{Value, json};

use super::Reading;
use crate::schema;
use crate::source::Format;

/// C-29: required and optional members, and defaults.
#[test]
fn defaults_are_filled_in() {
    let text = json!({"id": "abc", "name": "A", "description": "B", "steps": [
        {"id": "one", "title": "One", "prompt": "Do it"}]});
    let reading = Reading::of(&text.to_string(), Format::Json, "general");
    let message: Vec<_> = reading.problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(message, ["`version` is missing; the default is 0.0.0"]);
    let written = serde_json::to_value(reading.workflow.unwrap()).unwrap();
    let mut expected = text.clone();
    expected["version"] = json!("0.0.0");
    expected["category"] = json!("general");
    assert_eq!(written, expected);
}

#[test]
fn a_workflow_survives_a_round_trip() {
    let whole = whole();
    let reading = Reading::of(&whole.to_string(), Format::Json, "x");
    assert_eq!(reading.problems, []);
    assert_eq!(serde_json::to_value(reading.workflow.unwrap()).unwrap(), whole);
}

/// Each change makes the file invalid; the problem has the position and the solution. The published
/// schema agrees where it can express the rule.
#[test]
fn problems_have_a_position_and_a_solution() {
    let long = "x".repeat(8193);
    for (pointer, value, message) in [
        ("/id", json!("Bad_Id"), "`id` must be 3 to 64 lowercase letters"),
        ("/id", json!("ab"), "3 to 64"),
        ("/id", Value::Null, "`id` is missing"),
        ("/name", json!(7), "`name` must be a string, not 7"),
        ("/name", json!(""), "`name` must not be empty"),
        ("/name", json!("x".repeat(129)), "at most 128 characters, not 129"),
        ("/description", json!("x".repeat(513)), "at most 512"),
        ("/version", json!(1.0), "such as 1.0.0, in quotes, not 1.0"),
        ("/version", json!("one"), "such as 1.0.0"),
        ("/agentRole", json!("short"), "at least 10"),
        ("/preconditions", json!("x"), "`preconditions` must be a list"),
        ("/preconditions", json!(["a", "a"]), "a duplicate"),
        ("/metaGuidance/0", json!("x".repeat(257)), "at most 256"),
        ("/steps", json!([]), "at least one step"),
        ("/steps/0", json!("x"), "must be an object"),
        ("/steps/0/prompt", json!(long), "at most 8192 characters, not 8193"),
        ("/steps/0/prompt", Value::Null, "`prompt` is missing"),
        ("/steps/0/promt", json!("x"), "did you mean `prompt`?"),
        ("/steps/0/colour", json!("x"), "`colour` is unknown; known are id, title"),
        ("/steps/0/requireConfirmation", json!("yes"), "true, false or a condition"),
        ("/steps/0/askForFiles", json!(1), "true or false, not 1"),
        ("/steps/0/runCondition", json!({}), "a condition has `var`"),
        ("/steps/0/runCondition", json!({"vra": "x"}), "did you mean `var`?"),
        ("/steps/0/runCondition", json!({"var": "a", "and": []}), "only one of var, and"),
        (
            "/steps/0/runCondition",
            json!({"not": {"var": "a"}, "gt": 1}),
            "cannot be combined with `not`",
        ),
        ("/steps/0/runCondition", json!({"var": "a", "gt": "1"}), "`gt` must be a number"),
        ("/steps/0/runCondition", json!({"var": "a", "equal": 1}), "did you mean `equals`?"),
        ("/steps/0/runCondition", json!({"var": "a", "in": 1}), "`in` must be a list"),
        ("/steps/0/runCondition", json!({"var": "a", "matches": "("}), "unclosed group"),
        ("/steps/0/validationCriteria", json!("x"), "a rule or a list of rules"),
        ("/steps/0/validationCriteria/0", json!({}), "a rule has a `type`"),
        ("/steps/0/validationCriteria/0", json!({"nott": {}}), "did you mean `not`?"),
        ("/steps/0/validationCriteria/0", json!({"type": "contain"}), "mean \"contains\"?"),
        ("/steps/0/validationCriteria/0/value", Value::Null, "`value` is missing"),
        ("/steps/0/validationCriteria/0/vale", json!(1), "did you mean `value`?"),
        ("/steps/0/validationCriteria/1", json!({"type": "length"}), "`min`, `max` or both"),
        ("/steps/0/validationCriteria/1/min", json!(99), "`min` is more than `max`"),
        ("/steps/0/validationCriteria/2/pattern", json!("(?=a)"), "look-around"),
        ("/steps/0/validationCriteria/2/flags", json!("q"), "flag 'q'"),
        ("/steps/0/validationCriteria/3/schema", json!({"type": 7}), "schema cannot be used"),
        ("/steps/1/type", json!("lop"), "`type` must be \"loop\""),
        ("/steps/1/loop/type", json!("each"), "while, until, for or forEach"),
        ("/steps/1/loop/maxIterations", json!(0), "from 1 to 1000, not 0"),
        ("/steps/1/loop/maxIterations", Value::Null, "`maxIterations` is missing"),
        ("/steps/1/loop/count", json!(3), "`count` does not apply"),
        ("/steps/1/loop/items", Value::Null, "`items` is missing"),
        ("/steps/1/body", json!("nowhere"), "`body` names `nowhere`"),
        ("/steps/1/body", json!("firts"), "did you mean `first`?"),
        ("/steps/1/body", json!("again"), "loops do not nest"),
        ("/steps/1/loop/items", json!("room"), "`room` is set by a loop"),
        ("/steps/1/loop/items", json!("room.parts"), "is set by a loop"),
        ("/steps/1/loop/indexVar", json!("room"), "need distinct names"),
        ("/steps/1/body", json!([]), "the id of a step, or a list"),
        ("/steps/1/body/0/id", json!("first"), "another step is called `first`"),
        ("/minimumServerVersion", json!("new"), "such as 1.0.0"),
    ] {
        let mut broken = whole();
        let (outer, name) = pointer.rsplit_once('/').unwrap();
        match broken.pointer_mut(outer).unwrap() {
            Value::Object(members) if value.is_null() => drop(members.remove(name)),
            Value::Object(members) => drop(members.insert(name.to_owned(), value.clone())),
            Value::Array(items) => items[name.parse::<usize>().unwrap()] = value.clone(),
            _ => panic!("{pointer} is nowhere"),
        }
        let reading = Reading::of(&broken.to_string(), Format::Json, "x");
        let problems: Vec<_> = reading.problems.iter().map(ToString::to_string).collect();
        assert!(problems.iter().any(|one| one.contains(message)), "{pointer}: {problems:?}");
        assert!(reading.workflow.is_none(), "{pointer}");
        let beyond_schemas = ["version", "a string", "mean", "unclosed", "`body` names", "nest"]
            .iter()
            .chain(&[
                "`min` is",
                "look-around",
                "flag",
                "cannot be used",
                "another step",
                "set by a loop",
                "distinct names",
            ])
            .any(|words| message.contains(words));
        if !beyond_schemas {
            assert!(!schema::compiled().accepts(&broken), "the schema allows {pointer}: {value}");
        }
    }
}

/// Problems of references are reported together with all others.
#[test]
fn all_problems_are_reported_at_once() {
    let mut broken = whole();
    broken["steps"][0]["id"] = json!("sweep");
    broken["steps"][0]["promt"] = json!("x");
    broken["steps"][1]["loop"]["maxIterations"] = json!(0);
    broken["steps"][2]["body"] = json!("firts");
    let reading = Reading::of(&broken.to_string(), Format::Json, "x");
    let message = reading.problems.iter().map(|problem| problem.message.as_str());
    let message = message.collect::<Vec<_>>().join("\n");
    for words in
        ["`promt` is unknown", "from 1 to 1000", "another step is called `sweep`", "`firts`"]
    {
        assert!(message.contains(words), "{words}: {message}");
    }
}

/// The same problem in YAML, with line and column; the id is found in a text that cannot be parsed.
#[test]
fn positions_refer_to_the_text() {
    let yaml = "id: tidy-up\nname: Tidy\ndescription: Order\nversion: 1.0.0\nsteps:\n  - id: sort\n    \
                title: Sort\n    prompt: Do\n    runCondition:\n      var: a\n      gtt: 3\n";
    let reading = Reading::of(yaml, Format::Yaml, "x");
    let message: Vec<_> = reading.problems.iter().map(ToString::to_string).collect();
    assert_eq!(message, ["line 11, column 7: `gtt` is unknown; did you mean `gt`?"]);
    for (text, format, id) in [
        ("{\"id\": \"tidy-up\", \"name\": ", Format::Json, Some("tidy-up")),
        ("id: tidy-up\nname: [", Format::Yaml, Some("tidy-up")),
        ("name: Video guide\nid: my-flow\nsteps: [", Format::Yaml, Some("my-flow")),
        (
            "name: A video: b\nsteps:\n  - id: one-step\n\"id\": my-flow\nx: [",
            Format::Yaml,
            Some("my-flow"),
        ),
        ("name: V\nsteps:\n  - id: one-step\n    title: [", Format::Yaml, None),
        ("{id: x, \"id\": \"my-flow\", [", Format::Yaml, Some("my-flow")),
        (
            "{\"name\": \"Video\", \"steps\": [{\"id\": \"one-step\"}], \"id\": \"my-flow\", ",
            Format::Json,
            Some("my-flow"),
        ),
        (
            "{\"name\": \"an \\\"id\\\": no-no\", \"id\" :\"my-flow\",, ",
            Format::Json,
            Some("my-flow"),
        ),
        ("{\n\"name\": \"Video,\n\"id\": \"my-flow\"}", Format::Json, Some("my-flow")),
        ("{\"steps\": [{\"id\": \"one-step\"", Format::Json, None),
        ("{", Format::Json, None),
        ("{\"id\": \"x\", ", Format::Json, None),
    ] {
        let reading = Reading::of(text, format, "x");
        assert_eq!(reading.id.as_deref(), id, "{text}");
        assert_eq!(reading.problems.len(), 1);
    }
}

/// A workflow that uses every feature.
pub(crate) fn whole() -> Value {
    json!({
        "id": "tidy-up", "name": "Tidy up", "description": "Bring order", "version": "1.2.3",
        "category": "home", "minimumServerVersion": "1.0.0", "agentRole": "You are a tidy person.",
        "preconditions": ["There is time"], "clarificationPrompts": ["Which room?"],
        "metaGuidance": ["Be gentle"],
        "steps": [
            {"id": "first", "title": "First", "prompt": "Do {{it}}", "guidance": ["Mind the cat"],
             "askForFiles": true, "requireConfirmation": {"var": "careful"},
             "runCondition": {"and": [{"var": "a", "gt": 1}, {"not": {"var": "b"}}]},
             "validationCriteria": [
                {"type": "contains", "value": "done", "message": "Say done.",
                 "condition": {"var": "strict"}},
                {"type": "length", "min": 1, "max": 50},
                {"type": "regex", "pattern": "^a", "flags": "i"},
                {"type": "schema", "schema": {"type": "object"}},
                {"or": [{"type": "contains", "value": "x"}, {"not": {"type": "length", "min": 9}}]},
             ]},
            {"id": "again", "type": "loop", "title": "Again", "runCondition": {"var": "many"},
             "loop": {"type": "forEach", "maxIterations": 10, "items": "rooms",
                      "iterationVar": "round", "itemVar": "room", "indexVar": "number"},
             "body": [{"id": "sweep", "title": "Sweep", "prompt": "Sweep {{room}}"}]},
            {"id": "last", "title": "Last", "prompt": "Look", "requireConfirmation": true,
             "validationCriteria": {"type": "contains", "value": "clean"}},
        ],
    })
}
