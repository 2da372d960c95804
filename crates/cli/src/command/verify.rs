//! `mcp-flow verify`: checks a server against a recording.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use mcp_flow_cassette::{
    Variations, VerifyOptions, VerifyReport, junit_error, junit_report, verify,
};

use crate::command::replay::read;
use crate::exit::{Exit, Failure};
use crate::terminal::output::{self, sanitize};

/// Check that a server still answers as recorded
///
/// Starts the server, sends what the recorded client sent, answers its questions as recorded, and
/// compares. Exits with 1 if anything differs, if the server writes anything else, or if messages are
/// missing in the recording, and with 3 if the server cannot be started. Times, UUIDs and masked values
/// are not compared.
#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    /// Recording of `mcp-flow record`
    file: PathBuf,

    /// Write a report in the JUnit format to this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Ignore differences in members of results with this name; may be repeated
    #[arg(long = "vary", value_name = "NAME")]
    vary: Vec<String>,

    /// Another recording of the same requests; ignore what differs between the two
    #[arg(long = "learn", value_name = "FILE")]
    learned: Vec<PathBuf>,

    /// Compare times and UUIDs as well
    #[arg(long)]
    strict: bool,

    /// Timeout for each response, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,

    /// Command that starts the server
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Verify {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let report = match self.verify() {
            Ok(report) => report,
            Err(error) => {
                // CI reads the report to see that nothing was verified.
                let name = self.file.display().to_string();
                self.write_junit(&junit_error(&name, &format!("{error:#}")))?;
                return Err(error);
            }
        };
        self.write_junit(&junit_report(&self.file.display().to_string(), &report))?;
        for exchange in report.exchanges.iter().filter(|exchange| !exchange.is_same()) {
            output::print(&sanitize(&format!("line {}: {}", exchange.line, exchange.request)))?;
            for line in exchange.lines() {
                output::print(&format!("  {}", sanitize(&line)))?;
            }
        }
        let (compared, differing) = (report.compared(), report.differing());
        let skipped = match report.exchanges.len() - compared {
            0 => String::new(),
            skipped => format!(", {skipped} not compared: no response was recorded"),
        };
        output::print(&format!("{compared} requests compared, {differing} differ{skipped}"))?;
        for problem in &report.problems {
            output::print(&sanitize(problem))?;
        }
        if report.is_incomplete {
            eprintln!(
                "mcp-flow: messages are missing in the recording; record again, or end the file with the \
                 line {{\"end\":{{}}}} if nothing is missing"
            );
        }
        Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn verify(&self) -> anyhow::Result<VerifyReport> {
        let cassette = read(&self.file)?;
        let mut variations = Variations::named(&self.vary);
        for file in &self.learned {
            variations.learn_from(&cassette, &read(file)?);
        }
        let mut options = VerifyOptions::default();
        options.variations = variations;
        options.is_strict = self.strict;
        options.timeout = Duration::from_secs(self.timeout);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let report = runtime.block_on(verify(&cassette, &self.command, &options));
        let report = report.map_err(|error| {
            Failure::new(Exit::Unreachable, format!("cannot start the server: {error}"))
        })?;
        if report.compared() == 0 {
            let message = format!(
                "{}: no request with a response was recorded, so that nothing can be verified; record again",
                self.file.display()
            );
            return Err(Failure::new(Exit::Usage, message).into());
        }
        Ok(report)
    }

    fn write_junit(&self, text: &str) -> anyhow::Result<()> {
        let Some(junit) = &self.junit else { return Ok(()) };
        let written = std::fs::write(junit, text);
        written.with_context(|| format!("cannot write {}", junit.display()))
    }
}
