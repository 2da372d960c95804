//! `mcp-flow doctor`: checks what a server needs before it is started.

mod machine;
mod network;
mod store;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mcp_flow::files::Roots;
use mcp_flow::observability::audit::{ChainError, Expected, VerifyError, verify};
use serde::Serialize;

use crate::command::serve::check_exposure;
use crate::configuration::File;
use crate::exit::Exit;
use crate::server::access;
use crate::server::workflows::WorkflowDirectories;
use crate::terminal::output::{self, Format};

/// Check files, keys, ports, clock and limits before a server is started
///
/// Changes nothing. Exits with 1 if a check fails.
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// Configuration file of the server [default: check the default settings]
    #[arg(long, value_name = "FILE", env = "MCP_FLOW_CONFIG")]
    config: Option<PathBuf>,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Result of one check.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    status: Status,
    message: String,
    /// Advice for a problem.
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
        let findings = run_checks(self.config.as_deref());
        let text = match self.format {
            Format::Json => format!("{:#}\n", serde_json::to_value(&findings)?),
            Format::Plain => lines(&findings, "\t"),
            Format::Table => lines(&findings, "  "),
        };
        output::print(&text)?;
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

fn run_checks(path: Option<&Path>) -> Vec<Finding> {
    let file = match File::read_or_default(path) {
        Ok(file) => file,
        Err(error) => {
            let advice = "fix the file; docs/configuration-keys.md lists every key";
            return vec![Finding::fail("configuration", format!("{error:#}"), advice)];
        }
    };
    let mut findings = vec![configuration(path), identity(&file), exposure(&file)];
    findings.extend(roots(&file));
    findings.push(workflows(&file));
    findings.extend(store::check(&file.offer));
    findings.extend(audit(&file));
    findings.push(network::tls(&file.serve));
    findings.extend(network::ports(&file.serve));
    findings.push(machine::clock(path, &file));
    findings.push(machine::files());
    findings
}

fn configuration(path: Option<&Path>) -> Finding {
    match path {
        Some(path) => Finding::ok("configuration", format!("{} is valid", path.display())),
        None => {
            Finding::ok("configuration", "using the defaults; pass --config FILE to check a file")
        }
    }
}

/// Checks that the secrets in files and environment variables are there.
fn identity(file: &File) -> Finding {
    match access::identity_settings(file) {
        Ok(_) if file.identity.is_configured() => Finding::ok("identity", "all tokens can be read"),
        Ok(_) => Finding::ok("identity", "authentication is disabled"),
        Err(error) => Finding::fail(
            "identity",
            format!("{error:#}"),
            "see [identity] in docs/configuration.md",
        ),
    }
}

/// Returns a sentence as the end of another.
fn as_clause(sentence: &str) -> String {
    let mut letters = sentence.trim_end_matches('.').chars();
    letters.next().into_iter().flat_map(char::to_lowercase).chain(letters).collect()
}

fn exposure(file: &File) -> Finding {
    let public = file.serve.public_addresses().next();
    match (check_exposure(file), public) {
        (Err(error), _) => {
            let message = error.to_string();
            let (problem, advice) = message.split_once('\n').unwrap_or((&message, ""));
            Finding::fail("exposure", problem.trim_end_matches('.'), &as_clause(advice))
        }
        (Ok(()), Some(address)) if file.serve.insecure => Finding::warn(
            "exposure",
            format!(
                "{address} is public, and serve.insecure disables TLS and authentication checks"
            ),
            "make sure that a proxy in front of it provides TLS and authentication",
        ),
        (Ok(()), Some(address)) => {
            Finding::ok("exposure", format!("{address} uses TLS and authentication"))
        }
        (Ok(()), None) => Finding::ok("exposure", "only this machine can reach the server"),
    }
}

fn roots(file: &File) -> Option<Finding> {
    let roots = &file.offer.roots;
    let mut tried = roots.iter().map(|root| (root, Roots::directory(root).err()));
    match tried.find_map(|(root, error)| Some((root, error?))) {
        Some((root, error)) => Some(Finding::fail(
            "roots",
            format!("cannot serve {}: {error}", root.display()),
            "create the directory, make it readable for the server, or remove it from offer.roots",
        )),
        None if roots.is_empty() => None,
        None => Some(Finding::ok("roots", format!("{} readable directories", roots.len()))),
    }
}

fn workflows(file: &File) -> Finding {
    match WorkflowDirectories::named(file.offer.workflows.clone()).library() {
        Err(error) => {
            let advice = "fix or remove the directory in offer.workflows";
            Finding::fail("workflows", format!("{error:#}"), advice)
        }
        Ok(library) if library.broken().is_empty() => {
            Finding::ok("workflows", format!("{} valid workflows", library.entries().len()))
        }
        Ok(library) => Finding::warn(
            "workflows",
            format!("{} invalid workflow files", library.broken().len()),
            "run `mcp-flow workflow validate FILE` for details",
        ),
    }
}

/// Checks that the audit log can be continued. It is not opened for writing, since a server may be
/// using it.
fn audit(file: &File) -> Option<Finding> {
    let path = file.audit.file.as_ref()?;
    let fail = |problem: String, advice| Some(Finding::fail("audit", problem, advice));
    let keys = match file.audit.key_file.as_ref().filter(|key| key.exists()) {
        Some(key) => match mcp_flow::seal::file::load(key) {
            Ok(keys) => Some(keys),
            Err(error) => {
                return fail(error.to_string(), "make audit.key_file readable by its owner only");
            }
        },
        None => None,
    };
    if !path.exists() {
        return match store::is_writable_folder(path) {
            true => Some(Finding::ok("audit", format!("{} will be created", path.display()))),
            false => fail(
                format!("cannot create {}", path.display()),
                "create its directory and make it writable for the server",
            ),
        };
    }
    match verify(std::slice::from_ref(path), keys.as_ref(), &Expected::default()) {
        Ok(verified) => {
            Some(Finding::ok("audit", format!("{} entries, all valid", verified.entries)))
        }
        // It continues a rotated file, or the log of a server that was killed.
        Err(VerifyError::Broken {
            broken: ChainError::NoBeginning(_) | ChainError::Unfinished,
            ..
        }) => Some(Finding::ok("audit", format!("{} can be continued", path.display()))),
        Err(error) => fail(
            error.to_string(),
            "investigate the change, then move the file away to start a new log",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::as_clause;

    #[test]
    fn advice_is_the_end_of_a_sentence() {
        assert_eq!(
            as_clause("Configure a certificate, or listen."),
            "configure a certificate, or listen"
        );
        assert_eq!(as_clause(""), "");
    }
}
