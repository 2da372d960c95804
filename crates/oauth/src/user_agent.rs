//! The user agent: the step of a login that needs a user.

use std::fmt;

use futures_util::future::BoxFuture;
use url::Url;

/// Opens the authorization page and returns the URL it redirects to.
pub trait UserAgent: fmt::Debug + Send + Sync + 'static {
    /// Returns the redirect URI.
    fn redirect_uri(&self) -> String;

    /// Opens the page, waits for the redirect, and returns its full URL. An error is a sentence for
    /// the user.
    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<String, String>>;
}
