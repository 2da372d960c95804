//! How servers are reached over HTTP.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use mcp_flow_client::authorizer::Authorizer;
use mcp_flow_tls::Trust;

use super::BadTarget;

/// How servers are reached over HTTP.
#[derive(Clone, Debug, Default)]
pub struct HttpOptions {
    pub(super) headers: HeaderMap,
    pub(super) trust: Trust,
    pub(super) authorizer: Option<Arc<dyn Authorizer>>,
    pub(super) addresses: Option<Addresses>,
}

impl HttpOptions {
    /// No headers of its own, and the certificates this machine trusts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a header to every request. What cannot be a header is refused.
    ///
    /// ```
    /// use mcp_flow_http::client::HttpOptions;
    ///
    /// assert!(HttpOptions::new().header("X-Tenant", "blue").is_ok());
    /// assert!(HttpOptions::new().header("X-Tenant", "blue\r\nX-Role: admin").is_err());
    /// ```
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, BadTarget> {
        let bad = || BadTarget(format!("{name:?} cannot be a header with this value"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        self.headers.append(name, value);
        Ok(self)
    }

    /// Says who is calling, by a bearer token.
    pub fn bearer(self, token: &str) -> Result<Self, BadTarget> {
        self.header(AUTHORIZATION.as_str(), &format!("Bearer {token}"))
    }

    /// Sets which certificates are trusted. Defaults to those this machine trusts.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// Sets who knows the credential, for a server that wants one. A header or a bearer token given
    /// here as well goes before.
    #[must_use]
    pub fn authorizer(mut self, authorizer: Arc<dyn Authorizer>) -> Self {
        self.authorizer = Some(authorizer);
        self
    }

    /// Sets which addresses may be dialled. Defaults to all.
    #[must_use]
    pub fn addresses(mut self, addresses: Addresses) -> Self {
        self.addresses = Some(addresses);
        self
    }

    /// Who knows the credential, if anybody does.
    pub fn authorized_by(&self) -> Option<&Arc<dyn Authorizer>> {
        self.authorizer.as_ref()
    }

    /// What is sent with every request.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Which certificates are trusted.
    pub fn trusted(&self) -> &Trust {
        &self.trust
    }
}

/// Which addresses may be dialled, by the host that is asked for and where it turns out to be.
#[derive(Clone)]
pub struct Addresses(Arc<Rule>);

type Rule = dyn Fn(&str, IpAddr) -> bool + Send + Sync;

impl Addresses {
    /// Those for which this is true.
    pub fn only(allows: impl Fn(&str, IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(allows))
    }

    /// Whether a host may be dialled at an address it turned out to be at.
    pub fn allows(&self, host: &str, address: IpAddr) -> bool {
        (self.0)(host, address)
    }
}

impl fmt::Debug for Addresses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Addresses")
    }
}
