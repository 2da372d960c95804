//! Check of decoded values: an exact verdict, and every violation.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::ControlFlow;

use serde_json::{Map, Value};

use super::{
    Bound, Check, Forms, Length, List, Object, Others, Plain, ROOT, Rest, Side, Text, Types,
};
use crate::number::{canonical, compare, is_whole};
use crate::sentence::{Rule, required, too_many_steps, unknown_member};
use crate::{MAX_VIOLATIONS, Violation, forms, member};

/// One pass over a value.
pub(super) struct Validation<'p> {
    plain: &'p Plain,
    source: &'p Value,
    /// The location in the value.
    location: Vec<Step<'p>>,
    violations: Vec<Violation>,
    /// Set if only the verdict counts, so that the first violation ends the check.
    is_trial: bool,
    /// Remaining steps.
    steps: usize,
    /// Remaining nesting depth.
    depth: usize,
    /// Set if steps or depth ran out.
    is_exhausted: bool,
}

/// A step into a value.
enum Step<'p> {
    Member(&'p str),
    Item(usize),
}

/// Ends the check, or a trial: there is a violation, and no need to look for more.
type Flow = ControlFlow<()>;

impl<'p> Validation<'p> {
    pub(super) fn new(plain: &'p Plain, source: &'p Value) -> Self {
        Self {
            plain,
            source,
            location: Vec::new(),
            violations: Vec::new(),
            is_trial: false,
            steps: MAX_STEPS,
            depth: MAX_DEPTH,
            is_exhausted: false,
        }
    }

    /// Returns whether a value conforms to the schema.
    pub(super) fn accepts(mut self, value: &'p Value) -> bool {
        let plain = self.plain;
        self.try_check(&plain.definitions[ROOT], value) && !self.is_exhausted
    }

    /// Lists the violations of the schema.
    pub(super) fn violations(mut self, value: &'p Value) -> Vec<Violation> {
        let plain = self.plain;
        // The flow only tells whether the check ended early.
        let _ = self.check(&plain.definitions[ROOT], value);
        if self.is_exhausted {
            return vec![too_many_steps()];
        }
        self.violations.truncate(MAX_VIOLATIONS);
        self.violations
    }

    fn try_check(&mut self, check: &'p Check, value: &'p Value) -> bool {
        let was_trial = std::mem::replace(&mut self.is_trial, true);
        let fits = self.check(check, value).is_continue();
        self.is_trial = was_trial;
        fits
    }

    fn check(&mut self, check: &'p Check, value: &'p Value) -> Flow {
        if check.free == Types::ALL {
            return Flow::Continue(());
        }
        self.spend(1)?;
        if self.depth == 0 {
            self.is_exhausted = true;
            return Flow::Break(());
        }
        self.depth -= 1;
        let flow = self.check_keywords(check, value);
        self.depth += 1;
        flow
    }

