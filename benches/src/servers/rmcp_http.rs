//! The same tool, served over HTTP by the official SDK, with all optional costs disabled.
//!
//! The SDK creates a service for every session, or for every request without sessions. It gets a
//! shared one, because a clone would copy the tool router each time. Nothing is logged, no stream
//! is kept alive or resumed, and the host of a request is not checked.

use std::{fmt, sync::Arc};

use axum::Router;
use clap::ValueEnum;
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};

use super::{Runtime, listener, rmcp::Calculator};
use crate::{http::era::Era, report::name};

/// The configuration the SDK leaves to its user.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Settings {
    #[arg(long, value_enum)]
    runtime: Runtime,
    #[arg(long, value_enum)]
    answers: ResponseMode,
}

/// The SDK's three ways to answer a POST.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ResponseMode {
    /// JSON, without sessions
    Json,
    /// An event stream, without sessions
    Events,
    /// An event stream of a long-lived session
    Session,
}

pub(crate) fn serve(settings: Settings) -> anyhow::Result<()> {
    let calculator = Arc::new(Calculator::default());
    let configuration = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(matches!(settings.answers, ResponseMode::Session))
        .with_json_response(matches!(settings.answers, ResponseMode::Json))
        .with_sse_keep_alive(None)
        .with_sse_retry(None)
        .disable_allowed_hosts();
    let service = StreamableHttpService::new(
        move || Ok(Arc::clone(&calculator)),
        Arc::new(LocalSessionManager::default()),
        configuration,
    );
    let router = Router::new().route_service("/mcp", service);
    Ok(settings.runtime.build()?.block_on(listener::serve(router))?)
}

impl Settings {
    /// Iterates over all configurations of an era, to find the fastest on this machine.
    pub(crate) fn all(era: Era) -> impl Iterator<Item = Self> {
        let answers = ResponseMode::value_variants().iter();
        let answers = answers.filter(move |answers| match era {
            Era::Handshake => true,
            Era::Stateless => !matches!(answers, ResponseMode::Session),
        });
        answers.flat_map(|&answers| {
            Runtime::value_variants().iter().map(move |&runtime| Self { runtime, answers })
        })
    }

    /// Returns the arguments that `benches serve-rmcp-http` parses to these settings.
    pub(crate) fn to_arguments(self) -> Vec<String> {
        vec![
            format!("--runtime={}", name(&self.runtime)),
            format!("--answers={}", name(&self.answers)),
        ]
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, {}", name(&self.runtime), name(&self.answers))
    }
}
