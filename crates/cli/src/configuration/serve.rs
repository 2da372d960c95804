//! `[serve]`: where to listen, and how to be found there.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Problems, resolved};

/// Where `mcp-flow serve` listens, and how it presents itself.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServeSection {
    /// The address for HTTP (TCP) and WebTransport (UDP); port 0 picks a free one.
    pub(crate) listen: SocketAddr,
    /// Whether an address that others can reach may be served without encryption and identity.
    pub(crate) insecure: bool,
    /// The certificate chain, in PEM; it may be renewed while running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Host names answered to besides those of this machine.
    pub(crate) hosts: Vec<String>,
    /// Origins whose pages may speak to the server from a browser, such as `https://app.example`.
    pub(crate) allow_origins: Vec<String>,
    /// Where clients find the server, if that is not the host they name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) public_url: Option<String>,
    /// Whether the console is served at `/`.
    pub(crate) console: bool,
    /// Whether the UDP port is opened for WebTransport.
    pub(crate) webtransport: bool,
    /// A TCP address that is served one message per line, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tcp: Option<SocketAddr>,
    /// The path of a Unix socket that is served one message per line, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unix: Option<PathBuf>,
    /// How many seconds running calls may take to finish once the server is asked to end.
    #[schemars(range(min = 0, max = 86_400))]
    pub(crate) drain_seconds: u64,
}

impl Default for ServeSection {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 4433)),
            insecure: false,
            tls_certificate: None,
            tls_key: None,
            hosts: Vec::new(),
            allow_origins: Vec::new(),
            public_url: None,
            console: true,
            webtransport: true,
            tcp: None,
            unix: None,
            drain_seconds: 30,
        }
    }
}

impl ServeSection {
    pub(super) fn check(&self, problems: &mut Problems<'_>) {
        if self.tls_certificate.is_some() != self.tls_key.is_some() {
            let given = if self.tls_key.is_some() { "tls_key" } else { "tls_certificate" };
            let problem = "serve.tls_certificate and serve.tls_key belong together";
            problems.add(&["serve", given], problem);
        }
        if self.drain_seconds > LONGEST_DRAIN {
            let problem = format!("serve.drain_seconds may be {LONGEST_DRAIN} at most");
            problems.add(&["serve", "drain_seconds"], problem);
        }
        for (index, text) in self.allow_origins.iter().enumerate() {
            if let Err(problem) = origin(text) {
                let problem = format!("serve.allow_origins: {problem}");
                problems.add(&["serve", "allow_origins", &index.to_string()], problem);
            }
        }
    }

    pub(super) fn resolve(&mut self, folder: &Path) {
        let paths = [&mut self.tls_certificate, &mut self.tls_key, &mut self.unix];
        paths.into_iter().flatten().for_each(|path| resolved(path, folder));
    }

    /// The addresses that others might reach.
    pub(crate) fn open_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        let all = [Some(self.listen), self.tcp].into_iter().flatten();
        all.filter(|address| !address.ip().is_loopback())
    }
}

/// Origins are compared as browsers send them, so anything else would never match.
pub(crate) fn origin(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_host = |host: &str| !host.is_empty() && !host.contains(['/', '?', '#', '@', '*', ' ']);
    match host {
        Some(host) if is_host(host) => Ok(text.to_owned()),
        _ => Err("write scheme, host and port as a browser does: https://app.example:8443".into()),
    }
}

const LONGEST_DRAIN: u64 = 86_400;

#[cfg(test)]
mod tests {
    /// MCP-049: an origin that no browser would send is a mistake, and no wildcard lets all in.
    #[test]
    fn origins_are_written_as_browsers_do() {
        for good in ["https://app.example", "http://localhost:5173", "http://[::1]:80"] {
            assert_eq!(super::origin(good).as_deref(), Ok(good));
        }
        for bad in ["", "app.example", "https://", "https://app.example/", "*", "https://*", "null"]
        {
            assert!(super::origin(bad).is_err(), "{bad}");
        }
    }
}