    fn check_keywords(&mut self, check: &'p Check, value: &'p Value) -> Flow {
        if !has_type(check.types, value) {
            match check.types {
                Types::NONE => self.fault(&Rule::Nothing, value)?,
                types => self.fault(&Rule::Type(&types.names()), value)?,
            }
        }
        match value {
            Value::Number(number) => {
                for bound in &check.bounds {
                    let is_good =
                        compare(number, &bound.limit).is_some_and(|order| bound.allows(order));
                    if !is_good {
                        self.fault(&Rule::Bound(bound.words(), &bound.limit), value)?;
                    }
                }
            }
            Value::String(text) => {
                if let Some(rules) = &check.text {
                    self.check_text(rules, text, value)?;
                }
            }
            Value::Array(items) => {
                if let Some(list) = &check.list {
                    self.check_list(list, items, value)?;
                }
            }
            Value::Object(members) => {
                if let Some(object) = &check.object {
                    self.check_object(object, members, value)?;
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
        match &check.rest {
            Some(rest) => self.check_rest(rest, value),
            None => Flow::Continue(()),
        }
    }

    fn check_rest(&mut self, rest: &'p Rest, value: &'p Value) -> Flow {
        for options in rest.options.iter().filter(|options| !options.hold(value)) {
            self.fault(&options.rule(), value)?;
        }
        if let Some(position) = rest.reference {
            let plain = self.plain;
            self.check(&plain.definitions[position], value)?;
        }
        for check in &rest.all {
            self.check(check, value)?;
        }
        for forms in &rest.forms {
            self.check_forms(forms, value)?;
        }
        Flow::Continue(())
    }

    fn check_text(&mut self, rules: &Text, text: &str, value: &Value) -> Flow {
        self.spend(text.len() / BYTES_A_STEP)?;
        self.check_length(rules.length, || text.chars().count(), "characters", value)?;
        if let Some(pattern) = &rules.pattern
            && !pattern.regex.is_match(text)
        {
            self.fault(&Rule::Pattern(&pattern.source), value)?;
        }
        match rules.format {
            Some(format) if !format.holds(text) => {
                let reason = format!("value is not a \"{}\"", format.name());
                self.fault(&Rule::Other(&reason), value)
            }
            _ => Flow::Continue(()),
        }
    }

    fn check_list(&mut self, list: &'p List, items: &'p [Value], value: &'p Value) -> Flow {
        self.check_length(list.length, || items.len(), "items", value)?;
        if list.unique {
            let mut seen = HashSet::new();
            for item in items {
                let item = canonical(item);
                self.spend(1 + item.len() / BYTES_A_STEP)?;
                if !seen.insert(item) {
                    self.fault(&Rule::Unique, value)?;
                    break;
                }
            }
        }
        for (index, item) in items.iter().enumerate() {
            if let Some(check) = list.prefix.get(index).or(list.items.as_ref()) {
                self.check_inside(Step::Item(index), check, item)?;
            }
        }
        Flow::Continue(())
    }

    fn check_object(
        &mut self,
        object: &'p Object,
        members: &'p Map<String, Value>,
        value: &'p Value,
    ) -> Flow {
        // First, because this distinguishes most alternatives.
        for name in object.required.iter().filter(|name| !members.contains_key(*name)) {
            self.violation(|location| required(location, name))?;
        }
        self.check_length(object.length, || members.len(), "members", value)?;
        for (name, check) in object.names.iter().zip(&object.checks) {
            if let Some(member) = members.get(name) {
                self.check_inside(Step::Member(name), check, member)?;
            }
        }
        let is_strict = !matches!(object.others, Others::Allowed);
        if !is_strict && object.patterns.is_empty() {
            return Flow::Continue(());
        }
        let known: HashSet<&str> = object.names.iter().map(String::as_str).collect();
        for (name, member) in members {
            let mut is_covered = known.contains(name.as_str());
            for (pattern, check) in &object.patterns {
                self.spend(1 + name.len() / BYTES_A_STEP)?;
                if pattern.regex.is_match(name) {
                    is_covered = true;
                    self.check_inside(Step::Member(name), check, member)?;
                }
            }
            match &object.others {
                Others::Forbidden if !is_covered => {
                    let known: Vec<_> = object.names.iter().map(String::as_str).collect();
                    self.violation(|location| unknown_member(location, name, &known))?;
                }
                Others::Checked(check) if !is_covered => {
                    self.check_inside(Step::Member(name), check, member)?;
                }
                _ => {}
            }
        }
        Flow::Continue(())
    }

    fn check_inside(&mut self, step: Step<'p>, check: &'p Check, value: &'p Value) -> Flow {
        self.location.push(step);
        let flow = self.check(check, value);
        self.location.pop();
        flow
    }

    fn check_length(
        &mut self,
        length: Length,
        count: impl FnOnce() -> usize,
        unit: &str,
        value: &Value,
    ) -> Flow {
        let count = match length {
            Length { minimum: None, maximum: None } => return Flow::Continue(()),
            _ => count() as u64,
        };
        if let Some(minimum) = length.minimum.filter(|minimum| count < *minimum) {
            self.fault(&Rule::Length("at least", minimum, unit), value)?;
        }
        if let Some(maximum) = length.maximum.filter(|maximum| count > *maximum) {
            self.fault(&Rule::Length("at most", maximum, unit), value)?;
        }
        Flow::Continue(())
    }

    fn check_forms(&mut self, forms: &'p Forms, value: &'p Value) -> Flow {
        let most = if forms.exactly_one { 2 } else { 1 };
        let mut fitting = 0;
        for (mark, check) in forms.marks.iter().zip(&forms.checks) {
            self.spend(1)?;
            if !forms.rule_out(mark, value) && self.try_check(check, value) {
                fitting += 1;
            }
            if fitting == most {
                break;
            }
        }
        match fitting {
            0 => self.explain_forms(forms, value),
            2 => self.fault(&Rule::Other(&TWO_FORMS), value),
            _ => Flow::Continue(()),
        }
    }

    fn explain_forms(&mut self, forms: &'p Forms, value: &'p Value) -> Flow {
        if self.is_trial || self.is_exhausted {
            return Flow::Break(());
        }
        let sources = forms::listed(self.source, &forms.location);
        let location = self.pointer();
        let explained = forms::explain(&sources, value, &location, |index| {
            let others = std::mem::take(&mut self.violations);
            // The flow only tells whether the check ended early.
            let _ = self.check(&forms.checks[index], value);
            std::mem::replace(&mut self.violations, others)
        });
        self.violations.extend(explained);
        self.continue_or_stop()
    }

    fn fault(&mut self, rule: &Rule<'_>, value: &Value) -> Flow {
        self.violation(|location| rule.violation(location, value))
    }

    fn violation(&mut self, violation: impl FnOnce(&str) -> Violation) -> Flow {
        if self.is_trial {
            return Flow::Break(());
        }
        self.violations.push(violation(&self.pointer()));
        self.continue_or_stop()
    }

    /// The location as a JSON Pointer.
    fn pointer(&self) -> String {
        self.location.iter().fold(String::new(), |location, step| match step {
            Step::Member(name) => member(&location, name),
            Step::Item(index) => format!("{location}/{index}"),
        })
    }

    fn continue_or_stop(&self) -> Flow {
        let is_enough = self.is_exhausted || self.violations.len() >= MAX_VIOLATIONS;
        if is_enough { Flow::Break(()) } else { Flow::Continue(()) }
    }

    fn spend(&mut self, steps: usize) -> Flow {
        match self.steps.checked_sub(steps) {
            Some(left) if !self.is_exhausted => {
                self.steps = left;
                Flow::Continue(())
            }
            _ => {
                self.is_exhausted = true;
                Flow::Break(())
            }
        }
    }
}

impl Bound {
    fn allows(&self, order: Ordering) -> bool {
        match self.side {
            Side::Minimum => order.is_ge(),
            Side::Maximum => order.is_le(),
            Side::ExclusiveMinimum => order.is_gt(),
            Side::ExclusiveMaximum => order.is_lt(),
        }
    }

    fn words(&self) -> &'static str {
        match self.side {
            Side::Minimum => "at least",
            Side::Maximum => "at most",
            Side::ExclusiveMinimum => "more than",
            Side::ExclusiveMaximum => "less than",
        }
    }
}

impl Forms {
    /// Returns whether cheap tests rule out an alternative.
    fn rule_out(&self, mark: &super::Mark, value: &Value) -> bool {
        let Value::Object(members) = value else { return !has_type(mark.types, value) };
        let member = |position: usize| members.get(&self.names[position]);
        let is_missing = mark.required.is_some_and(|required| member(required).is_none());
        let differs = mark.fixed.as_ref().is_some_and(|(position, text)| {
            member(*position).is_some_and(|given| given != text.as_str())
        });
        !mark.types.has(Types::OBJECT) || is_missing || differs
    }
}

fn has_type(types: Types, value: &Value) -> bool {
    match value {
        Value::Null => types.has(Types::NULL),
        Value::Bool(_) => types.has(Types::BOOLEAN),
        Value::Number(number) => {
            types.has(Types::NUMBER) || types.has(Types::INTEGER) && is_whole(number)
        }
        Value::String(_) => types.has(Types::STRING),
        Value::Array(_) => types.has(Types::ARRAY),
        Value::Object(_) => types.has(Types::OBJECT),
    }
}

/// The wording of the jsonschema crate.
const TWO_FORMS: &str =
    "value is valid under more than one of the schemas listed in the 'oneOf' keyword";

/// Most steps of a check, several for each value allowed.
const MAX_STEPS: usize = 4 * 1024 * 1024;

/// Bytes inspected per step.
const BYTES_A_STEP: usize = 16;

/// Deepest nesting of checks, several for each level of a value. Unoptimised, each takes over 3 KB
/// of a thread's 2 MiB stack.
const MAX_DEPTH: usize = 256;
