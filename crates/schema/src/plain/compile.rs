//! Compiler of schemas in the supported subset.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::pattern::PatternError;
use super::{
    Bound, Check, Format, Forms, Mark, Object, Options, Others, Pattern, Rest, Side, Types,
};
use crate::{forms, member};

/// Compiles a schema and all targets of its references; the root comes first.
pub(super) fn compile(schema: &Value, formats: bool) -> Result<Vec<Check>, String> {
    let (places, definitions) = (HashMap::new(), Vec::new());
    let mut compiler = Compiler { root: schema, formats, places, definitions, depth: 0 };
    compiler.definition("")?;
    let definitions = compiler.definitions;
    for (place, position) in compiler.places {
        if leads_back(&definitions, position) {
            return Err(unsupported(&place, "a reference that leads back to itself"));
        }
    }
    Ok(definitions)
}

struct Compiler<'s> {
    root: &'s Value,
    formats: bool,
    /// The indices of definitions, by location in the schema.
    places: HashMap<String, usize>,
    definitions: Vec<Check>,
    /// The nesting depth of schemas being compiled.
    depth: usize,
}

impl Compiler<'_> {
    /// Compiles the schema at a location, once. One being compiled already has its index.
    fn definition(&mut self, place: &str) -> Result<usize, String> {
        if let Some(position) = self.places.get(place) {
            return Ok(*position);
        }
        let schema = self.root.pointer(place);
        let schema =
            schema.ok_or_else(|| format!("a reference leads to {place:?}, where nothing is"))?;
        let position = self.definitions.len();
        self.places.insert(place.to_owned(), position);
        self.definitions.push(Check::default());
        self.definitions[position] = self.schema(schema, place)?;
        Ok(position)
    }

    fn schema(&mut self, schema: &Value, place: &str) -> Result<Check, String> {
        if self.depth == DEEPEST {
            return Err(unsupported(place, "so deep a schema"));
        }
        self.depth += 1;
        let check = self.keywords(schema, place);
        self.depth -= 1;
        check
    }

    fn keywords(&mut self, schema: &Value, place: &str) -> Result<Check, String> {
        let keywords = match schema {
            Value::Bool(true) => return Ok(Check::default()),
            Value::Bool(false) => {
                return Ok(Check { types: Types::NONE, free: Types::NONE, ..Check::default() });
            }
            Value::Object(keywords) => keywords,
            _ => return Err(bad(place, "a schema")),
        };
        let mut check = Check::default();
        for (keyword, value) in keywords {
            if is_annotation(keyword, value, place, self.formats) {
                continue;
            }
            let place = member(place, keyword);
            if keyword == "$defs" {
                for name in object(value, &place)?.keys() {
                    self.definition(&member(&place, name))?;
                }
                continue;
            }
            self.keyword(&mut check, keyword, value, &place)?;
        }
        if let Some(object) = &mut check.object {
            object.required_bits = object.find_required_bits();
        }
        check.free = check.find_free();
        Ok(check)
    }

    fn keyword(
        &mut self,
        check: &mut Check,
        keyword: &str,
        value: &Value,
        place: &str,
    ) -> Result<(), String> {
        match keyword {
            "type" => check.types = types(value).ok_or_else(|| bad(place, "types of JSON"))?,
            "enum" => {
                array(value, place)?;
                check.rest().options.push(Options::Several(value.clone()));
            }
            "const" => check.rest().options.push(Options::One(value.clone())),
            "minimum" => check.bounds.push(bound(Side::Minimum, value, place)?),
            "maximum" => check.bounds.push(bound(Side::Maximum, value, place)?),
            "exclusiveMinimum" => check.bounds.push(bound(Side::ExclusiveMinimum, value, place)?),
            "exclusiveMaximum" => check.bounds.push(bound(Side::ExclusiveMaximum, value, place)?),
            "minLength" => check.text().length.minimum = Some(count(value, place)?),
            "maxLength" => check.text().length.maximum = Some(count(value, place)?),
            "pattern" => {
                let source = value.as_str().ok_or_else(|| bad(place, "a text"))?;
                check.text().pattern = Some(pattern(source, place)?);
            }
            "format" => {
                let format = value.as_str().and_then(Format::named);
                let format = format.ok_or_else(|| unsupported(place, "this format"))?;
                check.text().format = Some(format);
            }
            "items" => check.list().items = Some(self.schema(value, place)?),
            "prefixItems" => check.list().prefix = self.schemas(value, place)?,
            "minItems" => check.list().length.minimum = Some(count(value, place)?),
            "maxItems" => check.list().length.maximum = Some(count(value, place)?),
            "uniqueItems" => {
                check.list().unique = value.as_bool().ok_or_else(|| bad(place, "true or false"))?;
            }
            "properties" => {
                for (name, schema) in object(value, place)? {
                    let schema = self.schema(schema, &member(place, name))?;
                    check.object().names.push(name.clone());
                    check.object().checks.push(schema);
                }
            }
            "patternProperties" => {
                for (source, schema) in object(value, place)? {
                    let place = member(place, source);
                    let schema = self.schema(schema, &place)?;
                    check.object().patterns.push((pattern(source, &place)?, schema));
                }
            }
            "additionalProperties" => {
                check.object().others = match value {
                    Value::Bool(true) => Others::Allowed,
                    Value::Bool(false) => Others::Forbidden,
                    schema => Others::Checked(Box::new(self.schema(schema, place)?)),
                };
            }
            "required" => check.object().required = names(value, place)?,
            "minProperties" => check.object().length.minimum = Some(count(value, place)?),
            "maxProperties" => check.object().length.maximum = Some(count(value, place)?),
            "$ref" => {
                let target = value.as_str().ok_or_else(|| bad(place, "a text"))?;
                // References to other documents, anchors and percent-encoded ones are not
                // supported.
                let inside = target.strip_prefix('#').filter(|inside| !inside.contains('%'));
                let inside = inside.filter(|inside| inside.is_empty() || inside.starts_with('/'));
                let inside = inside.ok_or_else(|| unsupported(place, "this reference"))?;
                check.rest().reference = Some(self.definition(inside)?);
            }
            "allOf" => check.rest().all = self.schemas(value, place)?,
            "anyOf" | "oneOf" => {
                let checks = self.schemas(value, place)?;
                let sources = forms::listed(self.root, place);
                check.rest().forms.push(Forms::new(checks, &sources, keyword == "oneOf", place));
            }
            _ => return Err(unsupported(place, "this keyword")),
        }
        Ok(())
    }

    /// A non-empty list of schemas.
    fn schemas(&mut self, value: &Value, place: &str) -> Result<Vec<Check>, String> {
        let schemas = array(value, place)?;
        if schemas.is_empty() {
            return Err(bad(place, "a list that is not empty"));
        }
        let schemas = schemas.iter().enumerate();
        schemas.map(|(index, schema)| self.schema(schema, &format!("{place}/{index}"))).collect()
    }
}

