//! YAML 1.2 files, restricted to what JSON can represent.
//!
//! The parser emits events with positions; aliases are expanded here, within a budget. Merge keys,
//! local tags and keys that are not strings are rejected.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, StrInput, Tag};
use serde_json::{Map, Number, Value};

use super::{WantedPositions, too_many_values};
use crate::problem::{Position, Problem, short};

pub(super) fn parse(text: &str, most: usize) -> Result<Value, Problem> {
    Builder::new(text, most).document(None)
}

/// Finds positions in a text that was parsed before.
pub(super) fn locate(text: &str, positions: &mut WantedPositions) {
    // Errors were reported when it was parsed.
    let _ = Builder::new(text, usize::MAX).document(Some(positions));
}

struct Builder<'t> {
    parser: Parser<'t, StrInput<'t>>,
    /// Values of anchors.
    anchors: HashMap<usize, Value>,
    /// Bytes that may still be copied for aliases.
    budget: usize,
    /// Number of values so far.
    count: usize,
    /// Limit on values.
    most: usize,
    depth: usize,
}

impl<'t> Builder<'t> {
    fn new(text: &'t str, most: usize) -> Self {
        Self {
            parser: Parser::new_from_str(text),
            anchors: HashMap::new(),
            budget: MAX_ALIASED,
            count: 0,
            most,
            depth: 0,
        }
    }

    fn document(mut self, mut positions: Option<&mut WantedPositions>) -> Result<Value, Problem> {
        let mut value = None;
        loop {
            match self.next()? {
                (Event::DocumentStart(_), at) if value.is_some() => {
                    return Err(Problem::at(at, "a file holds one document; split it"));
                }
                (Event::DocumentStart(_), _) => {
                    let (event, at) = self.next()?;
                    value = Some(self.value(event, at, None, positions.take())?);
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

    /// Reads a value, and stores its position if wanted.
    fn value(
        &mut self,
        event: Event<'t>,
        at: Position,
        name: Option<Position>,
        mut positions: Option<&mut WantedPositions>,
    ) -> Result<Value, Problem> {
        if let Some(positions) = &mut positions {
            positions.set(name.unwrap_or(at), at);
        }
        self.add(1, at)?;
        let (anchor, value) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, scalar(&text, style, tag.as_deref()).map_err(|why| Problem::at(at, why))?)
            }
            Event::SequenceStart(anchor, tag) => {
                refuse_tag(tag.as_deref(), at)?;
                self.go_down(1, at)?;
                (anchor, self.sequence(positions)?)
            }
            Event::MappingStart(anchor, tag) => {
                refuse_tag(tag.as_deref(), at)?;
                self.go_down(1, at)?;
                (anchor, self.mapping(positions)?)
            }
            Event::Alias(anchor) => return self.aliased(anchor, at),
            // The document ends where a value is expected.
            _ => (0, Value::Null),
        };
        if value.is_array() || value.is_object() {
            self.depth -= 1;
        }
        if anchor > 0 {
            // Nested anchors copy the same values repeatedly.
            self.pay(Size::of(&value).bytes, at)?;
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn sequence(&mut self, mut positions: Option<&mut WantedPositions>) -> Result<Value, Problem> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items.into()),
                (event, at) => {
                    let wanted = positions.as_mut().filter(|positions| !positions.is_leaf());
                    let inside =
                        wanted.and_then(|positions| positions.inside(&items.len().to_string()));
                    items.push(self.value(event, at, None, inside)?);
                }
            }
        }
    }

    fn mapping(&mut self, mut positions: Option<&mut WantedPositions>) -> Result<Value, Problem> {
        let mut members = Map::new();
        loop {
            let (name, named_at) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(members.into()),
                (Event::Scalar(name, ..), at) => (name.into_owned(), at),
                (_, at) => return Err(Problem::at(at, "the name of a member must be a string")),
            };
            if members.contains_key(&name) {
                let message = format!("the member `{}` is duplicated", short(&name));
                return Err(Problem::at(named_at, message));
            }
            let (event, at) = self.next()?;
            let inside = positions.as_mut().and_then(|positions| positions.inside(&name));
            let value = self.value(event, at, Some(named_at), inside)?;
            members.insert(name, value);
        }
    }

    fn aliased(&mut self, anchor: usize, at: Position) -> Result<Value, Problem> {
        let value = self.anchors.get(&anchor);
        let value = value.ok_or_else(|| Problem::at(at, "this alias refers to itself"))?.clone();
        let Size { values, bytes, depth } = Size::of(&value);
        self.pay(bytes, at)?;
        self.add(values, at)?;
        self.go_down(depth, at)?;
        self.depth -= depth;
        Ok(value)
    }

    /// Counts values.
    fn add(&mut self, values: usize, at: Position) -> Result<(), Problem> {
        self.count += values;
        if self.count > self.most {
            return Err(Problem::at(at, too_many_values(self.most)));
        }
        Ok(())
    }

    /// Takes bytes copied for aliases from the budget.
    fn pay(&mut self, bytes: usize, at: Position) -> Result<(), Problem> {
        let left = self.budget.checked_sub(bytes);
        self.budget = left.ok_or_else(|| {
            let message = format!("the anchors and aliases up to here add more than {MAX_ALIASED} bytes; write out less");
            Problem::at(at, message)
        })?;
        Ok(())
    }

    fn go_down(&mut self, levels: usize, at: Position) -> Result<(), Problem> {
        self.depth += levels;
        if self.depth > MAX_DEPTH {
            return Err(Problem::at(at, format!("this nests deeper than {MAX_DEPTH} levels")));
        }
        Ok(())
    }
}

/// Resolves a plain or quoted scalar by the core schema.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    match tag {
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => return Ok(text.into()),
        Some(tag) if !tag.is_yaml_core_schema() => return Err(unknown(tag)),
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
        Some(tag) => Err(Problem::at(at, unknown(tag))),
        None => Ok(()),
    }
}

fn unknown(tag: &Tag) -> String {
    format!("the tag {} is unknown", short(&tag.to_string()))
}

/// Size of a value.
struct Size {
    values: usize,
    /// Approximate bytes.
    bytes: usize,
    /// Nesting depth of lists and objects.
    depth: usize,
}

impl Size {
    /// Recursion is bounded by the depth limit.
    fn of(value: &Value) -> Self {
        let mut whole = Self { values: 1, bytes: size_of::<Value>(), depth: 0 };
        match value {
            Value::String(text) => whole.bytes += text.len(),
            Value::Array(items) => {
                whole.depth = 1;
                items.iter().for_each(|item| whole.add(&Self::of(item)));
            }
            Value::Object(members) => {
                whole.depth = 1;
                for (name, value) in members {
                    whole.bytes += name.len() + size_of::<String>();
                    whole.add(&Self::of(value));
                }
            }
            _ => {}
        }
        whole
    }

    fn add(&mut self, part: &Self) {
        self.values += part.values;
        self.bytes += part.bytes;
        self.depth = self.depth.max(part.depth + 1);
    }
}

fn not_yaml(error: &ScanError) -> Problem {
    Problem::at(position(*error.marker()), format!("this is not YAML: {}", error.info()))
}

fn position(marker: Marker) -> Position {
    Position { line: marker.line().max(1), column: marker.col() + 1 }
}

/// Limit on the nesting depth; JSON is bounded by its parser.
const MAX_DEPTH: usize = 64;

/// Limit on the bytes that aliases may add to a file.
const MAX_ALIASED: usize = 1024 * 1024;
