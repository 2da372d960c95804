//! JSON Schemas derived from types.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The schema of a tool's arguments, derived from the type they are decoded into.
///
/// ```
/// use mcp_flow_server::tool::argument_schema;
///
/// #[derive(schemars::JsonSchema)]
/// struct Roll {
///     /// How many dice
///     count: u8,
/// }
///
/// let schema = argument_schema::<Roll>();
/// assert_eq!(schema["properties"]["count"]["description"], "How many dice");
/// assert_eq!(schema["properties"]["count"]["maximum"], 255);
/// ```
pub fn argument_schema<T: JsonSchema>() -> Value {
    schema_of::<T>(SchemaSettings::draft2020_12().for_deserialize())
}

/// A type that can be an argument: it can be decoded and has a schema.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument",
    label = "it cannot be decoded, or has no schema",
    note = "mark a type of your own with `#[data]`",
    note = "for a type of another crate, turn on its features for serde and schemars"
)]
pub trait Argument: DeserializeOwned + JsonSchema {}

impl<T: DeserializeOwned + JsonSchema> Argument for T {}

/// Compiles only for types that can be arguments.
#[doc(hidden)]
pub fn check_argument<T: Argument>() {}

/// Returns whether a type is a single value, such as a text or a list, rather than an object that
/// could hold several arguments.
#[doc(hidden)]
pub fn is_one_value<T: JsonSchema>() -> bool {
    let schema = argument_schema::<T>();
    is_single(&schema, &schema, 0)
}

/// Returns whether no object conforms to a schema, by its types and alternatives.
fn is_single(schema: &Value, root: &Value, depth: usize) -> bool {
    let mut alternatives =
        ["oneOf", "anyOf"].into_iter().filter_map(|name| schema[name].as_array());
    match &schema["type"] {
        _ if depth > MAX_REFERENCE_DEPTH => false,
        Value::String(kind) => kind != "object",
        Value::Array(kinds) => !kinds.iter().any(|kind| kind == "object"),
        _ if !schema["const"].is_null() => !schema["const"].is_object(),
        _ => match schema["$ref"].as_str().and_then(|target| target.strip_prefix('#')) {
            Some(target) => {
                root.pointer(target).is_some_and(|target| is_single(target, root, depth + 1))
            }
            None => alternatives
                .next()
                .is_some_and(|several| several.iter().all(|one| is_single(one, root, depth + 1))),
        },
    }
}

/// Deepest nesting of references and alternatives.
const MAX_REFERENCE_DEPTH: usize = 16;

/// Marker for types that are not objects. The compiler can look for it, unlike for a schema.
#[doc(hidden)]
pub trait NotAnObject {}

macro_rules! not_objects {
    ($($kind:ty)*) => { $(impl NotAnObject for $kind {})* };
}

not_objects!(() String bool char u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

impl<T> NotAnObject for Vec<T> {}

impl<T: NotAnObject> NotAnObject for Option<T> {}

/// Lets the compiler choose the shape of a type: its own constant if it has one, otherwise that of
/// [`MayBeObject`].
#[doc(hidden)]
#[derive(Debug)]
pub struct Shape<T>(std::marker::PhantomData<T>);

impl<T: NotAnObject> Shape<T> {
    /// States that the type is not an object.
    pub const MAY_BE_OBJECT: bool = false;
}

/// The default for types without [`NotAnObject`].
#[doc(hidden)]
pub trait MayBeObject {
    /// States that the type may be an object.
    const MAY_BE_OBJECT: bool = true;
}

impl<T> MayBeObject for Shape<T> {}

/// The schema of a tool's result, derived from the type it is encoded from.
pub fn result_schema<T: JsonSchema>() -> Value {
    schema_of::<T>(SchemaSettings::draft2020_12().for_serialize())
}

fn schema_of<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let settings = settings.with(|settings| {
        // The dialect is the protocol's default, and models read a schema better without
        // references.
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let settings = settings.with_transform(RecursiveTransform(use_common_keywords));
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<T>();
    // The name of a Rust type means nothing to a caller.
    schema.remove("title");
    schema.into()
}

/// The schema as listed, without null types of optional members.
///
/// Null is still accepted for them, but some hosts do not understand a schema with two types.
pub fn without_null(mut schema: Value) -> Value {
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, property) in properties {
            let mut plain = without_null(property.take());
            if !required.iter().any(|one| one == name) {
                strip_null(&mut plain);
            }
            *property = plain;
        }
    }
    if let Some(items) = schema.get_mut("items") {
        *items = without_null(items.take());
    }
    schema
}

