//! `mcp-flow audit`: verification of audit logs.

use std::path::PathBuf;
use std::process::ExitCode;

use mcp_flow::observability::audit::{Expected, verify};
use mcp_flow::seal::file;

use crate::terminal::output;

/// Verify audit logs
#[derive(Debug, clap::Args)]
pub(crate) struct Audit {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Verify the hash chain of a log; report the number of entries or the first invalid line
    Verify {
        /// Audit log; if it was rotated, all its files, oldest first
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,

        /// File with the key the log was written with
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,

        /// Hash of the line before the first one, if an older file is missing
        #[arg(long = "previous-hash", alias = "after", value_name = "HASH")]
        after: Option<String>,

        /// Hash of a line that the log must contain, for example a last hash printed before
        #[arg(long = "expect-hash", alias = "holds", value_name = "HASH")]
        holds: Option<String>,
    },
}

impl Audit {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let Action::Verify { files, key_file, after, holds } = self.action;
        let keys = key_file.as_deref().map(file::load).transpose()?;
        let verified = verify(&files, keys.as_ref(), &Expected { after, holds })?;
        let mut text = format!("{} entries, all valid\n", verified.entries);
        if verified.mended > 0 {
            text += &format!("{} incomplete lines, of servers that were killed\n", verified.mended);
        }
        if let Some(last) = verified.last {
            text += &format!("last hash {last}\n");
        }
        output::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}
