//! Options of the HTTP client.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use mcp_flow_client::authorizer::Authorizer;
use mcp_flow_tls::Trust;

use crate::BadTarget;

/// Headers, trust, credentials and address rules of the HTTP client.
#[derive(Clone, Debug, Default)]
pub struct HttpOptions {
    pub(crate) headers: HeaderMap,
    pub(crate) trust: Trust,
    pub(crate) authorizer: Option<Arc<dyn Authorizer>>,
    pub(crate) addresses: Option<AllowedAddresses>,
}

impl HttpOptions {
    /// Creates options without extra headers that trust the system's certificates.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a header to every request. Invalid header names and values are rejected.
    ///
    /// ```
    /// use mcp_flow_http_client::HttpOptions;
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

    /// Sets the bearer token of every request.
    pub fn bearer(self, token: &str) -> Result<Self, BadTarget> {
        self.header(AUTHORIZATION.as_str(), &format!("Bearer {token}"))
    }

    /// Sets the trusted server certificates. Defaults to those of the system.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// Sets the source of credentials, such as an OAuth account. An `Authorization` header or bearer
    /// token of these options takes precedence.
    #[must_use]
    pub fn authorizer(mut self, authorizer: Arc<dyn Authorizer>) -> Self {
        self.authorizer = Some(authorizer);
        self
    }

    /// Restricts the IP addresses to connect to. Defaults to all.
    #[must_use]
    pub fn addresses(mut self, addresses: AllowedAddresses) -> Self {
        self.addresses = Some(addresses);
        self
    }

    /// Returns the source of credentials.
    pub fn authorized_by(&self) -> Option<&Arc<dyn Authorizer>> {
        self.authorizer.as_ref()
    }

    /// Returns the headers of every request.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the trusted server certificates.
    pub fn trusted(&self) -> &Trust {
        &self.trust
    }
}

/// Rule for the IP addresses to connect to, given the host name and its resolved address.
#[derive(Clone)]
pub struct AllowedAddresses(Arc<Rule>);

type Rule = dyn Fn(&str, IpAddr) -> bool + Send + Sync;

impl AllowedAddresses {
    /// Allows the addresses for which the predicate returns true.
    pub fn only(allows: impl Fn(&str, IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(allows))
    }

    /// Returns whether a host may be connected to at a resolved address.
    pub fn allows(&self, host: &str, address: IpAddr) -> bool {
        (self.0)(host, address)
    }
}

impl fmt::Debug for AllowedAddresses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AllowedAddresses")
    }
}
