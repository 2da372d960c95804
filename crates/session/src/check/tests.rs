//! Tables of valid and invalid answers, one per type of prompt.

use jiff::civil::date as day;
use serde_json::{Value, json};

use super::InvalidPrompt;
use crate::prompt::{Prompt, PromptType};
use crate::question::{
    Question, choice, confirm, custom_schema, date, file, integer, number, text,
};

/// INT-119, INT-120, INT-106: length in characters, pattern, empty texts, control characters.
#[test]
fn texts() {
    let sample = text("Enter text:").pattern("^[a-z]+$").length(3..=50);
    check(
        &sample,
        &[json!("abc"), json!("a".repeat(50))],
        &[
            json!("ab"),
            json!("ABC"),
            json!("a".repeat(51)),
            json!(""),
            Value::Null,
            json!(1),
            json!(["abc"]),
            json!({"value": "abc"}),
            json!(true),
        ],
    );
    check(
        &text("?").length(..=3),
        &[json!("äöü"), json!("\u{1f600}a"), json!("a\nb")],
        &[json!("äöüß"), json!("a\u{0}"), json!("a\u{1b}"), json!("a\u{202e}")],
    );
    check(
        &text("?"),
        &[json!("x".repeat(65_536))],
        &[json!("x".repeat(65_537)), json!("x".repeat(1 << 20))],
    );
    check(&text("?").optional(), &[Value::Null, json!("")], &[json!(0)]);
}

/// The author's description of a pattern takes the place of the regular expression.
#[test]
fn patterns_are_described() {
    let question = text("Code?").pattern("^[A-Z]{3}$");
    for (question, suggestion) in [
        (question.clone(), "Use text that matches the pattern ^[A-Z]{3}$"),
        (question.pattern_description("three capital letters"), "Expected: three capital letters"),
    ] {
        let invalid = question.prompt().check(&json!("no")).unwrap_err();
        assert_eq!(invalid.suggestion.as_deref(), Some(suggestion));
    }
}

