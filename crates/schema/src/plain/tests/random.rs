//! Random schemas and values.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::Judge;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// PAT-030: for any schema and value, the verdict is that of the jsonschema crate.
    #[test]
    fn any_verdict_agrees_with_the_complete_check(
        schema in root(),
        values in prop::collection::vec(value(), 8),
    ) {
        let judge = Judge::new(&schema);
        for value in values {
            judge.judge(&value.to_string());
        }
    }
}

/// A schema whose references have targets.
fn root() -> impl Strategy<Value = Value> {
    (part(), part(), part()).prop_map(|(own, a, b)| {
        // Behind a member, so that no definition refers directly to itself.
        let behind = |schema: Value| json!({"properties": {"a": schema.clone()}, "items": schema});
        let mut own = behind(own);
        own["$defs"] = json!({"a": behind(a), "b": behind(b)});
        own
    })
}

fn part() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        keyword().prop_map(Value::Object),
        name().prop_map(|name| json!({"const": name})),
        Just(json!({"$ref": "#/$defs/a"})),
        Just(json!({"$ref": "#/$defs/b"})),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let several = || prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            several().prop_map(|forms| json!({"anyOf": forms})),
            several().prop_map(|forms| json!({"oneOf": forms})),
            several().prop_map(|forms| json!({"allOf": forms})),
            several().prop_map(|items| json!({"prefixItems": items})),
            inner.clone().prop_map(|items| json!({"items": items, "uniqueItems": true})),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            object(inner.clone()),
        ]
    })
}

fn object(member: impl Strategy<Value = Value> + Clone) -> impl Strategy<Value = Value> {
    let listed = (member.clone(), any::<bool>());
    let listed = prop::collection::btree_map(name(), listed, 0..3);
    (listed, member, keyword()).prop_map(|(listed, others, mut keywords)| {
        // The jsonschema crate reports a name that is both required and forbidden as missing even
        // where it is present.
        let required: Vec<_> =
            listed.iter().filter(|(_, (_, required))| *required).map(|(name, _)| name).collect();
        keywords.insert("required".to_owned(), json!(required));
        let properties: Map<_, _> =
            listed.iter().map(|(name, (schema, _))| (name.clone(), schema.clone())).collect();
        keywords.insert("properties".to_owned(), properties.into());
        keywords.insert("additionalProperties".to_owned(), others);
        keywords.insert("type".to_owned(), "object".into());
        Value::Object(keywords)
    })
}

fn keyword() -> impl Strategy<Value = Map<String, Value>> {
    let types = ["null", "boolean", "integer", "number", "string", "array", "object"];
    let one = prop_oneof![
        prop::sample::select(types.to_vec()).prop_map(|name| json!({"type": name})),
        prop::sample::subsequence(types.to_vec(), 1..4).prop_map(|names| json!({"type": names})),
        number().prop_map(|limit| json!({"minimum": limit})),
        number().prop_map(|limit| json!({"maximum": limit})),
        number().prop_map(|limit| json!({"exclusiveMinimum": limit})),
        number().prop_map(|limit| json!({"exclusiveMaximum": limit})),
        (0..3u8).prop_map(|limit| json!({"minLength": limit, "maxItems": limit})),
        (0..3u8).prop_map(|limit| json!({"maxProperties": limit, "minItems": limit})),
        prop::collection::vec(value(), 1..4).prop_map(|options| json!({"enum": options})),
        value().prop_map(|value| json!({"const": value})),
        Just(json!({"pattern": "^[ab]"})),
        Just(json!({"patternProperties": {"^a": {"type": "string"}}})),
    ];
    prop::collection::vec(one, 0..3).prop_map(|several| {
        several.into_iter().flat_map(|one| one.as_object().cloned().unwrap_or_default()).collect()
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        name().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..3)
                .prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

fn number() -> impl Strategy<Value = Value> {
    let large = [9_007_199_254_740_992_u64, 9_007_199_254_740_993, u64::MAX];
    prop_oneof![
        (-2..3i8).prop_map(Value::from),
        (-4..5i8).prop_map(|half| Value::from(f64::from(half) / 2.0)),
        prop::sample::select(large.to_vec()).prop_map(Value::from),
        prop::sample::select(vec![9_007_199_254_740_992.0, 1.8446744073709552e19, 1e300])
            .prop_map(Value::from),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a", "b", "ab", "é", "a/~"]).prop_map(str::to_owned)
}
