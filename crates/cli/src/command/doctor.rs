//! `mcp-flow doctor`: whether a server would find everything it needs, and what to do if not.

mod machine;
mod place;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mcp_flow::files::Roots;
use mcp_flow::observability::audit::{ChainError, Expected, VerifyError, verify};
use serde::Serialize;

use crate::command::serve::refuse_open;
use crate::configuration::File;
use crate::exit::Exit;
use crate::guarded;
use crate::show::{self, Format};
use crate::workflows::Directories;

/// Check what a server needs before it is started: files, keys, ports, clock and limits
///
/// Nothing is changed, and nothing is made. Ends with 1 if something must be mended.
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// The configuration the server will be started with; the defaults without
    #[arg(long, value_name = "FILE", env = "MCP_FLOW_CONFIG")]
    config: Option<PathBuf>,

    /// For people or for programs
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What was found out about one thing.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    status: Status,
    message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warn,
    Fail,
}

impl Finding {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, status: Status::Ok, message: message.into(), advice: None }
    }

    fn warn(check: &'static str, message: impl Into<String>, advice: &str) -> Self {
        let advice = Some(advice.to_owned());
        Self { check, status: Status::Warn, message: message.into(), advice }
    }

    fn fail(check: &'static str, message: impl Into<String>, advice: &str) -> Self {
        Self { status: Status::Fail, ..Self::warn(check, message, advice) }
    }
}

impl Doctor {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let findings = examine(self.config.as_deref());
        let text = match self.format {
            Format::Json => format!("{:#}\n", serde_json::to_value(&findings)?),
            Format::Plain => lines(&findings, "\t"),
            Format::Table => lines(&findings, "  "),
        };
        show::print(&text)?;
        let is_bad = findings.iter().any(|finding| finding.status == Status::Fail);
        Ok(if is_bad { Exit::Failed.into() } else { ExitCode::SUCCESS })
    }
}

fn lines(findings: &[Finding], between: &str) -> String {
    let mut text = String::new();
    for Finding { check, status, message, advice } in findings {
        let status = match status {
            Status::Ok => "ok  ",
            Status::Warn => "warn",
            Status::Fail => "FAIL",
        };
        let advice = advice.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default();
        let _ = writeln!(text, "{status}{between}{check:<13}{between}{message}{advice}");
    }
    text
}

fn examine(path: Option<&Path>) -> Vec<Finding> {
    let file = match File::read_or_default(path) {
        Ok(file) => file,
        Err(error) => {
            let advice = "mend the file; docs/configuration.md has every key";
            return vec![Finding::fail("configuration", format!("{error:#}"), advice)];
        }
    };
    let mut findings = vec![configuration(path), identity(&file), exposure(&file)];
    findings.extend(roots(&file));
    findings.push(workflows(&file));
    findings.extend(place::store(&file.offer));
    findings.extend(audit(&file));
    findings.push(place::tls(&file.serve));
    findings.extend(place::ports(&file.serve));
    findings.push(machine::clock(path, &file));
    findings.push(machine::files());
    findings
}

fn configuration(path: Option<&Path>) -> Finding {
    match path {
        Some(path) => Finding::ok("configuration", format!("{} is good", path.display())),
        None => Finding::ok("configuration", "the defaults; --config FILE has others checked"),
    }
}

/// Secrets that files and variables should hold.
fn identity(file: &File) -> Finding {
    match guarded::settings(file) {
        Ok(_) if file.identity.is_configured() => Finding::ok("identity", "all tokens are there"),
        Ok(_) => Finding::ok("identity", "authentication is disabled"),
        Err(error) => Finding::fail(
            "identity",
            format!("{error:#}"),
            "see [identity] in docs/configuration.md",
        ),
    }
}

fn exposure(file: &File) -> Finding {
    let open = file.serve.open_addresses().next();
    match (refuse_open(file), open) {
        (Err(error), _) => {
            let told = error.to_string();
            let (problem, advice) = told.split_once('\n').unwrap_or((&told, ""));
            Finding::fail("exposure", problem, advice)
        }
        (Ok(()), Some(open)) if file.serve.insecure => Finding::warn(
            "exposure",
            format!("{open} can be reached by others, and serve.insecure lets them"),
            "make sure that a proxy in front of it encrypts and authenticates",
        ),
        (Ok(()), Some(open)) => Finding::ok("exposure", format!("{open} is encrypted and guarded")),
        (Ok(()), None) => Finding::ok("exposure", "only this machine can reach it"),
    }
}

fn roots(file: &File) -> Option<Finding> {
    let roots = &file.offer.roots;
    let mut tried = roots.iter().map(|root| (root, Roots::directory(root).err()));
    match tried.find_map(|(root, error)| Some((root, error?))) {
        Some((root, error)) => Some(Finding::fail(
            "roots",
            format!("{} cannot be served: {error}", root.display()),
            "make the directory, let the server read it, or take it out of offer.roots",
        )),
        None if roots.is_empty() => None,
        None => Some(Finding::ok("roots", format!("{} directories can be read", roots.len()))),
    }
}

fn workflows(file: &File) -> Finding {
    match Directories::named(file.offer.workflows.clone()).library() {
        Err(error) => {
            let advice = "mend or take out the directory in offer.workflows";
            Finding::fail("workflows", format!("{error:#}"), advice)
        }
        Ok(library) if library.broken().is_empty() => {
            Finding::ok("workflows", format!("{} can be served", library.entries().len()))
        }
        Ok(library) => Finding::warn(
            "workflows",
            format!("{} cannot be served", library.broken().len()),
            "`mcp-flow workflow validate FILE` says what is wrong with each",
        ),
    }
}

/// Whether the audit log can be gone on with. It is not opened, since a server may be writing to it.
fn audit(file: &File) -> Option<Finding> {
    let path = file.audit.file.as_ref()?;
    let fail = |problem: String, advice| Some(Finding::fail("audit", problem, advice));
    let keys = match file.audit.key_file.as_ref().filter(|key| key.exists()) {
        Some(key) => match mcp_flow::seal::file::load(key) {
            Ok(keys) => Some(keys),
            Err(error) => return fail(error.to_string(), "only its owner may read audit.key_file"),
        },
        None => None,
    };
    if !path.exists() {
        return match place::is_writable_folder(path) {
            true => Some(Finding::ok("audit", format!("{} will be begun", path.display()))),
            false => fail(
                format!("{} cannot be made", path.display()),
                "make its folder, and let the server write there",
            ),
        };
    }
    match verify(std::slice::from_ref(path), keys.as_ref(), &Expected::default()) {
        Ok(verified) => {
            let told = format!("{} entries, all as they were written", verified.entries);
            Some(Finding::ok("audit", told))
        }
        // It goes on from a file that was moved away, or from a server that was killed.
        Err(VerifyError::Broken {
            broken: ChainError::NoBeginning(_) | ChainError::Unfinished,
            ..
        }) => Some(Finding::ok("audit", format!("{} can be gone on with", path.display()))),
        Err(error) => fail(error.to_string(), "find out who did that; move the file away to go on"),
    }
}
