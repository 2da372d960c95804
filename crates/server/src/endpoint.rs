//! Endpoints beside MCP, which transports serve over HTTP.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

/// Serves the paths below a prefix to anybody: authentication is up to the endpoint.
pub trait Endpoint: Send + Sync + 'static {
    /// Handles a request.
    fn handle<'a>(&'a self, request: EndpointRequest<'a>) -> EndpointFuture<'a>;

    /// Takes notice of the URL of the server, without a slash at its end. A transport calls it when it
    /// knows the URL.
    fn served_at(&self, url: &str);
}

/// Future of a response.
pub type EndpointFuture<'a> = Pin<Box<dyn Future<Output = EndpointResponse> + Send + 'a>>;

/// Request to an endpoint.
#[derive(Clone, Copy)]
pub struct EndpointRequest<'a> {
    /// Path after the prefix.
    pub path: &'a str,
    /// Set for `POST`; otherwise it is `GET` or `HEAD`, and must not change anything.
    pub is_post: bool,
    /// Set if a person with a browser sent it.
    pub accepts_html: bool,
    /// Media type of the body without parameters, in lower case; empty if there is none.
    pub media_type: &'a str,
    /// The body.
    pub body: &'a [u8],
    /// Name of the principal that sent it; none if it has no credentials and the server requires them.
    pub principal: Option<&'a str>,
}

impl fmt::Debug for EndpointRequest<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Path and body may be secrets.
        formatter
            .debug_struct("EndpointRequest")
            .field("is_post", &self.is_post)
            .finish_non_exhaustive()
    }
}

/// Response of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointResponse {
    /// Status code. 401 asks for credentials.
    pub status: u16,
    /// Media type of the body.
    pub media_type: &'static str,
    /// The body.
    pub body: String,
    /// Time after which to try again.
    pub retry_after: Option<Duration>,
}

/// Endpoints by prefix.
#[derive(Default)]
pub(crate) struct Endpoints(pub(crate) Vec<(&'static str, Box<dyn Endpoint>)>);

impl fmt::Debug for Endpoints {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(|(prefix, _)| prefix)).finish()
    }
}
