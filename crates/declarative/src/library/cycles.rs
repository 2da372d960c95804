//! Cycles of flows that call each other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::model::{Action, DeclaredTool, Step, alias};

/// Finds a cycle for each flow that is part of one, as a list of names.
pub(super) fn find_cycles<'a>(tools: impl Iterator<Item = &'a DeclaredTool>) -> Vec<Vec<&'a str>> {
    let tools: Vec<_> = tools.collect();
    let names = ToolNames::of(&tools);
    let mut calls: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for tool in tools {
        if let Action::Flow(steps) = &tool.action {
            let mut called = Vec::new();
            collect(steps, &mut called);
            let called = called.into_iter().map(|name| names.resolve(name)).collect();
            calls.insert(&tool.name, called);
        }
    }
    let mut cycles = Vec::new();
    for start in calls.keys() {
        if let Some(cycle) = cycle_from(start, &calls) {
            cycles.push(cycle);
        }
    }
    cycles
}

/// Returns the tools of a file that one of them calls, and those that they call.
pub(super) fn called_tools<'a>(
    caller: &'a DeclaredTool,
    file: &'a [Arc<DeclaredTool>],
) -> Vec<&'a DeclaredTool> {
    let mut found: Vec<&DeclaredTool> = Vec::new();
    let mut waiting = vec![caller];
    while let Some(tool) = waiting.pop() {
        let Action::Flow(steps) = &tool.action else { continue };
        let mut names = Vec::new();
        collect(steps, &mut names);
        for name in names {
            let called = file.iter().find(|one| alias(&one.name) == alias(name));
            if let Some(called) = called
                && !found.iter().any(|one| one.name == called.name)
            {
                found.push(called);
                waiting.push(called);
            }
        }
    }
    found
}

/// Names that the server knows tools by.
struct ToolNames<'a> {
    aliases: HashMap<String, &'a str>,
    /// Last parts of names, by which a gateway finds tools, if only one has it.
    unprefixed: HashMap<&'a str, Option<&'a str>>,
}

impl<'a> ToolNames<'a> {
    fn of(tools: &[&'a DeclaredTool]) -> Self {
        let mut unprefixed: HashMap<&str, Option<&str>> = HashMap::new();
        // Internal tools are not on the server.
        for tool in tools.iter().filter(|tool| !tool.internal) {
            if let Some((_, last)) = tool.name.split_once('.') {
                unprefixed.entry(last).and_modify(|one| *one = None).or_insert(Some(&tool.name));
            }
        }
        let aliases = tools.iter().map(|tool| (alias(&tool.name), &*tool.name)).collect();
        Self { aliases, unprefixed }
    }

    /// Returns the declared name of a tool that is called by this one.
    fn resolve(&self, called: &'a str) -> &'a str {
        let declared = self.aliases.get(&alias(called)).copied();
        declared.or_else(|| *self.unprefixed.get(called)?).unwrap_or(called)
    }
}

/// Describes a cycle.
pub(super) fn describe(cycle: &[&str]) -> String {
    let first = cycle.first().copied().unwrap_or_default();
    let path: Vec<_> = cycle.iter().copied().chain([first]).collect();
    format!("{first}: this flow calls itself: {}", path.join(" -> "))
}

/// Searches breadth first for the shortest way back to a flow.
fn cycle_from<'a>(start: &'a str, calls: &BTreeMap<&'a str, Vec<&'a str>>) -> Option<Vec<&'a str>> {
    let mut before: HashMap<&str, &str> = HashMap::new();
    let mut waiting = std::collections::VecDeque::from([start]);
    while let Some(name) = waiting.pop_front() {
        for &called in calls.get(name).into_iter().flatten() {
            if called == start {
                let mut cycle = vec![name];
                let mut at = name;
                while at != start {
                    at = before.get(at)?;
                    cycle.push(at);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if calls.contains_key(called) && !before.contains_key(called) {
                before.insert(called, name);
                waiting.push_back(called);
            }
        }
    }
    None
}

fn collect<'a>(steps: &'a [Step], called: &mut Vec<&'a str>) {
    for step in steps {
        match step {
            Step::Call { tool, .. } => called.push(tool),
            Step::If { then, otherwise, .. } => {
                collect(then, called);
                collect(otherwise, called);
            }
            Step::ForEach { steps, .. } => collect(steps, called),
            Step::Ask(_) | Step::Set(_) | Step::Approve { .. } | Step::Return(_) => {}
        }
    }
}
