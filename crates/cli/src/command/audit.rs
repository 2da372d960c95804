//! `mcp-flow audit`: whether an audit log is as it was written.

use std::path::PathBuf;
use std::process::ExitCode;

use mcp_flow::observability::audit::{Expected, verify};
use mcp_flow::seal::file;

use crate::show;

/// Check logs of who called what
#[derive(Debug, clap::Args)]
pub(crate) struct Audit {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Say how many entries a log has, or which line is the first that is not as it was written
    Verify {
        /// The log; if it was begun anew meanwhile, all its files, the oldest first
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,

        /// The file with the key it was written with
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,

        /// The hash of the line before the first, if that is in a file which is not here
        #[arg(long, value_name = "HASH")]
        after: Option<String>,

        /// The hash of a line that must be there, such as one this command has told before
        #[arg(long, value_name = "HASH")]
        holds: Option<String>,
    },
}

impl Audit {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let What::Verify { files, key_file, after, holds } = self.what;
        let keys = key_file.as_deref().map(file::load).transpose()?;
        let verified = verify(&files, keys.as_ref(), &Expected { after, holds })?;
        let mut text = format!("{} entries, all as they were written\n", verified.entries);
        if verified.mended > 0 {
            text += &format!("{} unfinished lines of servers that were killed\n", verified.mended);
        }
        if let Some(last) = verified.last {
            text += &format!("last hash {last}\n");
        }
        show::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}
