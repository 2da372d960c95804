//! Judging an output.

use mcp_flow_schema::UntrustedSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Criteria, Demand, Rule};
use crate::condition::{Condition, Context};
use crate::pattern::Pattern;

/// Whether an output is good, and if not, what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether it is.
    pub valid: bool,
    /// What is wrong.
    pub issues: Vec<String>,
    /// What would be right.
    pub suggestions: Vec<String>,
}

impl Verdict {
    /// Judges an output by the rules of its step. If none counts, it must only say something.
    pub fn of(criteria: Option<&Criteria>, output: &str, context: &Context) -> Self {
        Self::by(criteria, output, &|condition| condition.holds(context))
    }

    /// The same, where rules count whose conditions do by this.
    pub(crate) fn by(criteria: Option<&Criteria>, output: &str, counts: Counts<'_>) -> Self {
        let rules = criteria.map(Criteria::rules).unwrap_or_default();
        let mut judged: Vec<_> =
            rules.iter().filter_map(|rule| rule.judge(output, counts)).collect();
        if judged.is_empty() && output.trim().is_empty() {
            judged.push(Err(Fault {
                issue: "The output is empty.".to_owned(),
                suggestion: "Say what was done in this step and what came of it.".to_owned(),
            }));
        }
        let faults: Vec<_> = judged.into_iter().filter_map(Result::err).collect();
        let mut verdict = Self { valid: faults.is_empty(), issues: vec![], suggestions: vec![] };
        for Fault { issue, suggestion } in faults {
            verdict.issues.push(issue);
            if !verdict.suggestions.contains(&suggestion) {
                verdict.suggestions.push(suggestion);
            }
        }
        verdict
    }
}

/// One rule that was broken.
struct Fault {
    issue: String,
    suggestion: String,
}

/// Whether a rule with this condition counts.
type Counts<'c> = &'c dyn Fn(&Condition) -> bool;

/// Whether a rule was kept; nothing if it does not count.
type Judged = Option<Result<(), Fault>>;

impl Rule {
    fn judge(&self, output: &str, counts: Counts<'_>) -> Judged {
        if self.condition.as_ref().is_some_and(|condition| !counts(condition)) {
            return None;
        }
        let judged = self.demand.judge(output, counts)?;
        Some(judged.map_err(|fault| match &self.message {
            Some(message) => Fault { issue: message.to_string(), ..fault },
            None => fault,
        }))
    }
}

impl Demand {
    fn judge(&self, output: &str, counts: Counts<'_>) -> Judged {
        let fault = |issue: String, suggestion: String| Some(Err(Fault { issue, suggestion }));
        // Those of several that count; nothing if there are some, and none does.
        let counted = |rules: &[Rule]| {
            let judged: Vec<_> =
                rules.iter().filter_map(|rule| rule.judge(output, counts)).collect();
            (rules.is_empty() || !judged.is_empty()).then_some(judged)
        };
        match self {
            Self::Contains(part) if output.contains(&**part) => KEPT,
            Self::Contains(part) => fault(
                format!("The output does not contain {part:?}."),
                format!("Include {part:?} in the output, in these very letters."),
            ),
            Self::Regex(pattern) if pattern.is_match(output) => KEPT,
            Self::Regex(pattern) => fault(
                format!("The output does not match {}.", slashed(pattern)),
                format!("Write the output so that {} is found in it.", slashed(pattern)),
            ),
            Self::Length { min, max } => {
                let length = output.chars().count() as u64;
                match (min, max) {
                    (Some(min), _) if length < *min => fault(
                        format!("The output has {length} characters, at least {min} are needed."),
                        format!("Say more: {} characters are missing.", min - length),
                    ),
                    (_, Some(max)) if length > *max => fault(
                        format!("The output has {length} characters, at most {max} are allowed."),
                        format!("Say it in fewer words: {} characters less.", length - max),
                    ),
                    _ => KEPT,
                }
            }
            Self::Schema(schema) => match judge_by_schema(schema, output) {
                Some(fault) => Some(Err(fault)),
                None => KEPT,
            },
            Self::And(rules) => {
                let faults: Vec<_> = counted(rules)?.into_iter().filter_map(Result::err).collect();
                if faults.is_empty() { KEPT } else { Some(Err(joined(faults, " "))) }
            }
            Self::Or(rules) => {
                let judged: Result<Vec<_>, ()> =
                    counted(rules)?.into_iter().map(|one| one.err().ok_or(())).collect();
                match judged {
                    Ok(faults) => Some(Err(joined(faults, " Or: "))),
                    Err(()) => KEPT,
                }
            }
            Self::Not(rule) => match rule.judge(output, counts)? {
                Err(_) => KEPT,
                Ok(()) => fault(
                    format!("The output must not {}.", rule.demand.words()),
                    format!("Change the output so that it does not {}.", rule.demand.words()),
                ),
            },
        }
    }

