//! Who is let in by transports on the web: the right host, no foreign page, and whoever has a token
//! where one is needed (MCP-049).

use std::sync::Arc;

use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::ACCESS_DENIED;

use crate::identity::{Principal, Refused, Terms, Verifier};

/// What every client on the web has to pass.
#[derive(Debug)]
pub struct Guard {
    /// Host names answered to; empty means all.
    hosts: Vec<String>,
    /// Origins of pages let in, besides those that the server itself might have served.
    origins: Vec<String>,
    verifier: Option<Arc<dyn Verifier>>,
    /// Everyone, where no token is asked for.
    local: Principal,
}

/// Where a request comes from that is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// No page at all, or one the server might have served.
    Own,
    /// A page of another origin, which has to be told that it may read the answer.
    Listed,
}

/// Why a client is not let in.
#[derive(Clone, Debug, PartialEq)]
pub enum Denied {
    /// It comes from where it may not, whoever it is.
    Forbidden(RpcError),
    /// It does not say who it is; whether it has tried to.
    Unauthorized(RpcError, bool),
    /// It has said who it is, but its token lacks these scopes.
    Insufficient(RpcError, Vec<String>),
    /// Who it is cannot be found out at the moment.
    Unavailable(RpcError),
}

impl Guard {
    /// A server on a loopback address answers to its own machine's names only, so that a name
    /// someone else controls cannot be made to point at it (DNS rebinding). No hosts otherwise
    /// means all. Without a verifier everyone is `local`.
    pub fn new(
        is_loopback: bool,
        mut hosts: Vec<String>,
        origins: Vec<String>,
        verifier: Option<Arc<dyn Verifier>>,
    ) -> Self {
        if is_loopback {
            hosts.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
        }
        Self { hosts, origins, verifier, local: Principal::local() }
    }

    /// Checks which host a request was sent to, port included, and which page sent it.
    pub fn check_origin(&self, host: Option<&str>, origin: Option<&str>) -> Result<Page, Denied> {
        let host = host.filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| forbidden("the request does not name a host"))?;
        if !self.hosts.is_empty() && !self.hosts.iter().any(|known| is_name_of(host, known)) {
            return Err(forbidden(&format!(
                "this server does not answer to the host {host:?}; use localhost, or name the \
                 host when starting the server"
            )));
        }
        let Some(origin) = origin else { return Ok(Page::Own) };
        if self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
            return Ok(Page::Listed);
        }
        if authority_of(origin).is_some_and(|origin| origin.eq_ignore_ascii_case(host)) {
            return Ok(Page::Own);
        }
        Err(forbidden(
            "pages of another origin may not speak to this server, unless it is started with \
             --allow-origin and theirs",
        ))
    }

    /// Whom a request is made for, by the value of its header `Authorization`.
    pub async fn admit(&self, authorization: Option<&str>) -> Result<Principal, Denied> {
        let Some(verifier) = &self.verifier else { return Ok(self.local.clone()) };
        let Some(token) = authorization.and_then(token) else {
            let error = denial("This server needs a token: send Authorization: Bearer TOKEN.");
            return Err(Denied::Unauthorized(error, authorization.is_some()));
        };
        verifier.verify(token).verdict().await.map_err(|refused| {
            let error = denial(&refused.to_string());
            match refused {
                Refused::Scope(scopes) => Denied::Insufficient(error, scopes),
                Refused::Unavailable => Denied::Unavailable(error),
                _ => Denied::Unauthorized(error, true),
            }
        })
    }

    /// Whether whoever was let in by a token is let in by the same again, without asking.
    pub fn still_stands(&self, principal: &Principal) -> bool {
        self.verifier.as_ref().is_some_and(|verifier| verifier.still_stands(principal))
    }

    /// Whether a token is asked for.
    pub fn asks(&self) -> bool {
        self.verifier.is_some()
    }

    /// How one gets a token, where one is asked for.
    pub fn terms(&self) -> Option<Arc<Terms>> {
        self.verifier.as_ref().map(|verifier| verifier.terms())
    }
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

