//! Who is let in: the right host, no foreign page, and whoever has a token where one is needed.

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use hyper::{StatusCode, Uri};
use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::ACCESS_DENIED;
use mcp_flow_server::Principal;

use crate::answer::{Answer, refusal};
use crate::options::Options;
use crate::tokens::Tokens;

/// What every request has to pass.
#[derive(Debug)]
pub(crate) struct Guard {
    /// Host names answered to; empty means all.
    hosts: Vec<String>,
    /// Origins of pages let in, besides those that the server itself might have served.
    origins: Vec<String>,
    tokens: Option<Tokens>,
    /// Everyone, where no token is asked for.
    local: Principal,
}

impl Guard {
    /// A server on a loopback address answers to its own machine's names only, so that a name
    /// someone else controls cannot be made to point at it (DNS rebinding).
    pub(crate) fn new(is_loopback: bool, options: &Options, tokens: Option<Tokens>) -> Self {
        let mut hosts = options.hosts.clone();
        if is_loopback {
            hosts.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
        }
        Self { hosts, origins: options.origins.clone(), tokens, local: Principal::local() }
    }

    /// Checks where a request was sent to and which page sent it. Gives the page's origin, if it
    /// is one that has to be told that it may read the answer.
    pub(crate) fn check_origin<'a>(
        &self,
        headers: &'a HeaderMap,
        uri: &Uri,
    ) -> Result<Option<&'a HeaderValue>, Answer> {
        let host = host(headers, uri).ok_or_else(|| denied("the request does not name a host"))?;
        if !self.hosts.is_empty() && !self.hosts.iter().any(|known| is_name_of(host, known)) {
            return Err(denied(&format!(
                "this server does not answer to the host {host:?}; use localhost, or name the \
                 host when starting the server"
            )));
        }
        let Some(page) = headers.get(ORIGIN) else { return Ok(None) };
        let origin = page.to_str().unwrap_or_default();
        if self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
            return Ok(Some(page));
        }
        if authority_of(origin).is_some_and(|origin| origin.eq_ignore_ascii_case(host)) {
            return Ok(None);
        }
        Err(denied(
            "pages of another origin may not speak to this server, unless it is started with \
             --allow-origin and theirs",
        ))
    }

    /// Whom a request is made for, or why it is refused.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Result<Principal, Answer> {
        match &self.tokens {
            None => Ok(self.local.clone()),
            Some(tokens) => token(headers)
                .and_then(|token| tokens.find(token))
                .ok_or_else(|| unauthorized(headers.contains_key(AUTHORIZATION))),
        }
    }
}

/// The host and port a request was sent to.
fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let named = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = named.or_else(|| uri.authority().map(hyper::http::uri::Authority::as_str))?;
    (!host.is_empty()).then_some(host)
}

/// Whether a host, perhaps with a port, is the one of this name.
fn is_name_of(host: &str, name: &str) -> bool {
    let Some((start, port)) = host.split_at_checked(name.len()) else { return false };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    start.eq_ignore_ascii_case(name)
        && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

/// The host and port of an origin.
fn authority_of(origin: &str) -> Option<&str> {
    origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))
}

fn token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn denied(details: &str) -> Answer {
    refusal(StatusCode::FORBIDDEN, &RpcError::new(ACCESS_DENIED).details(details))
}

fn unauthorized(was_given: bool) -> Answer {
    let (details, challenge) = if was_given {
        ("The token is not known here.", "Bearer error=\"invalid_token\"")
    } else {
        ("This server needs a token: send Authorization: Bearer TOKEN.", "Bearer")
    };
    let error = RpcError::new(ACCESS_DENIED).details(details);
    let mut answer = refusal(StatusCode::UNAUTHORIZED, &error);
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    answer
}

#[cfg(test)]
mod tests {
    use super::Guard;
    use crate::options::Options;
    use hyper::header::{HeaderMap, HeaderName, HeaderValue};
    use hyper::{StatusCode, Uri};

    /// MCP-049: a foreign origin or host is refused, an absent origin is not.
    #[test]
    fn strangers_are_refused() {
        let local = Guard::new(true, &Options::default(), None);
        check(&local, &[("host", "127.0.0.1:4433")], None);
        check(&local, &[("host", "localhost")], None);
        check(&local, &[("host", "LOCALHOST:1")], None);
        check(&local, &[("host", "[::1]:4433")], None);
        check(&local, &[("host", "evil.example")], Some(403));
        check(&local, &[("host", "127.0.0.1.evil.example")], Some(403));
        check(&local, &[("host", "localhost:80.evil.example")], Some(403));
        check(&local, &[], Some(403));
        let origin = |origin| [("host", "localhost:4433"), ("origin", origin)];
        check(&local, &origin("http://localhost:4433"), None);
        check(&local, &origin("http://localhost:1"), Some(403));
        check(&local, &origin("http://evil.example"), Some(403));
        check(&local, &origin("null"), Some(403));
        let open = Guard::new(false, &Options::default(), None);
        check(&open, &[("host", "flow.example")], None);
        let hosts = vec!["Flow.example".to_owned()];
        let named = Guard::new(true, &Options { hosts, ..Options::default() }, None);
        check(&named, &[("host", "flow.example:443")], None);
        check(&named, &[("host", "other.example")], Some(403));
        let origins = vec!["https://app.example".to_owned()];
        let shared = Guard::new(true, &Options { origins, ..Options::default() }, None);
        check(&shared, &origin("https://app.example"), None);
        check(&shared, &origin("http://localhost:4433"), None);
        check(&shared, &origin("http://app.example"), Some(403));
        check(&shared, &origin("https://app.example:444"), Some(403));
        check(&shared, &origin("https://app.example.evil.example"), Some(403));
        check(&shared, &[("host", "evil.example"), ("origin", "https://app.example")], Some(403));
    }

    fn check(guard: &Guard, headers: &[(&str, &str)], refused: Option<u16>) {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| {
                let name: HeaderName = name.parse().unwrap();
                (name, HeaderValue::from_str(value).unwrap())
            })
            .collect();
        let status = guard.check_origin(&headers, &Uri::from_static("/mcp")).err();
        let status = status.map(|answer| answer.status());
        assert_eq!(status.map(|status: StatusCode| status.as_u16()), refused, "{headers:?}");
    }
}
