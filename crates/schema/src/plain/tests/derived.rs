//! Schemas derived from ordinary types are supported.

use std::collections::{BTreeMap, HashMap, HashSet};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Value, json};

use super::Judge;

#[derive(JsonSchema, Serialize)]
struct Everything {
    /// A number
    whole: i32,
    large: u64,
    fraction: Option<f64>,
    #[schemars(length(min = 1, max = 20), regex(pattern = r"^\d{3}-[\w.]+$"))]
    code: String,
    #[schemars(range(min = 1, max = 5))]
    stars: u8,
    character: char,
    tuple: (i8, String),
    triple: [f32; 3],
    set: HashSet<u8>,
    map: BTreeMap<String, Vec<bool>>,
    numbered: HashMap<u16, String>,
    nested: Option<Box<Everything>>,
    unit: (),
    any: Value,
    plain: Plain,
    external: Vec<External>,
    internal: Internal,
    adjacent: Adjacent,
    untagged: Untagged,
    result: Result<u8, String>,
    duration: std::time::Duration,
    #[serde(flatten)]
    flat: Flat,
}

#[derive(JsonSchema, Serialize)]
struct Flat {
    depth: u32,
}

/// Documented variants become `oneOf`.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema matters")]
enum Plain {
    /// One
    First,
    Second,
}

#[derive(JsonSchema, Serialize)]
enum External {
    Unit,
    New(u8),
    Pair(u8, String),
    Struct { a: bool, again: Option<Box<External>> },
}

#[derive(JsonSchema, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Internal {
    Add { left: Box<Internal>, right: Box<Internal> },
    Number { value: f64 },
    Nothing,
}

#[derive(JsonSchema, Serialize)]
#[serde(tag = "t", content = "c")]
#[expect(dead_code, reason = "only its schema matters")]
enum Adjacent {
    One(u8),
    None,
}

#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema matters")]
enum Untagged {
    Text(String),
    Number(f64),
    Object { a: u8 },
}

fn number(value: f64) -> Internal {
    Internal::Number { value }
}

fn everything(nested: Option<Box<Everything>>) -> Everything {
    let sum = Internal::Add { left: number(1.0).into(), right: Internal::Nothing.into() };
    let inner = External::Pair(7, "x".to_owned());
    Everything {
        whole: -7,
        large: u64::MAX,
        fraction: Some(0.5),
        code: "123-a.b".to_owned(),
        stars: 5,
        character: 'é',
        tuple: (-1, "x".to_owned()),
        triple: [1.0, 2.0, 3.0],
        set: HashSet::from([1, 2]),
        map: BTreeMap::from([("k".to_owned(), vec![true])]),
        numbered: HashMap::from([(7, "seven".to_owned())]),
        nested,
        unit: (),
        any: json!({"x": [1]}),
        plain: Plain::Second,
        external: vec![
            External::Unit,
            External::New(1),
            External::Struct { a: true, again: Some(inner.into()) },
        ],
        internal: Internal::Add { left: sum.into(), right: number(2.0).into() },
        adjacent: Adjacent::One(1),
        untagged: Untagged::Object { a: 1 },
        result: Err("no".to_owned()),
        duration: std::time::Duration::from_millis(1500),
        flat: Flat { depth: 3 },
    }
}

/// A build without the feature must support nearly every tool with typed arguments.
#[test]
fn derived_schemas_are_supported() {
    let value = serde_json::to_value(everything(Some(everything(None).into()))).unwrap();
    for inline in [false, true] {
        let settings = SchemaSettings::draft2020_12().for_deserialize();
        let settings = settings.with(|settings| settings.inline_subschemas = inline);
        let schema = settings.into_generator().into_root_schema_for::<Everything>();
        let judge = Judge::new(schema.as_value());
        judge.judge(&value.to_string());
        assert!(judge.plain.is_valid(schema.as_value(), &value));
        let members = value.as_object().unwrap();
        for name in members.keys() {
            for other in [
                json!(null),
                json!(7),
                json!("x"),
                json!([1, "x"]),
                json!({"kind": "add"}),
                json!({"New": "x"}),
            ] {
                let mut members = members.clone();
                members.insert(name.clone(), other);
                judge.judge(&Value::Object(members).to_string());
            }
            let mut members = members.clone();
            members.remove(name);
            judge.judge(&Value::Object(members).to_string());
        }
    }
}
