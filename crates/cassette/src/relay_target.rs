//! The server that a relay sends requests to.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;
use hyper::header::HeaderValue;
use percent_encoding::percent_decode_str;

/// The URL of a server, and the credentials that it held.
#[derive(Debug)]
pub(crate) struct Target {
    /// Without credentials.
    pub(crate) uri: Uri,
    /// Value of the `Authorization` header.
    pub(crate) credentials: Option<HeaderValue>,
}

impl Target {
    /// Reads the URL of a server; none if it is not one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let authority = uri.authority()?.as_str();
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return None;
        }
        let Some((credentials, host)) = authority.rsplit_once('@') else {
            return Some(Self { uri, credentials: None });
        };
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        let mut login: Vec<u8> = percent_decode_str(user).collect();
        login.push(b':');
        login.extend(percent_decode_str(password));
        let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(login))).ok()?;
        value.set_sensitive(true);
        let mut parts = uri.clone().into_parts();
        parts.authority = Some(host.parse().ok()?);
        Some(Self { uri: Uri::from_parts(parts).ok()?, credentials: Some(value) })
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
        for bad in ["ftp://host/x", "/mcp", "nonsense", ""] {
            assert!(Target::parse(bad).is_none(), "{bad}");
        }
    }
}
