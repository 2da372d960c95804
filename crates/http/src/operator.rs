//! Endpoints beside MCP, for operators and people: metrics, health and readiness, pages.

pub(crate) mod health;
pub(crate) mod metrics;
pub(crate) mod pages;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use pages::{StaticPages, VisitedPages};

/// Endpoints that the embedding program adds.
#[derive(Debug, Default)]
pub(crate) struct OperatorEndpoints {
    pub(crate) pages: Option<Box<dyn StaticPages>>,
    pub(crate) visited_pages: Option<Arc<dyn VisitedPages>>,
    /// Metrics shown at `/metrics` after those of HTTP.
    pub(crate) metrics: Vec<Callback<String>>,
    pub(crate) readiness: Option<Callback<Result<(), String>>>,
}

/// Async callback of the embedding program, called for each request.
pub(crate) struct Callback<T>(Box<dyn Fn() -> BoxFuture<T> + Send + Sync>);

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<T> Callback<T> {
    pub(crate) fn new<F>(callback: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        Self(Box::new(move || Box::pin(callback())))
    }

    pub(crate) fn call(&self) -> BoxFuture<T> {
        self.0()
    }
}

impl<T> fmt::Debug for Callback<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Callback")
    }
}
