//! Workflows published as skills.

use mcp_flow_workflow::Workflow;
use serde_json::json;

use crate::SKILL_FILE;
use crate::skill::{Skill, SkillError};

/// The prefix of all workflows among skills.
const PREFIX: &str = "workflows";

/// Makes a skill of a workflow: instructions that lead into an enforced run, and the workflow itself
/// for reference.
///
/// ```
/// use mcp_flow_skills::skill_of;
/// use mcp_flow_workflow::Library;
///
/// let workflow = Library::bundled().find("code-review").unwrap();
/// let skill = skill_of(&workflow).unwrap();
/// assert_eq!(skill.entry().uri, "skill://workflows/code-review/SKILL.md");
/// ```
pub fn skill_of(workflow: &Workflow) -> Result<Skill, SkillError> {
    let definition = serde_json::to_string_pretty(workflow).expect("workflows can be written");
    let files = [(SKILL_FILE, text(workflow)), ("references/workflow.json", definition + "\n")];
    Skill::new(&format!("{PREFIX}/{}", workflow.id), files)
}

fn text(workflow: &Workflow) -> String {
    let Workflow { id, name, description, version, category, .. } = workflow;
    // A JSON text is a YAML text.
    let [description, version, category] =
        [description, version, category].map(|text| json!(text).to_string());
    format!(
        "---
name: {id}
description: {description}
metadata:
  category: {category}
  version: {version}
---

# {name}

This is a workflow that this server enforces: it shows one step at a time, checks the output of each
step, and asks a person where one has to confirm. Do not work through it from memory.

1. Call the tool `workflow_start` of this server with `{{\"workflowId\": \"{id}\"}}`. It returns the
   first step and a token.
2. Do what the step says.
3. Call `workflow_continue` with the token and the output of the step. It returns the next step, or
   says what is missing.
4. Continue until the run is complete. `workflow_status` shows its progress.

`references/workflow.json` holds all steps, for reading only: a step counts when the run has accepted
its output.
"
    )
}

#[cfg(test)]
mod tests {
    use super::skill_of;
    use mcp_flow_workflow::{Format, Library, Reading};

    #[test]
    fn workflows_lead_into_enforced_runs() {
        let entries = Library::bundled().entries();
        assert!(!entries.is_empty());
        for entry in entries {
            let workflow = &*entry.workflow;
            let skill = skill_of(workflow).unwrap();
            assert_eq!(skill.entry().check(), Ok(()));
            assert_eq!(skill.entry().description(), &*workflow.description);
            let [text, definition] = skill.files() else { panic!("{:?}", skill.files()) };
            let text = std::str::from_utf8(&text.bytes).unwrap();
            assert!(text.contains("`workflow_start`") && text.contains(&*workflow.id), "{text}");
            let text = std::str::from_utf8(&definition.bytes).unwrap();
            let read = Reading::of(text, Format::Json, &workflow.category).workflow.unwrap();
            assert_eq!(read, *workflow);
        }
    }

    #[test]
    fn ids_that_are_no_skill_names_are_refused() {
        let mut workflow = (*Library::bundled().find("code-review").unwrap()).clone();
        for id in ["-code-review", "code--review", "code-review-"] {
            workflow.id = id.into();
            let error = skill_of(&workflow).unwrap_err().to_string();
            assert!(error.contains("rename"), "{error}");
        }
        workflow.id = "code-review".into();
        workflow.description = "a: \"b\" # c\\ 🙂 – \u{1b}[2J {{".into();
        let skill = skill_of(&workflow).unwrap();
        assert_eq!(skill.entry().description(), &*workflow.description);
    }
}
