//! Reference servers.

pub(crate) mod axum;
pub(crate) mod bare;
pub(crate) mod files;
pub(crate) mod listener;
pub(crate) mod quinn;
pub(crate) mod rmcp;
pub(crate) mod rmcp_asking;
pub(crate) mod rmcp_http;

use std::io;

use clap::ValueEnum;
use tokio::runtime::Builder;

/// The number of threads that run a server's tasks.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Runtime {
    CurrentThread,
    MultiThread,
}

impl Runtime {
    fn build(self) -> io::Result<tokio::runtime::Runtime> {
        let mut builder = match self {
            Self::CurrentThread => Builder::new_current_thread(),
            Self::MultiThread => Builder::new_multi_thread(),
        };
        builder.enable_all().build()
    }
}