    /// What an output does that keeps to this.
    fn words(&self) -> String {
        match self {
            Self::Contains(part) => format!("contain {part:?}"),
            Self::Regex(pattern) => format!("match {}", slashed(pattern)),
            Self::Length { min: Some(min), max: Some(max) } => {
                format!("have {min} to {max} characters")
            }
            Self::Length { min: Some(min), .. } => format!("have {min} characters or more"),
            Self::Length { max: Some(max), .. } => format!("have {max} characters or less"),
            Self::Length { .. } => "have any length".to_owned(),
            Self::Schema(_) => "keep to the schema".to_owned(),
            Self::And(rules) => words_of(rules, " and "),
            Self::Or(rules) => words_of(rules, " or "),
            Self::Not(rule) => format!("fail to {}", rule.demand.words()),
        }
    }
}

fn words_of(rules: &[Rule], between: &str) -> String {
    rules.iter().map(|rule| rule.demand.words()).collect::<Vec<_>>().join(between)
}

fn joined(faults: Vec<Fault>, between: &str) -> Fault {
    let (issues, suggestions): (Vec<_>, Vec<_>) =
        faults.into_iter().map(|fault| (fault.issue, fault.suggestion)).unzip();
    let none = || "No output can keep to this rule.".to_owned();
    let join = |texts: Vec<String>| if texts.is_empty() { none() } else { texts.join(between) };
    Fault { issue: join(issues), suggestion: join(suggestions) }
}

fn slashed(pattern: &Pattern) -> String {
    format!("/{}/{}", pattern.source(), pattern.flags())
}

fn judge_by_schema(schema: &Value, output: &str) -> Option<Fault> {
    let output: Value = match serde_json::from_str(output) {
        Ok(output) => output,
        Err(error) => {
            return Some(Fault {
                issue: format!("The output is not JSON: {error}."),
                suggestion: "Give the output as one JSON text and nothing else.".to_owned(),
            });
        }
    };
    let compiled = match UntrustedSchema::compile(schema) {
        Ok(compiled) => compiled,
        // It was tried when it was read.
        Err(error) => return Some(Fault { issue: error, suggestion: MEND.to_owned() }),
    };
    let Ok(violations) = compiled.violations(&output, "the output", MOST_ERRORS) else {
        return Some(Fault {
            issue: "The output is too large or nests too deep for the schema of this step."
                .to_owned(),
            suggestion: "Give the same in fewer and flatter lists and objects.".to_owned(),
        });
    };
    let faults: Vec<_> = violations.into_iter().map(|violation| violation.sentence).collect();
    (!faults.is_empty()).then(|| Fault {
        issue: format!(
            "The output does not keep to the schema of this step: {}.",
            faults.join("; ")
        ),
        suggestion: format!("Give JSON that keeps to this schema: {schema}"),
    })
}

const KEPT: Judged = Some(Ok(()));

const MEND: &str = "Mend the schema in the workflow file.";

/// How many faults of an output are told at once.
const MOST_ERRORS: usize = 5;

#[cfg(test)]
mod tests {
    use super::Verdict;
    use crate::read::criteria_of;
    use serde_json::{Value, json};

