//! Liveness at `/healthz` and readiness at `/readyz`. Neither needs a token: probes have none.

use std::time::Duration;

use hyper::StatusCode;

use super::Callback;
use crate::response::{HttpResponse, text};

/// Serves a health probe, or returns `None` for any other path.
pub(crate) async fn serve(
    path: &str,
    is_draining: bool,
    readiness: Option<&Callback<Result<(), String>>>,
) -> Option<HttpResponse> {
    match path {
        "/healthz" => Some(text(StatusCode::OK, "ok\n")),
        "/readyz" if is_draining => Some(text(StatusCode::SERVICE_UNAVAILABLE, "ending\n")),
        "/readyz" => Some(check_readiness(readiness).await),
        _ => None,
    }
}

async fn check_readiness(readiness: Option<&Callback<Result<(), String>>>) -> HttpResponse {
    let Some(readiness) = readiness else { return text(StatusCode::OK, "ready\n") };
    match tokio::time::timeout(READINESS_TIMEOUT, readiness.call()).await {
        Ok(Ok(())) => text(StatusCode::OK, "ready\n"),
        Ok(Err(problem)) => text(StatusCode::SERVICE_UNAVAILABLE, problem + "\n"),
        Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "no answer in time\n"),
    }
}

const READINESS_TIMEOUT: Duration = Duration::from_secs(5);
