//! Access policy of transports on the web: host and origin checks, and tokens where required
//! (MCP-049).

use std::sync::Arc;

use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::ACCESS_DENIED;

use crate::identity::{
    Principal, ProofContext, ProofRejected, TokenRejected, TokenRequirements, Verifier,
};

/// The checks every web request passes: host, origin, token, proof of possession.
#[derive(Debug)]
pub struct AccessPolicy {
    /// Accepted values of `Host`; empty accepts all.
    hosts: Vec<String>,
    /// Accepted origins, besides the server's own.
    origins: Vec<String>,
    verifier: Option<Arc<dyn Verifier>>,
    /// The principal of every caller, where no token is required.
    local: Principal,
}

/// The origin of an accepted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOrigin {
    /// No origin, or the server's own.
    Own,
    /// Another origin, which needs CORS headers to read the response.
    Listed,
}

/// The credentials of a request, and what a proof of possession must match.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    /// `Authorization` header; empty if there is more than one.
    pub authorization: Option<&'a str>,
    /// `DPoP` header; empty if there is more than one.
    pub proof: Option<&'a str>,
    /// HTTP method.
    pub method: &'a str,
    /// Computes the URL of the request as the client knows it, without its query.
    pub url: &'a (dyn Fn() -> Option<String> + Sync),
}

/// An accepted request.
#[derive(Clone, Debug)]
pub struct Authenticated {
    /// The caller.
    pub principal: Principal,
    /// Nonce for the client's next proof, if it should change.
    pub next_nonce: Option<String>,
}

/// Rejection of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum AccessDenied {
    /// The host or origin is not accepted.
    Forbidden(RpcError),
    /// The token is missing or invalid; the flag says whether credentials were sent.
    Unauthorized(RpcError, bool),
    /// The token is valid, and the proof of possession of its key is missing or invalid.
    InvalidProof(RpcError, ProofRejected),
    /// The token is valid but lacks these scopes.
    Insufficient(RpcError, Vec<String>),
    /// The token cannot be verified at the moment.
    Unavailable(RpcError),
}

impl AccessPolicy {
    /// A server on a loopback address accepts only the names of its own machine, which prevents DNS
    /// rebinding. Otherwise an empty list of hosts accepts all. Without a verifier every caller is
    /// the principal `local`.
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

