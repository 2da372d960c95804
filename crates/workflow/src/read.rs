//! From a value to a workflow, with everything that is wrong with it.
//!
//! `fields` reads the members of one object and notes what it does not understand; the rest says
//! which members there are. The published schema (`schema/workflow.schema.json`) says the same, and
//! a test holds the two together.

mod allowance;
mod conditions;
mod fields;
mod guess;
mod loops;
mod references;
mod rules;

use serde_json::Value;

use crate::model::{Confirmation, Step, Task, Workflow};
use crate::problem::{Problem, Severity};
use crate::source::{Format, Places};
use allowance::Kind;
use fields::{Fields, Notes, Place};

#[cfg(test)]
pub(crate) use conditions::condition_of;
#[cfg(test)]
pub(crate) use rules::criteria_of;

/// What became of a file.
#[derive(Debug)]
pub struct Reading {
    /// The workflow, if the file can be used.
    pub workflow: Option<Workflow>,
    /// The id in the file, if it has one, however bad the rest.
    pub id: Option<Box<str>>,
    /// What is wrong, in the order of the file.
    pub problems: Vec<Problem>,
}

impl Reading {
    /// Reads the text of a file. `category` is what a workflow gets that does not say its own.
    ///
    /// ```
    /// use mcp_flow_workflow::{Format, Reading};
    ///
    /// let text = "id: tidy-up\nname: Tidy up\ndescription: Bring order\nversion: 1.0.0\n\
    ///             steps:\n  - {id: sort, title: Sort, promt: Sort all things}\n";
    /// let reading = Reading::of(text, Format::Yaml, "general");
    ///
    /// assert!(reading.workflow.is_none());
    /// let told: Vec<_> = reading.problems.iter().map(ToString::to_string).collect();
    /// assert_eq!(told[1], "line 6, column 29: `promt` is unknown; did you mean `prompt`?");
    /// ```
    pub fn of(text: &str, format: Format, category: &str) -> Self {
        let value = match format.parse(text) {
            Ok(value) => value,
            Err(problem) => {
                let id = guess::id(text, format).map(Into::into);
                return Self { workflow: None, id, problems: vec![problem] };
            }
        };
        let notes = Notes::default();
        let workflow = read_workflow(&value, category, &notes);
        let id = value.get("id").and_then(Value::as_str).map(Into::into);
        let notes = notes.into_inner();
        if notes.is_empty() {
            return Self { workflow, id, problems: Vec::new() };
        }
        let mut places = Places::wanted(notes.iter().map(fields::Note::pointer));
        format.locate(text, &mut places);
        let mut problems: Vec<_> = notes.into_iter().map(|note| note.located(&places)).collect();
        problems.sort_by_key(|problem| problem.position);
        let usable = problems.iter().all(|problem| problem.severity == Severity::Warning);
        Self { workflow: workflow.filter(|_| usable), id, problems }
    }

    /// The worst problem: the first error.
    pub fn first_error(&self) -> Option<&Problem> {
        self.problems.iter().find(|problem| problem.is_error())
    }
}

/// Whether a text can be the id of a workflow or a step (WFL-026).
pub fn is_identifier(text: &str) -> bool {
    (3..=64).contains(&text.len()) && text.chars().all(is_identifier_character)
}

fn is_identifier_character(character: char) -> bool {
    matches!(character, 'a'..='z' | '0'..='9' | '-')
}

fn read_workflow(value: &Value, category: &str, notes: &Notes) -> Option<Workflow> {
    let fields = Fields::of(value, Place::ROOT, &WORKFLOW, notes)?;
    let id = fields.identifier("id");
    let name = fields.required_text("name", 1..=128);
    let description = fields.required_text("description", 1..=512);
    let version = match fields.get("version") {
        Some(_) => fields.version("version"),
        None => {
            fields.warn("`version` is missing; it is taken to be 0.0.0");
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
    let place = fields.place("steps");
    // Those within loops are counted, too.
    let count: usize = items.iter().map(references::count).sum();
    if !fields.notes().allow(Kind::Steps, count as u64, place) {
        return None;
    }
    references::check(items, &place, fields.notes());
    let steps: Vec<_> = items
        .iter()
        .enumerate()
        .map(|(index, value)| read_step(value, place.item(index), fields.notes()))
        .collect();
    // All of them first, so that all of their faults are told.
    steps.into_iter().collect()
}

fn read_step(value: &Value, place: Place<'_>, notes: &Notes) -> Option<Step> {
    if references::is_loop(value) {
        return loops::read(value, place, notes).map(Step::Loop);
    }
    read_task(value, place, notes).map(Step::Task)
}

fn read_task(value: &Value, place: Place<'_>, notes: &Notes) -> Option<Task> {
    let fields = Fields::of(value, place, &TASK, notes)?;
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
            let told = "`requireConfirmation` must be true, false or a condition";
            fields.note("requireConfirmation", told);
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

/// The version of a workflow that does not say its own (C-29).
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