impl Check {
    fn text(&mut self) -> &mut super::Text {
        self.text.get_or_insert_default()
    }

    fn list(&mut self) -> &mut super::List {
        self.list.get_or_insert_default()
    }

    fn object(&mut self) -> &mut Object {
        self.object.get_or_insert_default()
    }

    fn rest(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }

    fn find_free(&self) -> Types {
        if self.rest.is_some() {
            return Types::NONE;
        }
        self.types
            .without(Types::NUMBER, !self.bounds.is_empty())
            .without(Types::STRING, self.text.is_some())
            .without(Types::ARRAY, self.list.is_some())
            .without(Types::OBJECT, self.object.is_some())
    }

    /// Returns whether this allows exactly one constant text and nothing else.
    fn is_fixed_text(&self) -> bool {
        let Some(rest) = &self.rest else { return false };
        let is_more = rest.reference.is_some() || !rest.all.is_empty() || !rest.forms.is_empty();
        let is_constant = matches!(rest.options.as_slice(), [Options::One(Value::String(_))]);
        is_constant && !is_more && self.types.has(Types::STRING) && self.text.is_none()
    }
}

impl Object {
    fn find_required_bits(&self) -> Option<u64> {
        let bit = |required| {
            let position = self.names.iter().position(|name| name == required)?;
            1u64.checked_shl(position.try_into().ok()?)
        };
        let bits = self.required.iter().try_fold(0, |bits, required| Some(bits | bit(required)?));
        bits.filter(|_| self.names.len() <= 64)
    }
}