    /// Checks `Host`, port included, and `Origin`.
    pub fn check_origin(
        &self,
        host: Option<&str>,
        origin: Option<&str>,
    ) -> Result<RequestOrigin, AccessDenied> {
        let host = host.filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| forbidden("the request does not name a host"))?;
        if !self.hosts.is_empty() && !self.hosts.iter().any(|known| is_name_of(host, known)) {
            return Err(forbidden(&format!(
                "this server does not accept the host {host:?}; use localhost, or allow the \
                 host when starting the server"
            )));
        }
        let Some(origin) = origin else { return Ok(RequestOrigin::Own) };
        if self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
            return Ok(RequestOrigin::Listed);
        }
        if authority_of(origin).is_some_and(|origin| origin.eq_ignore_ascii_case(host)) {
            return Ok(RequestOrigin::Own);
        }
        Err(forbidden(
            "this server does not accept requests from other origins, unless it is started with \
             --allow-origin and theirs",
        ))
    }

    /// Authenticates a request: verifies its token, and that a bound token comes with a proof of
    /// possession of its key.
    pub async fn authenticate(
        &self,
        credentials: &Credentials<'_>,
    ) -> Result<Authenticated, AccessDenied> {
        let Some(verifier) = &self.verifier else {
            return Ok(Authenticated { principal: self.local.clone(), next_nonce: None });
        };
        let Some((_, token)) = credentials.authorization.and_then(token) else {
            let error = denial("This server requires a token: send Authorization: Bearer TOKEN.");
            return Err(AccessDenied::Unauthorized(error, credentials.authorization.is_some()));
        };
        let principal = verifier.verify(token).result().await.map_err(|refused| {
            let error = denial(&refused.to_string());
            match refused {
                TokenRejected::Scope(scopes) => AccessDenied::Insufficient(error, scopes),
                TokenRejected::Unavailable => AccessDenied::Unavailable(error),
                _ => AccessDenied::Unauthorized(error, true),
            }
        })?;
        self.check_possession(principal, credentials)
    }

    /// Checks the proof of possession of a principal whose token was verified before with the same
    /// `Authorization` header. A proof is valid for one request only.
    pub fn check_possession(
        &self,
        principal: Principal,
        credentials: &Credentials<'_>,
    ) -> Result<Authenticated, AccessDenied> {
        match self.verify_proof(&principal, credentials) {
            Ok(next_nonce) => Ok(Authenticated { principal, next_nonce }),
            Err(ProofRejected::Unavailable) => {
                Err(AccessDenied::Unavailable(denial(&ProofRejected::Unavailable.to_string())))
            }
            Err(rejected) => {
                Err(AccessDenied::InvalidProof(denial(&rejected.to_string()), rejected))
            }
        }
    }

    fn verify_proof(
        &self,
        principal: &Principal,
        credentials: &Credentials<'_>,
    ) -> Result<Option<String>, ProofRejected> {
        let Some(verifier) = &self.verifier else { return Ok(None) };
        let presented = credentials.authorization.and_then(token);
        let (scheme, token) = presented.ok_or(ProofRejected::Missing)?;
        let thumbprint = match (scheme, principal.bound_key()) {
            (Scheme::Bearer, None) => return Ok(None),
            (Scheme::Bearer, Some(_)) => return Err(ProofRejected::Downgraded),
            (Scheme::Dpop, None) => return Err(ProofRejected::Unbound),
            (Scheme::Dpop, Some(thumbprint)) => thumbprint,
        };
        let proof = credentials.proof.filter(|proof| !proof.is_empty());
        let proof = proof.ok_or(ProofRejected::Missing)?;
        let url = (credentials.url)().unwrap_or_default();
        let method = credentials.method;
        verifier.verify_proof(proof, &ProofContext { method, url: &url, token, thumbprint })
    }

    /// The nonce that the next proof must contain, if nonces are required.
    pub fn proof_nonce(&self) -> Option<String> {
        self.verifier.as_ref().and_then(|verifier| verifier.proof_nonce())
    }

    /// Returns whether a principal would be accepted again with the same token, without verifying
    /// it.
    pub fn is_still_valid(&self, principal: &Principal) -> bool {
        self.verifier.as_ref().is_some_and(|verifier| verifier.is_still_valid(principal))
    }

    /// Returns whether a token is required.
    pub fn requires_token(&self) -> bool {
        self.verifier.is_some()
    }

    /// The requirements on tokens, where one is required.
    pub fn token_requirements(&self) -> Option<Arc<TokenRequirements>> {
        self.verifier.as_ref().map(|verifier| verifier.requirements())
    }
}

/// Returns whether a host, perhaps with a port, has this name.
fn is_name_of(host: &str, name: &str) -> bool {
    let Some((start, port)) = host.split_at_checked(name.len()) else { return false };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    start.eq_ignore_ascii_case(name)
        && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

/// The authority (host and port) of an origin.
fn authority_of(origin: &str) -> Option<&str> {
    origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))
}

/// Authentication scheme of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Bearer,
    Dpop,
}

fn token(authorization: &str) -> Option<(Scheme, &str)> {
    let (scheme, token) = authorization.split_once(' ')?;
    let token = token.trim();
    // Longer values are not hashed.
    let is_token = !token.is_empty() && token.len() <= MAX_TOKEN_LENGTH;
    let scheme = match scheme {
        scheme if scheme.eq_ignore_ascii_case("bearer") => Scheme::Bearer,
        scheme if scheme.eq_ignore_ascii_case("dpop") => Scheme::Dpop,
        _ => return None,
    };
    is_token.then_some((scheme, token))
}

fn forbidden(details: &str) -> AccessDenied {
    AccessDenied::Forbidden(denial(details))
}

fn denial(details: &str) -> RpcError {
    RpcError::new(ACCESS_DENIED).details(details)
}

