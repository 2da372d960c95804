//! The server that a relay sends requests to.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;
use hyper::header::HeaderValue;
use hyper::http::uri::Scheme;
use percent_encoding::percent_decode_str;

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

    /// Host and port.
    pub(crate) fn authority(&self) -> &str {
        self.uri.authority().map_or("", |authority| authority.as_str())
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
}