/// INT-106: patterns that are exponential in a backtracking engine run in linear time.
#[test]
fn patterns_run_in_linear_time() {
    let answer = json!("a".repeat(60_000) + "!");
    for pattern in
        ["^(a+)+$", "^(a|aa)+$", "^(.*a){20}$", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$"]
    {
        let question = text("?").pattern(pattern);
        assert_eq!(question.prompt().validate(), Ok(()), "{pattern}");
        assert!(question.prompt().check(&answer).is_err(), "{pattern}");
    }
}

/// INT-121: an empty answer is replaced by the default.
#[test]
fn defaults() {
    assert_eq!(text("?").default("x").prompt().check(&json!("")), Ok(json!("x")));
    assert_eq!(text("?").default("x").prompt().check(&Value::Null), Ok(json!("x")));
    assert_eq!(confirm("?").default(false).prompt().check(&Value::Null), Ok(json!(false)));
    assert_eq!(text("?").optional().prompt().check(&json!("")), Ok(Value::Null));
}

/// INT-122: answers are values, not labels; the values are suggested.
#[test]
fn choices() {
    let sample = choice("?", &[("a", "Option A"), ("b", "Option B")]);
    check(
        &sample,
        &[json!("a"), json!("b")],
        &[json!("c"), json!("Option A"), json!(0), json!(["a"])],
    );
    let violation = sample.prompt().check(&json!("c")).unwrap_err();
    assert_eq!(violation.suggestion.unwrap(), "Use one of a, b");
    let many: Vec<_> = (0..500).map(|number| number.to_string()).collect();
    let violation = choice("?", &many).prompt().check(&json!("x")).unwrap_err();
    assert!(violation.suggestion.unwrap().ends_with("19, 480 others"));
}

/// INT-123: only booleans are valid.
#[test]
fn confirmations() {
    check(
        &confirm("?"),
        &[json!(true), json!(false)],
        &[json!("yes"), json!(1), json!("true"), Value::Null],
    );
}

/// INT-124: numbers are compared by value, integers exactly.
#[test]
fn numbers() {
    let sample = number("?").range(0.0..=1000.0);
    check(
        &sample,
        &[json!(0), json!(1000), json!(0.5)],
        &[json!(-1), json!(1001), json!("5"), json!(1000.1), Value::Null],
    );
    let large = i64::MAX - 1;
    check(
        &integer("?").range(1..=large),
        &[json!(1), json!(3.0), json!(large)],
        &[json!(0), json!(1.5), json!(i64::MAX), json!(u64::MAX), json!(1e300)],
    );
}

/// INT-125: dates are valid calendar days in one format.
#[test]
fn dates() {
    check(
        &date("?"),
        &[json!("2024-02-29"), json!("0001-01-01")],
        &[
            json!("2024-02-30"),
            json!("01/02/2024"),
            json!("2023-02-29"),
            json!("20240229"),
            json!("2024-2-29"),
            json!("2024-02-29T00:00:00"),
            json!("+002024-02-29"),
            json!("tomorrow"),
            json!(20240229),
        ],
    );
    let violation = date("?").prompt().check(&json!("tomorrow")).unwrap_err();
    assert_eq!(violation.suggestion.unwrap(), "Use YYYY-MM-DD");
    let summer = date("?").after(day(2024, 5, 31)).before(day(2024, 9, 1));
    check(
        &summer,
        &[json!("2024-06-01"), json!("2024-08-31")],
        &[json!("2024-05-31"), json!("2024-09-01")],
    );
}

/// INT-126: files are inline or by URI, with an allowed type and size.
#[test]
fn files() {
    let sample = file("?").max_size(4).mime_type("image/*").mime_type("text/csv");
    check(
        &sample,
        &[
            json!({"name": "a.png", "mimeType": "image/png", "data": "AAAA"}),
            json!({"name": "a", "mimeType": "TEXT/csv; charset=utf-8", "data": "AAAAAA=="}),
            json!({"uri": "https://example.org/a.png"}),
            json!({"uri": "HTTP://example.org", "name": "a", "mimeType": "image/png"}),
        ],
        &[
            json!("AAAA"),
            json!({"name": "a.png", "mimeType": "image/png", "data": "AAAAAAA="}),
            json!({"name": "a.png", "mimeType": "image/png", "data": "A".repeat(1 << 20)}),
            json!({"name": "a.png", "mimeType": "image/png", "data": "?"}),
            json!({"name": "a.exe", "mimeType": "application/x", "data": "AAAA"}),
            json!({"name": "a.png", "data": "AAAA"}),
            json!({"name": "../a", "mimeType": "image/png", "data": "AAAA"}),
            json!({"name": "", "mimeType": "image/png", "data": "AAAA"}),
            json!({"name": "a", "mimeType": "image/png"}),
            json!({"uri": "a.png"}),
            json!({"uri": "https://example.org/a b"}),
            json!({"uri": "https://example.org", "data": "AAAA"}),
            json!({"uri": "https://example.org", "mimeType": "application/x"}),
            json!({"uri": "https://example.org", "name": "../a"}),
            json!({"name": "a.png", "mimeType": "image/png", "data": ""}),
        ],
    );
}

/// INT-104, INT-106, C-14: only web URIs are valid, unless the question allows other schemes.
#[test]
fn uris_of_files() {
    let addresses = [
        "javascript:alert(1)",
        "JavaScript://example.org/%0aalert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "vbscript:x",
        "https:",
        "https://",
        "https:///etc/passwd",
        "https:\\\\example.org",
        "https://example.org/a\u{a0}b",
        ":",
        "",
    ];
    let refused: Vec<_> = addresses
        .iter()
        .flat_map(|uri| [json!({"uri": uri}), json!({"uri": uri, "name": "a"})])
        .collect();
    let sample = file("?");
    check(&sample, &[json!({"uri": "https://example.org/a"})], &refused);
    for answer in &refused[..8] {
        let violation = sample.prompt().check(answer).unwrap_err();
        assert!(violation.suggestion.unwrap().contains("https or http"), "{answer}");
    }
    check(
        &file("?").uri_scheme("notes"),
        &[json!({"uri": "notes:/today"})],
        &[json!({"uri": "notes:"}), json!({"uri": "https://example.org/a"})],
    );
    check(&file("?").optional(), &[json!({"name": "a", "data": ""})], &[]);
}

/// INT-127, INT-106: custom answers match their schema, and are limited in size and depth.
#[test]
fn customs() {
    let schema =
        json!({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]});
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    check(
        &custom_schema("?", schema),
        &[json!({"x": 1})],
        &[json!({"x": "1"}), json!({}), json!(1)],
    );
    check(
        &custom_schema("?", json!(true)),
        &[json!([1, 2])],
        &[deep, json!(vec![0; 20_000]), json!("x".repeat(1 << 20))],
    );
    // Each level of the answer triples the work.
    let part = json!({"items": {"$ref": "#"}});
    let levels = |count| (0..count).fold(json!("x"), |inner, _| json!([inner]));
    check(
        &custom_schema("?", json!({"anyOf": [part, part, part, {"type": "number"}]})),
        &[levels(3)],
        &[levels(30)],
    );
}