const MAX_TOKEN_LENGTH: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::{AccessDenied, AccessPolicy, Credentials, RequestOrigin};
    use crate::identity::{
        Principal, ProofContext, ProofRejected, TokenRejected, Verification, Verifier,
    };
    use std::sync::Arc;

    /// Accepts the token of one principal.
    #[derive(Debug)]
    struct OneToken;

    impl Verifier for OneToken {
        fn verify<'a>(&'a self, token: &'a str) -> Verification<'a> {
            Verification::Now(match token {
                "0123456789abcdef" => Ok(Principal::named("ada")),
                "bound" => Ok(Principal::named("ada").bound_to("key")),
                _ => Err(TokenRejected::Unknown),
            })
        }

        fn verify_proof(
            &self,
            proof: &str,
            request: &ProofContext<'_>,
        ) -> Result<Option<String>, ProofRejected> {
            let signed = [request.method, request.url, request.token, request.thumbprint].join(" ");
            if proof == signed { Ok(Some("next".into())) } else { Err(ProofRejected::Signature) }
        }
    }

    /// MCP-049, WT-068: a foreign origin or host is rejected, an absent origin is not.
    #[test]
    fn foreign_hosts_and_origins_are_rejected() {
        let local = AccessPolicy::new(true, vec![], vec![], None);
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
        let open = AccessPolicy::new(false, vec![], vec![], None);
        assert_eq!(open.check_origin(Some("flow.example"), None), Ok(RequestOrigin::Own));
        let named = AccessPolicy::new(true, vec!["Flow.example".into()], vec![], None);
        assert!(named.check_origin(Some("flow.example:443"), None).is_ok());
        assert!(named.check_origin(Some("other.example"), None).is_err());
    }

    /// MCP-049: only the origins listed are accepted besides the server's own.
    #[test]
    fn only_listed_origins_are_accepted() {
        let policy = AccessPolicy::new(true, vec![], vec!["https://app.example".into()], None);
        let host = "localhost:4433";
        for (host, origin, page) in [
            (host, "https://app.example", Some(RequestOrigin::Listed)),
            (host, "http://localhost:4433", Some(RequestOrigin::Own)),
            (host, "http://app.example", None),
            (host, "https://app.example:444", None),
            (host, "https://app.example.evil.example", None),
            ("evil.example", "https://app.example", None),
        ] {
            assert_eq!(policy.check_origin(Some(host), Some(origin)).ok(), page, "{origin}");
        }
    }

    /// C-46, C-53: where tokens are required, only a valid one authenticates.
    #[tokio::test]
    async fn only_a_valid_token_authenticates() {
        let policy = AccessPolicy::new(true, vec![], vec![], Some(Arc::new(OneToken)));
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
            let credentials = presented(authorization, None);
            let caller = policy.authenticate(&credentials).await.map_err(|denied| match denied {
                AccessDenied::Unauthorized(_, was_given) => was_given,
                other => panic!("unexpected rejection: {other:?}"),
            });
            let principal = caller.as_ref().map(|caller| caller.principal.name());
            assert_eq!(principal.map_err(|was_given| *was_given), name, "{authorization:?}");
        }
    }

    /// A bound token is accepted with the DPoP scheme and its proof only.
    #[tokio::test]
    async fn bound_tokens_need_a_proof() {
        let policy = AccessPolicy::new(true, vec![], vec![], Some(Arc::new(OneToken)));
        let proof = Some("POST https://flow.example/mcp bound key");
        for (authorization, proof, expected) in [
            ("DPoP bound", proof, Ok(Some("next"))),
            ("dpop bound", proof, Ok(Some("next"))),
            ("Bearer 0123456789abcdef", None, Ok(None)),
            ("Bearer 0123456789abcdef", proof, Ok(None)),
            ("Bearer bound", proof, Err(ProofRejected::Downgraded)),
            ("Bearer bound", None, Err(ProofRejected::Downgraded)),
            ("DPoP 0123456789abcdef", proof, Err(ProofRejected::Unbound)),
            ("DPoP bound", None, Err(ProofRejected::Missing)),
            ("DPoP bound", Some(""), Err(ProofRejected::Missing)),
            ("DPoP bound", Some("other"), Err(ProofRejected::Signature)),
        ] {
            let credentials = presented(Some(authorization), proof);
            let caller = policy.authenticate(&credentials).await;
            let found = match &caller {
                Ok(caller) => Ok(caller.next_nonce.as_deref()),
                Err(AccessDenied::InvalidProof(_, rejected)) => Err(rejected.clone()),
                Err(other) => panic!("unexpected rejection: {other:?}"),
            };
            assert_eq!(found, expected, "{authorization} {proof:?}");
        }
    }

    fn presented<'a>(authorization: Option<&'a str>, proof: Option<&'a str>) -> Credentials<'a> {
        let url = &|| Some("https://flow.example/mcp".to_owned());
        Credentials { authorization, proof, method: "POST", url }
    }
}
