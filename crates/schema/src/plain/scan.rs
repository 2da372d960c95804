//! Check of encoded arguments, without decoding them.

use std::borrow::Cow;
use std::collections::HashSet;

use mcp_flow_proto::{DecodeError, Raw, ValueKind};

use super::{Bound, Check, Forms, List, Object, Others, Plain, Rest, Side, Text, Types};

/// One pass over encoded arguments.
pub(super) struct Scan<'p> {
    plain: &'p Plain,
    /// Remaining bytes that may be read more than once, for alternatives and references.
    bytes: usize,
    /// Remaining depth of references.
    depth: usize,
}

impl<'p> Scan<'p> {
    pub(super) fn new(plain: &'p Plain, arguments: Raw<'_>) -> Self {
        let bytes = arguments.bytes().len().saturating_mul(READINGS).saturating_add(FREE_BYTES);
        Self { plain, bytes, depth: MAX_DEPTH }
    }

    /// Returns whether a value is known to be valid.
    pub(super) fn accepts(&mut self, check: &'p Check, value: Raw<'_>) -> bool {
        self.accept(check, value).is_ok()
    }

    fn accept(&mut self, check: &'p Check, value: Raw<'_>) -> Result<(), NotKnown> {
        let kind = value.kind();
        let types = types_of(kind);
        if check.free.has(types) {
            return Ok(());
        }
        match kind {
            ValueKind::String => return self.accept_text(check, value).map(drop),
            ValueKind::Number => accept_number(check, value)?,
            // A value that JSON cannot represent is valid where anything is.
            ValueKind::Other => return known(check.free == Types::ALL),
            ValueKind::Null | ValueKind::Boolean | ValueKind::Array | ValueKind::Object => {
                known(check.types.has(types))?;
            }
        }
        match (kind, &check.list, &check.object) {
            (ValueKind::Array, Some(list), _) => self.accept_list(list, value)?,
            (ValueKind::Object, _, Some(object)) => self.accept_object(object, value)?,
            _ => {}
        }
        match &check.rest {
            Some(rest) => self.accept_rest(rest, value),
            None => Ok(()),
        }
    }

    /// A text that is known to be valid.
    fn accept_text<'a>(
        &mut self,
        check: &'p Check,
        value: Raw<'a>,
    ) -> Result<Cow<'a, str>, NotKnown> {
        known(check.types.has(Types::STRING))?;
        let text = value.as_text().ok_or(NotKnown)?;
        if let Some(rules) = &check.text {
            known(rules.hold(&text))?;
        }
        if let Some(rest) = &check.rest {
            self.accept_rest(rest, value)?;
        }
        Ok(text)
    }

    fn accept_list(&mut self, list: &'p List, value: Raw<'_>) -> Result<(), NotKnown> {
        let mut seen = Seen::default();
        let mut count = 0;
        value.each_element(|element| {
            let check = list.prefix.get(count).or(list.items.as_ref());
            count += 1;
            match check {
                // Equality of other values is left to the exact check.
                Some(check) if list.unique => known(seen.is_new(self.accept_text(check, element)?)),
                None if list.unique => known(seen.is_new(element.as_text().ok_or(NotKnown)?)),
                Some(check) => self.accept(check, element),
                None => Ok(()),
            }
        })?;
        known(list.length.holds(|| count))
    }

    fn accept_object(&mut self, object: &'p Object, value: Raw<'_>) -> Result<(), NotKnown> {
        let required = object.required_bits.ok_or(NotKnown)?;
        // Member names are not inspected here, and duplicates not counted.
        let is_counted = object.length.minimum.or(object.length.maximum).is_some();
        known(object.patterns.is_empty() && !is_counted)?;
        let mut seen = 0u64;
        value.each_member(&object.names, |position, member| {
            let Some(position) = position else {
                return match &object.others {
                    Others::Allowed => Ok(()),
                    Others::Forbidden => Err(NotKnown),
                    Others::Checked(check) => self.accept(check, member),
                };
            };
            known(seen & 1 << position == 0)?;
            seen |= 1 << position;
            self.accept(&object.checks[position], member)
        })?;
        known(seen & required == required)
    }

    fn accept_rest(&mut self, rest: &'p Rest, value: Raw<'_>) -> Result<(), NotKnown> {
        known(rest.options.iter().all(|options| options.accept(value)))?;
        if let Some(position) = rest.reference {
            // References of a few lines can lead to one value an astronomic number of times.
            let cost = 1 + value.bytes().len() / BYTES_A_REFERENCE;
            self.bytes = self.bytes.checked_sub(cost).ok_or(NotKnown)?;
            self.depth = self.depth.checked_sub(1).ok_or(NotKnown)?;
            self.accept(&self.plain.definitions[position], value)?;
            self.depth += 1;
        }
        for check in &rest.all {
            self.accept(check, value)?;
        }
        for forms in &rest.forms {
            self.accept_form(forms, value)?;
        }
        Ok(())
    }

    fn accept_form(&mut self, forms: &'p Forms, value: Raw<'_>) -> Result<(), NotKnown> {
        if let Some(texts) = &forms.texts {
            let text = value.as_text().ok_or(NotKnown)?;
            return known(texts.iter().any(|one| *one == text));
        }
        let candidates = forms.candidates(value)?;
        if let [only] = candidates.as_slice() {
            return self.accept(&forms.checks[*only], value);
        }
        // Unknown is not invalid, so a second candidate is left to the exact check.
        known(!forms.exactly_one)?;
        let depth = self.depth;
        for position in candidates {
            self.bytes = self.bytes.checked_sub(value.bytes().len()).ok_or(NotKnown)?;
            if self.accepts(&forms.checks[position], value) {
                return Ok(());
            }
            self.depth = depth;
        }
        Err(NotKnown)
    }
}