    /// WFL-044, WFL-042: every kind of rule passes what it should and fails what it should, with
    /// something to do about it.
    #[test]
    fn rules_judge_outputs() {
        for (criteria, good, bad, told) in [
            (json!([{"type": "contains", "value": "Plan"}]), "a Plan", "a plan", "\"Plan\""),
            (json!({"type": "regex", "pattern": "^ok"}), "ok!", "not ok", "/^ok/"),
            (json!([{"type": "regex", "pattern": "^OK$", "flags": "im"}]), "a\nok", "okay", "/im"),
            (json!([{"type": "length", "min": 3}]), "äöü", "äö", "2 characters"),
            (json!([{"type": "length", "max": 3}]), "äöü", "äöüß", "at most 3"),
            (
                json!([{"type": "schema", "schema": {"type": "object", "required": ["a"]}}]),
                "{\"a\": 1}",
                "{\"b\": 1}",
                "\"a\" is a required",
            ),
            (json!([{"type": "schema", "schema": {"type": "object"}}]), "{}", "none", "not JSON"),
            (
                json!({"and": [{"type": "contains", "value": "a"}, {"type": "length", "max": 2}]}),
                "ab",
                "abc",
                "at most 2",
            ),
            (
                json!({"or": [{"type": "contains", "value": "a"}, {"type": "length", "min": 3}]}),
                "xyz",
                "x",
                "Or:",
            ),
            (
                json!({"not": {"type": "contains", "value": "TODO"}}),
                "done",
                "TODO",
                "must not contain",
            ),
            (json!([{"type": "contains", "value": "a", "message": "Say a."}]), "a", "b", "Say a."),
            (json!({"not": {"or": []}}), "", "", ""),
        ] {
            let read = criteria_of(&criteria).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), criteria);
            let judge = |output| Verdict::of(Some(&read), output, &Default::default());
            assert!(judge(good).valid, "{criteria} should accept {good:?}");
            if !told.is_empty() {
                let verdict = judge(bad);
                assert!(!verdict.valid && !verdict.suggestions.is_empty(), "{criteria}: {bad:?}");
                assert!(verdict.issues[0].contains(told), "{verdict:?}");
            }
        }
    }

    #[test]
    fn every_broken_rule_is_told() {
        let criteria = criteria_of(&json!([
            {"type": "contains", "value": "a", "message": "one"},
            {"type": "contains", "value": "b", "message": "two"},
            {"type": "contains", "value": "c", "message": "three", "condition": {"var": "strict"}},
        ]));
        let criteria = criteria.unwrap();
        let issues =
            |context: Value| Verdict::of(Some(&criteria), "x", context.as_object().unwrap()).issues;
        assert_eq!(issues(json!({})), ["one", "two"]);
        assert_eq!(issues(json!({"strict": true})), ["one", "two", "three"]);
    }

    /// A rule within others counts, or does not, as one by itself.
    #[test]
    fn what_does_not_count_decides_nothing() {
        let never = json!({"type": "contains", "value": "a", "condition": {"var": "strict"}});
        let other = json!({"type": "contains", "value": "b"});
        for (criteria, output, valid, strictly) in [
            (json!({"not": never}), "a", true, false),
            (json!({"not": {"not": never}}), "x", true, false),
            (json!({"not": {"and": [never]}}), "a", true, false),
            (json!({"or": [never, other]}), "x", false, false),
            (json!({"or": [never, other]}), "a", false, true),
            (json!({"or": [never]}), "x", true, false),
            (json!({"and": [never, other]}), "b", true, false),
            (json!([never]), " ", false, false),
        ] {
            let read = criteria_of(&criteria).unwrap();
            for (context, valid) in [(json!({}), valid), (json!({"strict": true}), strictly)] {
                let verdict = Verdict::of(Some(&read), output, context.as_object().unwrap());
                assert_eq!(verdict.valid, valid, "{criteria}: {output:?} with {context}");
                assert!(valid || !verdict.suggestions.is_empty(), "{criteria}");
            }
        }
    }

    #[test]
    fn without_rules_an_output_must_say_something() {
        let none = criteria_of(&json!([])).unwrap();
        for (output, valid) in [("x", true), (" \n\t", false), ("", false)] {
            for criteria in [None, Some(&none)] {
                let verdict = Verdict::of(criteria, output, &Default::default());
                assert_eq!(verdict.valid, valid, "{output:?}");
            }
        }
    }
}