impl Forms {
    /// Builds the alternatives from their checks and sources, references resolved.
    fn new(checks: Vec<Check>, sources: &[&Value], exactly_one: bool, place: &str) -> Self {
        let mut names = Vec::new();
        let mut position = |name: &str| {
            names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            })
        };
        let marks = sources.iter().map(|form| {
            let required = form.get("required").and_then(Value::as_array).into_iter().flatten();
            let properties = form.get("properties").and_then(Value::as_object);
            let fixed = properties.into_iter().flatten().find_map(|(name, property)| {
                let text = property.get("const")?.as_str()?;
                Some((position(name), text.to_owned()))
            });
            Mark {
                types: form.get("type").and_then(types).unwrap_or_default(),
                required: required.filter_map(Value::as_str).next().map(&mut position),
                fixed,
            }
        });
        let marks = marks.collect();
        let text = |(check, form): (&Check, &&Value)| {
            form.get("const")?.as_str().filter(|_| check.is_fixed_text()).map(str::to_owned)
        };
        let texts: Option<Vec<String>> = checks.iter().zip(sources).map(text).collect();
        // A duplicate would match two alternatives.
        let distinct =
            |texts: &Vec<String>| texts.iter().collect::<HashSet<_>>().len() == texts.len();
        let place = place.to_owned();
        Self { checks, exactly_one, place, texts: texts.filter(distinct), marks, names }
    }
}

/// Returns whether a definition refers to itself without a step into the value.
fn leads_back(definitions: &[Check], start: usize) -> bool {
    let mut seen = HashSet::new();
    let mut waiting = vec![&definitions[start]];
    while let Some(check) = waiting.pop() {
        let Some(rest) = &check.rest else { continue };
        waiting.extend(&rest.all);
        waiting.extend(rest.forms.iter().flat_map(|forms| &forms.checks));
        match rest.reference {
            Some(position) if position == start => return true,
            Some(position) if seen.insert(position) => waiting.push(&definitions[position]),
            _ => {}
        }
    }
    false
}

fn types(value: &Value) -> Option<Types> {
    match value {
        Value::String(name) => Types::named(name),
        Value::Array(names) if !names.is_empty() => {
            names.iter().try_fold(Types::NONE, |types, name| {
                let one = Types::named(name.as_str()?)?;
                (!types.has(one)).then(|| types.with(one))
            })
        }
        _ => None,
    }
}

fn bound(side: Side, value: &Value, place: &str) -> Result<Bound, String> {
    match value {
        Value::Number(limit) => {
            let float = limit.as_f64().ok_or_else(|| bad(place, "a number"))?;
            Ok(Bound { side, limit: limit.clone(), float })
        }
        _ => Err(bad(place, "a number")),
    }
}

fn count(value: &Value, place: &str) -> Result<u64, String> {
    value.as_u64().ok_or_else(|| bad(place, "a whole number that is not negative"))
}

fn pattern(source: &str, place: &str) -> Result<Pattern, String> {
    Pattern::compile(source).map_err(|error| match error {
        PatternError::Unsupported => unsupported(place, "this pattern"),
        PatternError::Bad(error) => format!("the pattern at {place} cannot be used: {error}"),
    })
}

fn names(value: &Value, place: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for name in array(value, place)? {
        match name.as_str() {
            Some(name) if !names.iter().any(|known| known == name) => names.push(name.to_owned()),
            _ => return Err(bad(place, "a list of different texts")),
        }
    }
    Ok(names)
}

fn object<'a>(value: &'a Value, place: &str) -> Result<&'a Map<String, Value>, String> {
    value.as_object().ok_or_else(|| bad(place, "an object"))
}

fn array<'a>(value: &'a Value, place: &str) -> Result<&'a Vec<Value>, String> {
    value.as_array().ok_or_else(|| bad(place, "a list"))
}

/// Returns whether a keyword is an annotation with a valid value.
fn is_annotation(keyword: &str, value: &Value, place: &str, formats: bool) -> bool {
    match keyword {
        "default" => true,
        "format" if formats => false,
        "title" | "description" | "$comment" | "format" => value.is_string(),
        "examples" => value.is_array(),
        "deprecated" | "readOnly" | "writeOnly" => value.is_boolean(),
        "$schema" => place.is_empty() && value == "https://json-schema.org/draft/2020-12/schema",
        _ => keyword.starts_with("x-"),
    }
}

fn bad(place: &str, expected: &str) -> String {
    format!("{} must be {expected}", shown(place))
}

fn unsupported(place: &str, what: &str) -> String {
    format!(
        "{}: {what} is not supported by this build; enable the feature \"json-schema\" of mcp-flow",
        shown(place)
    )
}

fn shown(place: &str) -> &str {
    if place.is_empty() { "the whole of it" } else { place }
}

/// Deepest nesting of schemas, references followed.
const DEEPEST: usize = 96;
