//! `mcp-flow history`: steps through an exported history or a recording, without a server.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use mcp_flow_cassette::Cassette;
use serde_json::Value;

use crate::client::timeline::{Timeline, compare};
use crate::exit::{Exit, Failure};
use crate::terminal::output::{self, Format, sanitize};

/// Step through an exported history of a session, or through a recording, without a server
///
/// `mcp-flow sessions history ID --export FILE` exports a history, `mcp-flow record` makes recordings. With
/// two files, shows how they differ, and exits with 1 if they do.
#[derive(Debug, clap::Args)]
pub(crate) struct History {
    /// Exported history, or recording
    file: PathBuf,

    /// Another one, to compare with
    other: Option<PathBuf>,

    /// Show only the exchanges of this session in a recording
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    #[command(flatten)]
    position: Position,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Part of a timeline that is shown.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct Position {
    /// Show state, data and traffic at this step
    #[arg(long, value_name = "NUMBER", conflicts_with = "step")]
    at: Option<usize>,

    /// Go from step to step: enter is next, b is back, a number goes there, q ends
    #[arg(long)]
    step: bool,
}

impl History {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let timeline = read(&self.file, self.session.as_deref())?;
        match &self.other {
            None => self.position.show(&timeline, self.format),
            Some(other) => show_differences(&timeline, &read(other, self.session.as_deref())?),
        }
    }
}

impl Position {
    /// Shows a timeline: all of it, one step, or step by step.
    pub(crate) fn show(self, timeline: &Timeline, format: Format) -> anyhow::Result<ExitCode> {
        if let Some(number) = self.at {
            let Some(detail) = timeline.detail(number) else {
                let message = format!("there are steps from 1 to {}", timeline.steps.len());
                return Err(Failure::new(Exit::Usage, message).into());
            };
            match format {
                Format::Json => output::print_json(&timeline.to_json()["steps"][number - 1])?,
                _ => output::print(&detail)?,
            }
        } else if self.step {
            step_through(timeline, std::io::stdin().lock())?;
        } else {
            match format {
                Format::Json => output::print_json(&timeline.to_json())?,
                _ => output::print(&timeline.overview())?,
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Goes from step to step as a person asks.
fn step_through(timeline: &Timeline, mut input: impl BufRead) -> anyhow::Result<()> {
    let count = timeline.steps.len();
    let mut number = 1;
    while let Some(detail) = timeline.detail(number) {
        output::print(&detail)?;
        let mut line = String::new();
        if input.read_line(&mut line).context("cannot read standard input")? == 0 {
            break;
        }
        number = match line.trim() {
            "q" => break,
            "b" => number.saturating_sub(1).max(1),
            "" => number + 1,
            typed => match typed.parse() {
                Ok(wanted) if (1..=count).contains(&wanted) => wanted,
                _ => {
                    eprintln!(
                        "press enter for the next step, or type b, q or a number up to {count}"
                    );
                    number
                }
            },
        };
    }
    Ok(())
}

/// Prints how two timelines differ; exits with 1 if they do.
pub(crate) fn show_differences(one: &Timeline, other: &Timeline) -> anyhow::Result<ExitCode> {
    let lines = compare(one, other);
    if lines.is_empty() {
        output::print("no difference")?;
        return Ok(ExitCode::SUCCESS);
    }
    for line in lines {
        output::print(&sanitize(&line))?;
    }
    Ok(ExitCode::FAILURE)
}

/// Reads an exported history or a recording.
fn read(path: &Path, session: Option<&str>) -> anyhow::Result<Timeline> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let history: Option<Value> = serde_json::from_str(&text).ok();
    if let Some(timeline) = history.as_ref().and_then(Timeline::of_history) {
        return Ok(timeline);
    }
    let cassette = Cassette::parse(text.as_bytes()).map_err(|error| {
        let message =
            format!("{} is neither an exported history nor a recording: {error}", path.display());
        Failure::new(Exit::Usage, message)
    })?;
    for remark in &cassette.remarks {
        eprintln!("mcp-flow: {}", sanitize(remark));
    }
    let title = path.display().to_string();
    Ok(Timeline::of_exchanges(title, &cassette.exchanges(), session))
}