fn strip_null(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    if let Some(types) = members.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            members.insert("type".to_owned(), only);
        }
    }
    if let Some(options) = members.get_mut("enum").and_then(Value::as_array_mut) {
        options.retain(|option| !option.is_null());
    }
    let forms = members.get_mut("anyOf").and_then(Value::as_array_mut);
    let other = forms.and_then(|forms| {
        forms.retain(|form| form["type"] != "null");
        if forms.len() == 1 { forms.pop() } else { None }
    });
    if let Some(Value::Object(other)) = other {
        members.remove("anyOf");
        for (word, value) in other {
            // What is stated for the argument takes precedence over its type.
            members.entry(word).or_insert(value);
        }
    }
}

/// Replaces keywords that not every client knows: Rust formats by the bounds they imply, `true` by
/// an object.
///
/// Some hosts reject a tool with an unknown format.
fn use_common_keywords(schema: &mut Schema) {
    // Equivalent to `true`, in the only form some clients know.
    if schema.as_bool() == Some(true) {
        *schema = Schema::default();
    }
    let bounds: Option<(i64, i64)> = match schema.get("format").and_then(Value::as_str) {
        Some("int8") => Some((i8::MIN.into(), i8::MAX.into())),
        Some("int16") => Some((i16::MIN.into(), i16::MAX.into())),
        Some("int32") => Some((i32::MIN.into(), i32::MAX.into())),
        Some("uint8") => Some((0, u8::MAX.into())),
        Some("uint16") => Some((0, u16::MAX.into())),
        Some("uint32") => Some((0, u32::MAX.into())),
        // Beyond these a number becomes infinite.
        Some("float") => {
            schema.insert("minimum".to_owned(), f32::MIN.into());
            schema.insert("maximum".to_owned(), f32::MAX.into());
            None
        }
        // Their bounds are not exact in the numbers most clients have.
        Some("int" | "int64" | "int128" | "uint" | "uint64" | "uint128" | "double") => None,
        _ => return,
    };
    schema.remove("format");
    if let Some((minimum, maximum)) = bounds {
        let members = schema.ensure_object();
        members.entry("minimum").or_insert_with(|| minimum.into());
        members.entry("maximum").or_insert_with(|| maximum.into());
    }
}

#[cfg(test)]
mod tests {
    use super::{argument_schema, is_one_value};
    use schemars::JsonSchema;
    use serde_json::{Value, json};

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema matters")]
    struct Everything {
        whole: i32,
        large: u64,
        fraction: f64,
        maybe: Option<u8>,
        nested: Nested,
        size: Size,
        words: Vec<String>,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema matters")]
    struct Nested {
        inner: bool,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema matters")]
    enum Size {
        Small,
        Large,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema matters")]
    enum Target {
        /// Place of the trial.
        Staging,
        /// Place of use.
        Production,
    }

    /// A type that cannot hold several arguments is one argument, whatever the form of its schema.
    #[test]
    fn single_values_are_distinguished_from_objects() {
        assert!(is_one_value::<String>() && is_one_value::<Vec<u8>>() && is_one_value::<Size>());
        assert!(is_one_value::<Target>() && is_one_value::<Option<Target>>());
        assert!(!is_one_value::<Nested>() && !is_one_value::<Option<Nested>>());
    }

    /// MCP-025: schemas use only common keywords and no references.
    #[test]
    fn derived_schemas_use_common_keywords() {
        let schema = argument_schema::<Everything>();
        assert_eq!((schema.get("$schema"), schema.get("title")), (None, None));
        assert!(!schema.to_string().contains("format"), "{schema}");
        assert!(!schema.to_string().contains("$ref"), "{schema}");
        check(&schema, "whole", json!({"type":"integer","minimum":i32::MIN,"maximum":i32::MAX}));
        check(&schema, "large", json!({"type": "integer", "minimum": 0}));
        check(&schema, "fraction", json!({"type": "number"}));
        check(&schema, "maybe", json!({"type":["integer","null"],"minimum":0,"maximum":255}));
        check(&schema, "size", json!({"type": "string", "enum": ["Small", "Large"]}));
        assert_eq!(schema["properties"]["nested"]["properties"]["inner"]["type"], "boolean");
        assert_eq!(schema["required"].as_array().unwrap().len(), 6);
    }

    fn check(schema: &Value, property: &str, expected: Value) {
        assert_eq!(schema["properties"][property], expected, "{property}");
    }
}