/// INT-111: a violation does not repeat the answer, which is private.
#[test]
fn violations_do_not_repeat_the_answer() {
    let schema = json!({"type": "object", "properties": {"x": {"enum": ["a"]}}});
    let secret = "hunter2";
    for (question, answer) in [
        (text("?").length(..3).prompt().clone(), json!(secret)),
        (choice("?", &["a"]).prompt().clone(), json!(secret)),
        (date("?").prompt().clone(), json!(secret)),
        (custom_schema("?", schema).prompt().clone(), json!({"x": secret})),
    ] {
        let violation = question.check(&answer).unwrap_err();
        assert!(!format!("{violation:?}").contains(secret), "{violation:?}");
    }
}

/// C-14: an invalid prompt is a fault of the flow, and is not asked.
#[test]
fn invalid_prompts() {
    let bad = |prompt: &Prompt| prompt.validate().unwrap_err();
    assert_eq!(bad(text("").prompt()), InvalidPrompt::Message);
    assert_eq!(bad(text("?".repeat(20_000)).prompt()), InvalidPrompt::Message);
    assert!(matches!(bad(text("?").pattern("(").prompt()), InvalidPrompt::Pattern(_)));
    assert!(matches!(bad(text("?").pattern("(?=a)").prompt()), InvalidPrompt::Pattern(_)));
    assert!(matches!(
        bad(text("?").pattern("((a{999}){999}){999}").prompt()),
        InvalidPrompt::Pattern(_)
    ));
    assert!(matches!(bad(text("?").pattern("(".repeat(5000)).prompt()), InvalidPrompt::Pattern(_)));
    let (least, most) = (5, 3);
    assert_eq!(bad(text("?").length(least..=most).prompt()), InvalidPrompt::Bounds);
    assert_eq!(bad(number("?").range(1.0..=0.0).prompt()), InvalidPrompt::Bounds);
    assert_eq!(bad(choice::<&str>("?", &[]).prompt()), InvalidPrompt::Choices);
    assert_eq!(bad(choice("?", &["a", "a"]).prompt()), InvalidPrompt::SameValue);
    assert!(matches!(bad(text("?").length(3..).default("x").prompt()), InvalidPrompt::Default(_)));
    let remote = json!({"$ref": "https://example.org/schema.json"});
    assert!(matches!(bad(custom_schema("?", remote).prompt()), InvalidPrompt::Schema(_)));
    let mut wrong = Prompt::new(PromptType::Date, "?");
    wrong.validation.min = Some(1_u64.into());
    assert_eq!(bad(&wrong), InvalidPrompt::Bounds);
}

fn check<Q: Question>(question: &Q, valid: &[Value], invalid: &[Value]) {
    let prompt = question.prompt();
    assert_eq!(prompt.validate(), Ok(()));
    for answer in valid {
        let value = prompt.check(answer).unwrap_or_else(|error| panic!("{answer:.60}: {error}"));
        assert!(question.read(value).is_some(), "{answer:.60}");
    }
    for answer in invalid {
        assert!(prompt.check(answer).is_err(), "took {answer:.60}");
    }
}
