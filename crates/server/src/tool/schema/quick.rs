//! A check that runs on encoded arguments without building them in memory first.
//!
//! It understands the schemas most tools have, objects of plain values, and nothing else. It may
//! say no to good arguments, such as a member given twice; it never says yes to bad ones.

use std::fmt;

use mcp_flow_proto::Raw;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// A compiled schema of the plain kind.
#[derive(Debug)]
pub(crate) struct Quick(Check);

impl Quick {
    /// Compiles a schema; `None` if it says anything this check does not understand.
    pub(crate) fn compile(schema: &Value) -> Option<Self> {
        Check::compile(schema).map(Self)
    }

    /// Whether the arguments are known to be good.
    pub(crate) fn accepts(&self, arguments: Raw<'_>) -> bool {
        arguments.decode_with(&self.0).is_ok()
    }
}

#[derive(Debug)]
enum Check {
    Anything,
    Boolean,
    Number { whole: bool, range: Range },
    Text { length: Range, options: Option<Vec<String>> },
    List { items: Box<Check>, length: Range },
    Object(Members),
}

/// From and to, both included.
#[derive(Clone, Copy, Debug)]
struct Range {
    from: f64,
    to: f64,
}

#[derive(Debug)]
struct Members {
    known: Vec<(String, Check)>,
    /// One bit for each known member that must be there.
    required: u64,
    others_allowed: bool,
}

impl Check {
    fn compile(schema: &Value) -> Option<Self> {
        let schema = match schema {
            Value::Bool(true) => return Some(Self::Anything),
            Value::Object(schema) => schema,
            _ => return None,
        };
        let Some(kind) = schema.get("type") else {
            return only(schema, &[]).then_some(Self::Anything);
        };
        match kind.as_str()? {
            "boolean" => only(schema, &["type"]).then_some(Self::Boolean),
            name @ ("number" | "integer") => {
                let understood = only(schema, &["type", "minimum", "maximum"]);
                let range = Range::compile(schema, "minimum", "maximum")?;
                understood.then_some(Self::Number { whole: name == "integer", range })
            }
            "string" => {
                let understood = only(schema, &["type", "minLength", "maxLength", "enum"]);
                let length = Range::compile_length(schema, "minLength", "maxLength")?;
                let options = match schema.get("enum") {
                    Some(options) => Some(Vec::deserialize(options).ok()?),
                    None => None,
                };
                understood.then_some(Self::Text { length, options })
            }
            "array" => {
                let understood = only(schema, &["type", "items", "minItems", "maxItems"]);
                let length = Range::compile_length(schema, "minItems", "maxItems")?;
                let items = schema.get("items").map_or(Some(Self::Anything), Self::compile)?;
                understood.then_some(Self::List { items: Box::new(items), length })
            }
            "object" => {
                let words = ["type", "properties", "required", "additionalProperties"];
                let members = Members::compile(schema)?;
                only(schema, &words).then_some(Self::Object(members))
            }
            _ => None,
        }
    }
}

impl Range {
    fn compile(schema: &Map<String, Value>, from: &str, to: &str) -> Option<Self> {
        let bound = |name: &str, default: f64| match schema.get(name) {
            Some(value) => value.as_f64(),
            None => Some(default),
        };
        Some(Self { from: bound(from, f64::NEG_INFINITY)?, to: bound(to, f64::INFINITY)? })
    }

    fn compile_length(schema: &Map<String, Value>, from: &str, to: &str) -> Option<Self> {
        let whole = |name: &str| schema.get(name).is_none_or(Value::is_u64);
        (whole(from) && whole(to)).then(|| Self::compile(schema, from, to))?
    }

    fn holds(self, number: f64) -> bool {
        (self.from..=self.to).contains(&number)
    }

    #[expect(clippy::cast_precision_loss, reason = "no length in memory comes near 2^53")]
    fn holds_length(self, length: impl FnOnce() -> usize) -> bool {
        // Counting characters takes time; do not when any count will do.
        let any = self.from.is_infinite() && self.to.is_infinite();
        any || self.holds(length() as f64)
    }
}

impl Members {
    fn compile(schema: &Map<String, Value>) -> Option<Self> {
        let known = match schema.get("properties") {
            Some(properties) => {
                let compile = |(name, schema): (&String, &Value)| {
                    Some((name.clone(), Check::compile(schema)?))
                };
                properties.as_object()?.iter().map(compile).collect::<Option<Vec<_>>>()?
            }
            None => Vec::new(),
        };
        let others_allowed = match schema.get("additionalProperties") {
            None | Some(Value::Bool(true)) => true,
            Some(Value::Bool(false)) => false,
            Some(_) => return None,
        };
        let mut required = 0;
        if let Some(names) = schema.get("required") {
            for name in names.as_array()? {
                let position = known.iter().position(|(known, _)| Some(&**known) == name.as_str())?;
                required |= 1 << position;
            }
        }
        (known.len() <= 64).then_some(Self { known, required, others_allowed })
    }
}

/// Whether a schema says nothing but these words and ones that never make a value bad.
fn only(schema: &Map<String, Value>, words: &[&str]) -> bool {
    const HARMLESS: [&str; 8] =
        ["title", "description", "default", "examples", "$comment", "deprecated", "readOnly", "writeOnly"];
    schema.keys().all(|key| words.contains(&key.as_str()) || HARMLESS.contains(&key.as_str()))
}

impl<'de> DeserializeSeed<'de> for &Check {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self {
            Check::Anything => IgnoredAny::deserialize(deserializer).map(|_| ()),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for &Check {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("something else")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        accept(matches!(self, Check::Boolean))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        #[expect(clippy::cast_precision_loss, reason = "bounds are floats too")]
        self.visit_number(number as f64, true)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        #[expect(clippy::cast_precision_loss, reason = "bounds are floats too")]
        self.visit_number(number as f64, true)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.visit_number(number, number.fract() == 0.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let Check::Text { length, options } = self else { return accept(false) };
        let is_option = options.as_ref().is_none_or(|all| all.iter().any(|one| one == text));
        accept(is_option && length.holds_length(|| text.chars().count()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Check::List { items, length } = self else { return accept(false) };
        let mut count = 0;
        while list.next_element_seed(&**items)?.is_some() {
            count += 1;
        }
        accept(length.holds_length(|| count))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Check::Object(members) = self else { return accept(false) };
        let mut seen = 0u64;
        while let Some(position) = map.next_key_seed(members)? {
            let Some(position) = position else {
                accept::<A::Error>(members.others_allowed)?;
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            accept::<A::Error>(seen & 1 << position == 0)?;
            seen |= 1 << position;
            map.next_value_seed(&members.known[position].1)?;
        }
        accept(seen & members.required == members.required)
    }
}

impl Check {
    fn visit_number<E: Error>(&self, number: f64, is_whole: bool) -> Result<(), E> {
        let Self::Number { whole, range } = self else { return accept(false) };
        // Where floats are not exact, the complete check decides on bounds.
        let exact = number.abs() < 9.0e15;
        accept((is_whole || !whole) && range.holds(number) && exact)
    }
}

fn accept<E: Error>(good: bool) -> Result<(), E> {
    if good { Ok(()) } else { Err(E::custom("not known to be good")) }
}

/// Finds a member's position by its name.
impl<'de> DeserializeSeed<'de> for &Members {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for &Members {
    type Value = Option<usize>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Option<usize>, E> {
        Ok(self.known.iter().position(|(known, _)| known == name))
    }
}
