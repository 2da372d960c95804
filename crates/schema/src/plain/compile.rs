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
    let (locations, definitions) = (HashMap::new(), Vec::new());
    let mut compiler = Compiler { root: schema, formats, locations, definitions, depth: 0 };
    compiler.definition("")?;
    let definitions = compiler.definitions;
    for (location, position) in compiler.locations {
        if leads_back(&definitions, position) {
            return Err(unsupported(&location, "a reference that leads back to itself"));
        }
    }
    Ok(definitions)
}

struct Compiler<'s> {
    root: &'s Value,
    formats: bool,
    /// The indices of definitions, by location in the schema.
    locations: HashMap<String, usize>,
    definitions: Vec<Check>,
    /// The nesting depth of schemas being compiled.
    depth: usize,
}

impl Compiler<'_> {
    /// Compiles the schema at a location, once. One being compiled already has its index.
    fn definition(&mut self, location: &str) -> Result<usize, String> {
        if let Some(position) = self.locations.get(location) {
            return Ok(*position);
        }
        let schema = self.root.pointer(location);
        let schema =
            schema.ok_or_else(|| format!("a reference leads to {location:?}, where nothing is"))?;
        let position = self.definitions.len();
        self.locations.insert(location.to_owned(), position);
        self.definitions.push(Check::default());
        self.definitions[position] = self.schema(schema, location)?;
        Ok(position)
    }

    fn schema(&mut self, schema: &Value, location: &str) -> Result<Check, String> {
        if self.depth == MAX_DEPTH {
            return Err(unsupported(location, "so deep a schema"));
        }
        self.depth += 1;
        let check = self.keywords(schema, location);
        self.depth -= 1;
        check
    }

    fn keywords(&mut self, schema: &Value, location: &str) -> Result<Check, String> {
        let keywords = match schema {
            Value::Bool(true) => return Ok(Check::default()),
            Value::Bool(false) => {
                return Ok(Check { types: Types::NONE, free: Types::NONE, ..Check::default() });
            }
            Value::Object(keywords) => keywords,
            _ => return Err(bad(location, "a schema")),
        };
        let mut check = Check::default();
        for (keyword, value) in keywords {
            if is_annotation(keyword, value, location, self.formats) {
                continue;
            }
            let location = member(location, keyword);
            if keyword == "$defs" {
                for name in object(value, &location)?.keys() {
                    self.definition(&member(&location, name))?;
                }
                continue;
            }
            self.keyword(&mut check, keyword, value, &location)?;
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
        location: &str,
    ) -> Result<(), String> {
        match keyword {
            "type" => check.types = types(value).ok_or_else(|| bad(location, "types of JSON"))?,
            "enum" => {
                array(value, location)?;
                check.rest().options.push(Options::Several(value.clone()));
            }
            "const" => check.rest().options.push(Options::One(value.clone())),
            "minimum" => check.bounds.push(bound(Side::Minimum, value, location)?),
            "maximum" => check.bounds.push(bound(Side::Maximum, value, location)?),
            "exclusiveMinimum" => {
                check.bounds.push(bound(Side::ExclusiveMinimum, value, location)?);
            }
            "exclusiveMaximum" => {
                check.bounds.push(bound(Side::ExclusiveMaximum, value, location)?);
            }
            "minLength" | "maxLength" | "pattern" | "format" => {
                text_keyword(check.text(), keyword, value, location)?;
            }
            "items" | "prefixItems" | "minItems" | "maxItems" | "uniqueItems" => {
                self.list_keyword(check.list(), keyword, value, location)?;
            }
            "properties"
            | "patternProperties"
            | "additionalProperties"
            | "required"
            | "minProperties"
            | "maxProperties" => {
                self.object_keyword(check.object(), keyword, value, location)?;
            }
            "$ref" => {
                let target = value.as_str().ok_or_else(|| bad(location, "a text"))?;
                // References to other documents, anchors and percent-encoded ones are not
                // supported.
                let inside = target.strip_prefix('#').filter(|inside| !inside.contains('%'));
                let inside = inside.filter(|inside| inside.is_empty() || inside.starts_with('/'));
                let inside = inside.ok_or_else(|| unsupported(location, "this reference"))?;
                check.rest().reference = Some(self.definition(inside)?);
            }
            "allOf" => check.rest().all = self.schemas(value, location)?,
            "anyOf" | "oneOf" => {
                let checks = self.schemas(value, location)?;
                let sources = forms::listed(self.root, location);
                check.rest().forms.push(Forms::new(checks, &sources, keyword == "oneOf", location));
            }
            _ => return Err(unsupported(location, "this keyword")),
        }
        Ok(())
    }

    /// A keyword of arrays.
    fn list_keyword(
        &mut self,
        list: &mut super::List,
        keyword: &str,
        value: &Value,
        location: &str,
    ) -> Result<(), String> {
        match keyword {
            "items" => list.items = Some(self.schema(value, location)?),
            "prefixItems" => list.prefix = self.schemas(value, location)?,
            "minItems" => list.length.minimum = Some(count(value, location)?),
            "maxItems" => list.length.maximum = Some(count(value, location)?),
            "uniqueItems" => {
                list.unique = value.as_bool().ok_or_else(|| bad(location, "true or false"))?;
            }
            _ => return Err(unsupported(location, "this keyword")),
        }
        Ok(())
    }

    /// A keyword of objects.
    fn object_keyword(
        &mut self,
        object_check: &mut Object,
        keyword: &str,
        value: &Value,
        location: &str,
    ) -> Result<(), String> {
        match keyword {
            "properties" => {
                for (name, schema) in object(value, location)? {
                    let schema = self.schema(schema, &member(location, name))?;
                    object_check.names.push(name.clone());
                    object_check.checks.push(schema);
                }
            }
            "patternProperties" => {
                for (source, schema) in object(value, location)? {
                    let location = member(location, source);
                    let schema = self.schema(schema, &location)?;
                    object_check.patterns.push((pattern(source, &location)?, schema));
                }
            }
            "additionalProperties" => {
                object_check.others = match value {
                    Value::Bool(true) => Others::Allowed,
                    Value::Bool(false) => Others::Forbidden,
                    schema => Others::Checked(Box::new(self.schema(schema, location)?)),
                };
            }
            "required" => object_check.required = names(value, location)?,
            "minProperties" => object_check.length.minimum = Some(count(value, location)?),
            "maxProperties" => object_check.length.maximum = Some(count(value, location)?),
            _ => return Err(unsupported(location, "this keyword")),
        }
        Ok(())
    }

    /// A non-empty list of schemas.
    fn schemas(&mut self, value: &Value, location: &str) -> Result<Vec<Check>, String> {
        let schemas = array(value, location)?;
        if schemas.is_empty() {
            return Err(bad(location, "a list that is not empty"));
        }
        let schemas = schemas.iter().enumerate();
        schemas.map(|(index, schema)| self.schema(schema, &format!("{location}/{index}"))).collect()
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

/// A keyword of strings.
fn text_keyword(
    text: &mut super::Text,
    keyword: &str,
    value: &Value,
    location: &str,
) -> Result<(), String> {
    match keyword {
        "minLength" => text.length.minimum = Some(count(value, location)?),
        "maxLength" => text.length.maximum = Some(count(value, location)?),
        "pattern" => {
            let source = value.as_str().ok_or_else(|| bad(location, "a text"))?;
            text.pattern = Some(pattern(source, location)?);
        }
        "format" => {
            let format = value.as_str().and_then(Format::named);
            let format = format.ok_or_else(|| unsupported(location, "this format"))?;
            text.format = Some(format);
        }
        _ => return Err(unsupported(location, "this keyword")),
    }
    Ok(())
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
    fn new(checks: Vec<Check>, sources: &[&Value], exactly_one: bool, location: &str) -> Self {
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
        let location = location.to_owned();
        Self { checks, exactly_one, location, texts: texts.filter(distinct), marks, names }
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

fn bound(side: Side, value: &Value, location: &str) -> Result<Bound, String> {
    match value {
        Value::Number(limit) => {
            let float = limit.as_f64().ok_or_else(|| bad(location, "a number"))?;
            Ok(Bound { side, limit: limit.clone(), float })
        }
        _ => Err(bad(location, "a number")),
    }
}

fn count(value: &Value, location: &str) -> Result<u64, String> {
    value.as_u64().ok_or_else(|| bad(location, "a whole number that is not negative"))
}

fn pattern(source: &str, location: &str) -> Result<Pattern, String> {
    Pattern::compile(source).map_err(|error| match error {
        PatternError::Unsupported => unsupported(location, "this pattern"),
        PatternError::Bad(error) => format!("the pattern at {location} cannot be used: {error}"),
    })
}

fn names(value: &Value, location: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for name in array(value, location)? {
        match name.as_str() {
            Some(name) if !names.iter().any(|known| known == name) => names.push(name.to_owned()),
            _ => return Err(bad(location, "a list of different texts")),
        }
    }
    Ok(names)
}

fn object<'a>(value: &'a Value, location: &str) -> Result<&'a Map<String, Value>, String> {
    value.as_object().ok_or_else(|| bad(location, "an object"))
}

fn array<'a>(value: &'a Value, location: &str) -> Result<&'a Vec<Value>, String> {
    value.as_array().ok_or_else(|| bad(location, "a list"))
}

/// Returns whether a keyword is an annotation with a valid value.
fn is_annotation(keyword: &str, value: &Value, location: &str, formats: bool) -> bool {
    match keyword {
        "default" => true,
        "format" if formats => false,
        "title" | "description" | "$comment" | "format" => value.is_string(),
        "examples" => value.is_array(),
        "deprecated" | "readOnly" | "writeOnly" => value.is_boolean(),
        "$schema" => location.is_empty() && value == "https://json-schema.org/draft/2020-12/schema",
        _ => keyword.starts_with("x-"),
    }
}

fn bad(location: &str, expected: &str) -> String {
    format!("{} must be {expected}", shown(location))
}

fn unsupported(location: &str, what: &str) -> String {
    format!(
        "{}: {what} is not supported by this build; enable the feature \"json-schema\" of mcp-flow",
        shown(location)
    )
}

fn shown(location: &str) -> &str {
    if location.is_empty() { "the whole of it" } else { location }
}

/// Deepest nesting of schemas, references followed.
const MAX_DEPTH: usize = 96;
