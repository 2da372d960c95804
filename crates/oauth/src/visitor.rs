//! The one step of a login that takes a person.

use std::fmt;

use futures_util::future::BoxFuture;
use url::Url;

/// Whoever can have a person visit a page and come back.
pub trait Visitor: fmt::Debug + Send + Sync + 'static {
    /// Where people are sent back to.
    fn redirect_uri(&self) -> String;

    /// Has somebody visit the page, and gives back the whole address they were sent back to. What
    /// went wrong is said in a sentence.
    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<String, String>>;
}
