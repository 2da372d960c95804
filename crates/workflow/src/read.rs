//! Reading a workflow from a parsed file, with all its problems.
//!
//! `fields` reads the members of one object and reports unknown ones; the other modules define
//! which members exist. The published schema (`schema/workflow.schema.json`) defines the same; a
//! test compares the two.

mod budget;
mod conditions;
mod fields;
mod guess;
mod loops;
mod references;
mod rules;

use serde_json::Value;

use crate::model::{Confirmation, Step, Task, Workflow};
use crate::problem::{Problem, Severity};
use crate::source::Format;
use budget::Kind;

pub use conditions::read_condition;
pub use fields::{Fields, Problems, ValuePath, shown};

#[cfg(test)]
pub(crate) use conditions::condition_of;
#[cfg(test)]
pub(crate) use rules::criteria_of;

/// Result of reading a file.
#[derive(Debug)]
pub struct Reading {
    /// The workflow, if there are no errors.
    pub workflow: Option<Workflow>,
    /// The id in the file, if it has one, even if the file cannot be used.
    pub id: Option<Box<str>>,
    /// Problems in the order of the file.
    pub problems: Vec<Problem>,
}

impl Reading {
    /// Reads the text of a file. `category` is the default category.
    ///
    /// ```
    /// use mcp_flow_workflow::{Format, Reading};
    ///
    /// let text = "id: tidy-up\nname: Tidy up\ndescription: Bring order\nversion: 1.0.0\n\
    ///             steps:\n  - {id: sort, title: Sort, promt: Sort all things}\n";
    /// let reading = Reading::of(text, Format::Yaml, "general");
    ///
    /// assert!(reading.workflow.is_none());
    /// let message: Vec<_> = reading.problems.iter().map(ToString::to_string).collect();
    /// assert_eq!(message[1], "line 6, column 29: `promt` is unknown; did you mean `prompt`?");
    /// ```
    pub fn of(text: &str, format: Format, category: &str) -> Self {
        Self::read(text, format, category, Problems::default())
    }

    /// Reads the text of a bundled file, without compiling its patterns.
    pub(crate) fn bundled(text: &str, format: Format) -> Self {
        Self::read(text, format, "general", Problems::trusted())
    }

    fn read(text: &str, format: Format, category: &str, problems: Problems) -> Self {
        let value = match format.parse(text) {
            Ok(value) => value,
            Err(problem) => {
                let id = guess::id(text, format).map(Into::into);
                return Self { workflow: None, id, problems: vec![problem] };
            }
        };
        let workflow = read_workflow(&value, category, &problems);
        let id = value.get("id").and_then(Value::as_str).map(Into::into);
        let problems = problems.located(text, format);
        let usable = problems.iter().all(|problem| problem.severity == Severity::Warning);
        Self { workflow: workflow.filter(|_| usable), id, problems }
    }

    /// Returns the first error.
    pub fn first_error(&self) -> Option<&Problem> {
        self.problems.iter().find(|problem| problem.is_error())
    }
}

/// Returns whether a text is a valid id of a workflow or a step (WFL-026).
pub fn is_identifier(text: &str) -> bool {
    (3..=64).contains(&text.len()) && text.chars().all(is_identifier_character)
}

fn is_identifier_character(character: char) -> bool {
    matches!(character, 'a'..='z' | '0'..='9' | '-')
}

fn read_workflow(value: &Value, category: &str, problems: &Problems) -> Option<Workflow> {
    let fields = Fields::of(value, ValuePath::ROOT, &WORKFLOW, problems)?;
    let id = fields.identifier("id");
    let name = fields.required_text("name", 1..=128);
    let description = fields.required_text("description", 1..=512);
    let version = match fields.get("version") {
        Some(_) => fields.version("version"),
        None => {
            fields.warn("`version` is missing; the default is 0.0.0");
            Some(NO_VERSION.into())
        }
    };
    let category = match fields.text("category", 1..=64) {
        Some(named) => named,
        None => category.into(),
    };
    let minimum_server_version = fields
        .get("minimumServerVersion")
        .and_then(|_| fields.version("minimumServerVersion"))
        .or_else(|| {
            fields.get("minServerVersion").and_then(|_| fields.version("minServerVersion"))
        });
    let agent_role = fields.text("agentRole", 10..=1024);
    let preconditions = fields.texts("preconditions", 1..=256);
    let clarification_prompts = fields.texts("clarificationPrompts", 1..=256);
    let meta_guidance = fields.texts("metaGuidance", 1..=256);
    let steps = read_steps(&fields);
    Some(Workflow {
        id: id?,
        name: name?,
        description: description?,
        version: version?,
        category,
        minimum_server_version,
        agent_role,
        preconditions,
        clarification_prompts,
        meta_guidance,
        steps: steps?,
    })
}

fn read_steps(fields: &Fields<'_>) -> Option<Vec<Step>> {
    let items = fields.items("steps")?;
    if items.is_empty() {
        fields.note("steps", "`steps` must have at least one step");
        return None;
    }
    let location = fields.location("steps");
    // Steps within loops count, too.
    let count: usize = items.iter().map(references::count).sum();
    if !fields.problems().allow(Kind::Steps, count as u64, location) {
        return None;
    }
    references::check(items, &location, fields.problems());
    let steps: Vec<_> = items
        .iter()
        .enumerate()
        .map(|(index, value)| read_step(value, location.item(index), fields.problems()))
        .collect();
    // All are read before the first error returns, so that all problems are reported.
    steps.into_iter().collect()
}

fn read_step(value: &Value, location: ValuePath<'_>, problems: &Problems) -> Option<Step> {
    if references::is_loop(value) {
        return loops::read(value, location, problems).map(Step::Loop);
    }
    read_task(value, location, problems).map(Step::Task)
}

fn read_task(value: &Value, location: ValuePath<'_>, problems: &Problems) -> Option<Task> {
    let fields = Fields::of(value, location, &TASK, problems)?;
    let id = fields.identifier("id");
    let title = fields.required_text("title", 1..=128);
    let prompt = fields.required_text("prompt", 1..=8192);
    let guidance = fields.texts("guidance", 1..=1024);
    let require_confirmation = match fields.get("requireConfirmation") {
        None => None,
        Some(Value::Bool(flag)) => Some(Confirmation::Flag(*flag)),
        Some(Value::Object(_)) => {
            conditions::read(&fields, "requireConfirmation").map(Confirmation::When)
        }
        Some(_) => {
            let message = "`requireConfirmation` must be true, false or a condition";
            fields.note("requireConfirmation", message);
            None
        }
    };
    let ask_for_files = fields.flag("askForFiles");
    let run_condition = conditions::read(&fields, "runCondition");
    let validation_criteria = rules::read_criteria(&fields);
    Some(Task {
        id: id?,
        title: title?,
        prompt: prompt?,
        guidance,
        ask_for_files,
        require_confirmation,
        run_condition,
        validation_criteria,
    })
}

/// Default version (C-29).
const NO_VERSION: &str = "0.0.0";

const WORKFLOW: [&str; 13] = [
    "$schema",
    "id",
    "name",
    "description",
    "version",
    "category",
    "minimumServerVersion",
    "minServerVersion",
    "agentRole",
    "preconditions",
    "clarificationPrompts",
    "metaGuidance",
    "steps",
];

const TASK: [&str; 8] = [
    "id",
    "title",
    "prompt",
    "guidance",
    "askForFiles",
    "requireConfirmation",
    "runCondition",
    "validationCriteria",
];

#[cfg(test)]
mod tests;
