//! What is served besides MCP.

use std::fmt;
use std::pin::Pin;

use crate::pages::Pages;

/// What the program that serves has to add.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    pub(crate) pages: Option<Box<dyn Pages>>,
    /// Shown at `/metrics` beside those of HTTP.
    pub(crate) figures: Vec<Question<String>>,
    pub(crate) readiness: Option<Question<Result<(), String>>>,
}

/// What the program is asked each time somebody wants to know.
pub(crate) struct Question<T>(Box<dyn Fn() -> Reply<T> + Send + Sync>);

type Reply<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<T> Question<T> {
    pub(crate) fn new<F>(ask: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        Self(Box::new(move || Box::pin(ask())))
    }

    pub(crate) fn ask(&self) -> Reply<T> {
        self.0()
    }
}

impl<T> fmt::Debug for Question<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Question")
    }
}
