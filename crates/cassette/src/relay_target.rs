//! The server that a relay sends requests to.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;
use hyper::header::HeaderValue;
use hyper::http::uri::Scheme;
use percent_encoding::percent_decode_str;

use crate::links::LinkRewriter;
use crate::local::is_local_host;

/// The URL of a server, and the credentials that it held.
#[derive(Debug)]
pub(crate) struct Target {
    /// Without credentials, with http or https.
    pub(crate) uri: Uri,
    /// True if clients are to open a WebSocket.
    pub(crate) is_websocket: bool,
    /// Value of the `Authorization` header.
    pub(crate) credentials: Option<HeaderValue>,
}

impl Target {
    /// Reads the URL of a server; none if it is not one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.parse::<Uri>().ok()?.into_parts();
        let (scheme, is_websocket) = match parts.scheme?.as_str() {
            "http" => (Scheme::HTTP, false),
            "https" => (Scheme::HTTPS, false),
            "ws" => (Scheme::HTTP, true),
            "wss" => (Scheme::HTTPS, true),
            _ => return None,
        };
        parts.scheme = Some(scheme);
        let authority = parts.authority.take()?;
        let Some((credentials, host)) = authority.as_str().rsplit_once('@') else {
            parts.authority = Some(authority);
            let uri = Uri::from_parts(parts).ok()?;
            return Some(Self { uri, is_websocket, credentials: None });
        };
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        let mut login: Vec<u8> = percent_decode_str(user).collect();
        login.push(b':');
        login.extend(percent_decode_str(password));
        let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(login))).ok()?;
        value.set_sensitive(true);
        parts.authority = Some(host.parse().ok()?);
        Some(Self { uri: Uri::from_parts(parts).ok()?, is_websocket, credentials: Some(value) })
    }

    /// Returns whether it is the endpoint of WebTransport, which no HTTP client reaches.
    pub(crate) fn is_webtransport(&self) -> bool {
        self.uri.scheme() == Some(&Scheme::HTTPS) && self.uri.path() == "/mcp-flow"
    }

    /// Host and port.
    pub(crate) fn authority(&self) -> &str {
        self.uri.authority().map_or("", |authority| authority.as_str())
    }

    /// The host that requests name: that of the client if both are on this machine, because servers build
    /// links from it, which are to lead through the relay.
    pub(crate) fn host_for(&self, client: Option<&HeaderValue>) -> Option<HeaderValue> {
        let is_plain = self.uri.scheme() == Some(&Scheme::HTTP);
        let is_here = |host: &&HeaderValue| host.to_str().is_ok_and(is_local_host);
        let client = client.filter(|_| is_plain && is_local_host(self.authority()));
        let own = || HeaderValue::from_str(self.authority()).ok();
        client.filter(is_here).cloned().or_else(own)
    }

    /// Rewrites links of a server that does not see the client's host; none if there is nothing to rewrite.
    pub(crate) fn link_rewriter(&self, client: Option<&HeaderValue>) -> Option<LinkRewriter> {
        let client =
            client.filter(|client| self.host_for(Some(*client)).as_ref() != Some(*client))?;
        let (mount, _) = self.uri.path().rsplit_once('/')?;
        let scheme = self.uri.scheme_str().unwrap_or("http");
        let link = |scheme: &str, host: &str| format!("{scheme}://{host}{mount}/download/");
        Some(LinkRewriter::new(link(scheme, self.authority()), link("http", client.to_str().ok()?)))
    }

    /// The URL for a path of a client. The root stands for the endpoint of the target; parameters of the
    /// target are sent with every request.
    pub(crate) fn with_path(&self, path: &str) -> Result<Uri, String> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let path = if path == "/" || path.is_empty() { self.uri.path() } else { path };
        let own = self.uri.query().unwrap_or_default();
        let query = match (own, query) {
            ("", query) => query.to_owned(),
            (own, query) if query.is_empty() || query == own => own.to_owned(),
            (own, query) => format!("{own}&{query}"),
        };
        let sign = if query.is_empty() { "" } else { "?" };
        let builder = Uri::builder()
            .scheme(self.uri.scheme_str().unwrap_or("http"))
            .authority(self.authority())
            .path_and_query(format!("{path}{sign}{query}"));
        builder.build().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::Target;
    use hyper::header::HeaderValue;

    #[test]
    fn parameters_and_credentials_of_a_target_are_kept_apart() {
        let target = Target::parse("http://me:p%40ss@host:80/mcp?token=x").unwrap();
        assert_eq!(target.authority(), "host:80");
        assert_eq!(target.credentials.as_ref().unwrap(), "Basic bWU6cEBzcw==");
        for (path, sent) in [
            ("/mcp", "http://host:80/mcp?token=x"),
            ("/", "http://host:80/mcp?token=x"),
            ("/messages?session=1", "http://host:80/messages?token=x&session=1"),
            ("/mcp?token=x", "http://host:80/mcp?token=x"),
        ] {
            assert_eq!(target.with_path(path).unwrap(), sent);
        }
        let plain = Target::parse("https://host").unwrap();
        assert_eq!(plain.with_path("/a?b").unwrap(), "https://host/a?b");
        for (url, sent) in
            [("ws://host/ws?a", "http://host/ws?a"), ("wss://me@host/", "https://host/")]
        {
            let target = Target::parse(url).unwrap();
            assert!(target.is_websocket && target.uri == sent, "{target:?}");
        }
        for bad in ["ftp://host/x", "tcp://host:1", "unix:/run/x", "/mcp", "nonsense", ""] {
            assert!(Target::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn the_host_of_a_local_client_is_kept_for_local_targets() {
        for (target, client, sent) in [
            ("http://127.0.0.1:80/mcp", Some("localhost:9"), "localhost:9"),
            ("http://[::1]:80/mcp", Some("127.0.0.1:9"), "127.0.0.1:9"),
            ("ws://localhost/ws", Some("[::1]:9"), "[::1]:9"),
            ("http://localhost:80/mcp", Some("box.example:9"), "localhost:80"),
            ("http://localhost:80/mcp", None, "localhost:80"),
            ("http://box.example/mcp", Some("localhost:9"), "box.example"),
            ("https://localhost:80/mcp", Some("localhost:9"), "localhost:80"),
        ] {
            let client = client.map(HeaderValue::from_static);
            let host = Target::parse(target).unwrap().host_for(client.as_ref());
            assert_eq!(host.unwrap(), sent, "{target}");
        }
    }
}