impl Forms {
    /// The alternatives that cheap tests do not rule out.
    fn candidates(&self, value: Raw<'_>) -> Result<Vec<usize>, NotKnown> {
        let kind = value.kind();
        // An alternative for integers may match any number.
        let types = match kind {
            ValueKind::Number => Types::NUMBER.with(Types::INTEGER),
            ValueKind::Other => return Err(NotKnown),
            kind => types_of(kind),
        };
        let mut members = vec![None; self.names.len()];
        if kind == ValueKind::Object && !self.names.is_empty() {
            value.each_member(&self.names, |position, member| match position {
                Some(position) => known(members[position].replace(member).is_none()),
                None => Ok(()),
            })?;
        }
        let is_candidate = |position: &usize| {
            let mark = &self.marks[*position];
            let fixed = |(position, text): &(usize, String)| match members[*position] {
                Some(member) => member.as_text().is_some_and(|given| given == *text),
                None => true,
            };
            mark.types.has(types)
                && (kind != ValueKind::Object
                    || mark.required.is_none_or(|required| members[required].is_some())
                        && mark.fixed.as_ref().is_none_or(fixed))
        };
        Ok((0..self.marks.len()).filter(is_candidate).collect())
    }
}

/// The type of a kind of value, without regard to whether a number is an integer.
fn types_of(kind: ValueKind) -> Types {
    match kind {
        ValueKind::Null => Types::NULL,
        ValueKind::Boolean => Types::BOOLEAN,
        ValueKind::Number => Types::NUMBER,
        ValueKind::String => Types::STRING,
        ValueKind::Array => Types::ARRAY,
        ValueKind::Object => Types::OBJECT,
        ValueKind::Other => Types::NONE,
    }
}

fn accept_number(check: &Check, value: Raw<'_>) -> Result<(), NotKnown> {
    let is_any = check.types.has(Types::NUMBER);
    if is_any && check.bounds.is_empty() {
        return Ok(());
    }
    known(is_any || check.types.has(Types::INTEGER))?;
    let number = value.as_number().ok_or(NotKnown)?;
    // Where floats are not exact, the exact check decides.
    known(number.abs() < 9.0e15 && (is_any || number.fract() == 0.0))?;
    known(check.bounds.iter().all(|bound| bound.holds_float(number)))
}

impl Bound {
    fn holds_float(&self, number: f64) -> bool {
        match self.side {
            Side::Minimum => number >= self.float,
            Side::Maximum => number <= self.float,
            Side::ExclusiveMinimum => number > self.float,
            Side::ExclusiveMaximum => number < self.float,
        }
    }
}

impl Text {
    fn hold(&self, text: &str) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.regex.is_match(text))
            && self.format.is_none_or(|format| format.holds(text))
            && self.length.holds(|| text.chars().count())
    }
}

/// The texts of an array so far. A few are compared one by one, which is faster than hashing.
#[derive(Default)]
struct Seen<'a> {
    few: Vec<Cow<'a, str>>,
    many: HashSet<Cow<'a, str>>,
}

impl<'a> Seen<'a> {
    fn is_new(&mut self, text: Cow<'a, str>) -> bool {
        if self.few.contains(&text) {
            return false;
        }
        if self.few.len() < FEW {
            self.few.push(text);
            return true;
        }
        self.many.insert(text)
    }
}

/// The value is invalid, or this check cannot decide.
#[derive(Debug)]
struct NotKnown;

impl From<DecodeError> for NotKnown {
    fn from(_: DecodeError) -> Self {
        Self
    }
}

fn known(good: bool) -> Result<(), NotKnown> {
    if good { Ok(()) } else { Err(NotKnown) }
}

const FEW: usize = 16;

/// Most times that arguments may be read for nested alternatives and references.
const READINGS: usize = 16;

/// Bytes that may be read repeatedly, whatever the size of the arguments.
const FREE_BYTES: usize = 4096;

/// Bytes of a value that cost one when a reference leads to it: each level of a tree is reached by one.
const BYTES_A_REFERENCE: usize = 16;

/// Deepest nesting of references.
const MAX_DEPTH: usize = 128;
