//! A minimal file server over HTTP: hyper under axum, reading with tokio.

use std::path::PathBuf;

use axum::{
    Router, body::Body, http::header::CONTENT_LENGTH, response::IntoResponse, routing::get,
};
use tokio::fs::File;
use tokio_util::io::ReaderStream;

use super::{Runtime, listener};

/// The subcommand that starts it.
pub(crate) const COMMAND: &str = "serve-file";

/// The file to send.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Settings {
    file: PathBuf,
}

pub(crate) fn serve(settings: Settings) -> anyhow::Result<()> {
    let send = move || {
        let path = settings.file.clone();
        async move {
            let file = File::open(path).await.map_err(|error| error.to_string())?;
            let length = file.metadata().await.map_err(|error| error.to_string())?.len();
            // The read size of MCP Flow, so that it makes no difference.
            let body = Body::from_stream(ReaderStream::with_capacity(file, 256 * 1024));
            Ok::<_, String>(([(CONTENT_LENGTH, length)], body).into_response())
        }
    };
    let router = Router::new().route("/file", get(send));
    Ok(Runtime::MultiThread.build()?.block_on(listener::serve(router))?)
}
