//! YAML 1.2, as much of it as JSON can say.
//!
//! The parser gives events with their places; aliases are expanded here, and what that may cost is
//! bounded. Merge keys, local tags and keys that are no texts are refused.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, StrInput, Tag};
use serde_json::{Map, Number, Value};

use super::{Places, push_part};
use crate::problem::{Position, Problem};

pub(super) fn parse(text: &str) -> Result<Value, Problem> {
    Builder::new(text, None).document()
}

/// Finds all places in a text that has been parsed before.
pub(super) fn locate(text: &str) -> Places {
    let mut places = Places::default();
    // What goes wrong was told when it was parsed.
    let _ = Builder::new(text, Some(&mut places)).document();
    places
}

struct Builder<'t, 'p> {
    parser: Parser<'t, StrInput<'t>>,
    /// What aliases stand for.
    anchors: HashMap<usize, Value>,
    /// How much more aliases may add.
    allowance: usize,
    depth: usize,
    places: Option<&'p mut Places>,
    pointer: String,
}

impl<'t, 'p> Builder<'t, 'p> {
    fn new(text: &'t str, places: Option<&'p mut Places>) -> Self {
        Self {
            parser: Parser::new_from_str(text),
            anchors: HashMap::new(),
            allowance: MOST_ALIASED,
            depth: 0,
            places,
            pointer: String::new(),
        }
    }

    fn document(mut self) -> Result<Value, Problem> {
        let mut value = None;
        loop {
            match self.next()? {
                (Event::DocumentStart(_), at) if value.is_some() => {
                    return Err(Problem::at(at, "a file holds one document; split it"));
                }
                (Event::DocumentStart(_), _) => {
                    let (event, at) = self.next()?;
                    value = Some(self.value(event, at, None)?);
                }
                (Event::StreamEnd, _) => {
                    return value.ok_or_else(|| Problem::of_file("the file is empty"));
                }
                _ => {}
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Position), Problem> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, position(span.start))),
            Some(Err(error)) => Err(not_yaml(&error)),
            None => Ok((Event::StreamEnd, Position::START)),
        }
    }

    fn value(
        &mut self,
        event: Event<'t>,
        at: Position,
        name: Option<Position>,
    ) -> Result<Value, Problem> {
        if let Some(places) = &mut self.places {
            places.add(&self.pointer, name.unwrap_or(at), at);
        }
        let (anchor, value) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, scalar(&text, style, tag.as_deref()).map_err(|why| Problem::at(at, why))?)
            }
            Event::SequenceStart(anchor, tag) => {
                refuse_tag(tag.as_deref(), at)?;
                (anchor, self.nested(at, Self::sequence)?)
            }
            Event::MappingStart(anchor, tag) => {
                refuse_tag(tag.as_deref(), at)?;
                (anchor, self.nested(at, Self::mapping)?)
            }
            Event::Alias(anchor) => return self.aliased(anchor, at),
            // The document ends where a value should be.
            _ => (0, Value::Null),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn nested(
        &mut self,
        at: Position,
        read: fn(&mut Self) -> Result<Value, Problem>,
    ) -> Result<Value, Problem> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Problem::at(at, format!("this nests deeper than {DEEPEST} levels")));
        }
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn sequence(&mut self) -> Result<Value, Problem> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items.into()),
                (event, at) => {
                    let part = items.len().to_string();
                    items.push(self.part(&part, event, at, None)?);
                }
            }
        }
    }

    fn mapping(&mut self) -> Result<Value, Problem> {
        let mut members = Map::new();
        loop {
            let (name, named_at) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(members.into()),
                (Event::Scalar(name, ..), at) => (name.into_owned(), at),
                (_, at) => return Err(Problem::at(at, "the name of a member must be a text")),
            };
            if members.contains_key(&name) {
                let message = format!("the member `{name}` is there twice");
                return Err(Problem::at(named_at, message));
            }
            let (event, at) = self.next()?;
            let value = self.part(&name, event, at, Some(named_at))?;
            members.insert(name, value);
        }
    }

    fn part(
        &mut self,
        part: &str,
        event: Event<'t>,
        at: Position,
        name: Option<Position>,
    ) -> Result<Value, Problem> {
        let length = self.pointer.len();
        push_part(&mut self.pointer, part);
        let value = self.value(event, at, name);
        self.pointer.truncate(length);
        value
    }

    fn aliased(&mut self, anchor: usize, at: Position) -> Result<Value, Problem> {
        let value = self.anchors.get(&anchor);
        let value = value.ok_or_else(|| Problem::at(at, "this alias stands for itself"))?;
        let left = self.allowance.checked_sub(weight(value));
        self.allowance = left.ok_or_else(|| {
            Problem::at(at, format!("the aliases add more than {MOST_ALIASED} bytes"))
        })?;
        Ok(value.clone())
    }
}

/// What a plain or quoted text means, by the core schema.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    match tag {
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => return Ok(text.into()),
        Some(tag) if !tag.is_yaml_core_schema() => return Err(format!("the tag {tag} is unknown")),
        _ => {}
    }
    if style != ScalarStyle::Plain {
        return Ok(text.into());
    }
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        text => number(text).map_or_else(|| text.into(), Value::Number),
    })
}

fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if let Some(octal) = text.strip_prefix("0o") {
        return u64::from_str_radix(octal, 8).ok().map(Number::from);
    }
    if let Some(hexadecimal) = text.strip_prefix("0x") {
        return u64::from_str_radix(hexadecimal, 16).ok().map(Number::from);
    }
    let is_number = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && digits.bytes().any(|byte| byte.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    if !is_number {
        return None;
    }
    let whole = text.strip_prefix('+').unwrap_or(text);
    let integer = whole.parse::<i64>().map(Number::from);
    let integer = integer.or_else(|_| whole.parse::<u64>().map(Number::from));
    integer.ok().or_else(|| Number::from_f64(text.parse().ok()?))
}

fn refuse_tag(tag: Option<&Tag>, at: Position) -> Result<(), Problem> {
    match tag.filter(|tag| !tag.is_yaml_core_schema()) {
        Some(tag) => Err(Problem::at(at, format!("the tag {tag} is unknown"))),
        None => Ok(()),
    }
}

/// About how many bytes a value takes.
fn weight(value: &Value) -> usize {
    let inside = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() + weight(value)).sum()
        }
        _ => 0,
    };
    inside + size_of::<Value>()
}

fn not_yaml(error: &ScanError) -> Problem {
    Problem::at(position(*error.marker()), format!("this is not YAML: {}", error.info()))
}

fn position(marker: Marker) -> Position {
    Position { line: marker.line().max(1), column: marker.col() + 1 }
}

/// How many levels a file may nest; JSON is bounded by its parser.
const DEEPEST: usize = 64;

/// How many bytes aliases may add to a file, about.
const MOST_ALIASED: usize = 1024 * 1024;