fn token(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    let token = token.trim();
    // A token past this length is no token of anyone's, and not worth a hash.
    let is_token = !token.is_empty() && token.len() <= LONGEST_TOKEN;
    (scheme.eq_ignore_ascii_case("bearer") && is_token).then_some(token)
}

fn forbidden(details: &str) -> Denied {
    Denied::Forbidden(denial(details))
}

fn denial(details: &str) -> RpcError {
    RpcError::new(ACCESS_DENIED).details(details)
}

const LONGEST_TOKEN: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::{Denied, Guard, Page};

    /// MCP-049, WT-068: a foreign origin or host is refused, an absent origin is not.
    #[test]
    fn strangers_are_refused() {
        let local = Guard::new(true, vec![], vec![], None);
        for (host, origin, passes) in [
            (Some("127.0.0.1:4433"), None, true),
            (Some("localhost"), None, true),
            (Some("LOCALHOST:1"), None, true),
            (Some("[::1]:4433"), None, true),
            (Some("evil.example"), None, false),
            (Some("127.0.0.1.evil.example"), None, false),
            (Some("localhost:80.evil.example"), None, false),
            (Some(""), None, false),
            (None, None, false),
            (Some("localhost:4433"), Some("http://localhost:4433"), true),
            (Some("localhost:4433"), Some("https://localhost:4433"), true),
            (Some("localhost:4433"), Some("http://localhost:1"), false),
            (Some("localhost:4433"), Some("http://evil.example"), false),
            (Some("localhost:4433"), Some("null"), false),
            (Some("localhost:4433"), Some(""), false),
        ] {
            assert_eq!(local.check_origin(host, origin).is_ok(), passes, "{host:?} {origin:?}");
        }
        let open = Guard::new(false, vec![], vec![], None);
        assert_eq!(open.check_origin(Some("flow.example"), None), Ok(Page::Own));
        let named = Guard::new(true, vec!["Flow.example".into()], vec![], None);
        assert!(named.check_origin(Some("flow.example:443"), None).is_ok());
        assert!(named.check_origin(Some("other.example"), None).is_err());
    }

    /// MCP-049: other origins are let in by name, and only those.
    #[test]
    fn listed_origins_are_let_in() {
        let guard = Guard::new(true, vec![], vec!["https://app.example".into()], None);
        let host = "localhost:4433";
        for (host, origin, page) in [
            (host, "https://app.example", Some(Page::Listed)),
            (host, "http://localhost:4433", Some(Page::Own)),
            (host, "http://app.example", None),
            (host, "https://app.example:444", None),
            (host, "https://app.example.evil.example", None),
            ("evil.example", "https://app.example", None),
        ] {
            assert_eq!(guard.check_origin(Some(host), Some(origin)).ok(), page, "{origin}");
        }
    }

    /// C-46, C-53: where tokens are asked for, only those who have one come in.
    #[tokio::test]
    async fn a_token_opens_the_door() {
        let tokens: crate::Tokens = "ada:0123456789abcdef".parse().unwrap();
        let guard = Guard::new(true, vec![], vec![], Some(std::sync::Arc::new(tokens)));
        for (authorization, name) in [
            (Some("Bearer 0123456789abcdef"), Ok("ada")),
            (Some("bearer  0123456789abcdef "), Ok("ada")),
            (Some("Basic 0123456789abcdef"), Err(true)),
            (Some("Bearer 0123456789abcdee"), Err(true)),
            (Some("0123456789abcdef"), Err(true)),
            (Some("Bearer "), Err(true)),
            (Some("Bearer"), Err(true)),
            (None, Err(false)),
        ] {
            let admitted = guard.admit(authorization).await.map_err(|denied| match denied {
                Denied::Unauthorized(_, was_given) => was_given,
                other => panic!("nobody is refused for anything else: {other:?}"),
            });
            let admitted = admitted.as_ref().map(crate::Principal::name);
            assert_eq!(admitted.map_err(|was_given| *was_given), name, "{authorization:?}");
        }
    }
}
