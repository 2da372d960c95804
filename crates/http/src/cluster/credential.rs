//! Authentication of requests between nodes: a sealed header that only holders of the shared keys
//! can make. It names the receiver, the principal that the sender has authenticated, and the whole
//! request, expires after a minute, and is accepted once.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::header::{HeaderMap, HeaderName, HeaderValue, RANGE};
use hyper::{Method, StatusCode, Uri};
use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::ACCESS_DENIED;
use mcp_flow_seal::{KeyRing, Seal, digest};
use mcp_flow_server::Principal;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::response::{HttpResponse, rejection};

/// Header of a request from another node.
pub(crate) const NODE: HeaderName = HeaderName::from_static("mcp-flow-node");

/// Content of the header.
#[derive(Debug, Deserialize, Serialize)]
struct Credential {
    /// Epoch of the receiver.
    to: u64,
    principal: String,
    scopes: Vec<String>,
    /// Expiry of the principal's credential, in seconds since the Unix epoch.
    expires: Option<u64>,
    /// SHA-256 of the body.
    body: [u8; 32],
}

/// A request that another node has forwarded, after its credential was verified.
#[derive(Clone, Debug)]
pub(crate) struct ForwardedRequest {
    pub(crate) principal: Principal,
    body: [u8; 32],
}

impl ForwardedRequest {
    /// Rejects another body than the one that was forwarded.
    pub(crate) fn reject_other_body(&self, body: &[u8]) -> Option<HttpResponse> {
        (digest(&[body]) != self.body).then(|| {
            let details = "This body was not forwarded by a node.";
            rejection(StatusCode::FORBIDDEN, &RpcError::new(ACCESS_DENIED).details(details))
        })
    }
}

/// Reason a request from another node is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The header was not made with the shared keys for this request, has expired, or was used.
    Forged,
    /// The request is for another node, perhaps one that had this address before.
    Misdirected,
}

/// Makes the header of a request to another node.
pub(crate) fn seal(
    keys: &KeyRing,
    to: u64,
    principal: &Principal,
    (method, uri, headers, body): (&Method, &Uri, &HeaderMap, &[u8]),
) -> Option<HeaderValue> {
    let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok().map(|at| at.as_secs());
    let credential = Credential {
        to,
        principal: principal.name().to_owned(),
        scopes: principal.scopes().map(str::to_owned).collect(),
        expires: principal.expires().and_then(seconds),
        body: digest(&[body]),
    };
    let content = serde_json::to_vec(&credential).ok()?;
    let mut random = [0; 24];
    getrandom::fill(&mut random).ok()?;
    let bound_to = request_digest(method, uri, headers);
    let seal = Seal { purpose: PURPOSE, bound_to: &bound_to };
    let expires = seconds(SystemTime::now())? + LIFETIME.as_secs();
    HeaderValue::from_str(&keys.seal(seal, Some(expires), &content, random)).ok()
}

/// Verifies headers of other nodes, each once.
#[derive(Debug, Default)]
pub(crate) struct CredentialVerifier {
    /// Digests of accepted headers, with the time at which they expire.
    seen: Mutex<HashMap<[u8; 32], u64>>,
}

impl CredentialVerifier {
    /// Verifies the header of a request to this node.
    pub(crate) fn verify(
        &self,
        keys: &KeyRing,
        epoch: Option<u64>,
        (method, uri, headers): (&Method, &Uri, &HeaderMap),
    ) -> Result<ForwardedRequest, Refused> {
        let text = headers.get(NODE).and_then(|header| header.to_str().ok());
        let text = text.ok_or(Refused::Forged)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let bound_to = request_digest(method, uri, headers);
        let seal = Seal { purpose: PURPOSE, bound_to: &bound_to };
        let content = keys.open(seal, now, text).map_err(|_| Refused::Forged)?;
        let credential: Credential =
            serde_json::from_slice(&content).map_err(|_| Refused::Forged)?;
        if Some(credential.to) != epoch {
            return Err(Refused::Misdirected);
        }
        if !self.is_first(digest(&[text.as_bytes()]), now) {
            return Err(Refused::Forged);
        }
        let Credential { principal, scopes, expires, body, .. } = credential;
        let principal = Principal::named(&principal).scoped(scopes);
        let principal = match expires {
            Some(seconds) => principal.until(UNIX_EPOCH + Duration::from_secs(seconds)),
            None => principal,
        };
        Ok(ForwardedRequest { principal, body })
    }

    /// Returns whether a header was not seen before, and remembers it until it expires.
    fn is_first(&self, header: [u8; 32], now: u64) -> bool {
        let mut seen = self.seen.lock();
        if seen.len() >= SWEPT {
            seen.retain(|_, expires| *expires > now);
        }
        seen.insert(header, now + LIFETIME.as_secs() + 1).is_none()
    }
}

/// Digest of what the credential is bound to besides the body.
fn request_digest(method: &Method, uri: &Uri, headers: &HeaderMap) -> [u8; 32] {
    let target = uri.path_and_query().map_or("", |target| target.as_str());
    let mut parts = vec![method.as_str().as_bytes(), target.as_bytes()];
    for name in BOUND {
        parts.push(headers.get(name).map_or(b"", |value| value.as_bytes()));
    }
    digest(&parts)
}

/// Headers that change the meaning of a request.
const BOUND: [HeaderName; 4] = [
    HeaderName::from_static("mcp-session-id"),
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("last-event-id"),
    RANGE,
];

const PURPOSE: &str = "node request";

/// Time for which a header is valid: more than clocks of nodes differ.
const LIFETIME: Duration = Duration::from_secs(60);

/// Number of remembered headers from which expired ones are removed.
const SWEPT: usize = 4096;

#[cfg(test)]
mod tests {
    use super::{CredentialVerifier, NODE, Refused, seal};
    use hyper::{HeaderMap, Method, Uri};
    use mcp_flow_seal::{Key, KeyRing};
    use mcp_flow_server::Principal;

    /// A header is valid for one receiver, one request and one use, and only with the shared keys.
    #[test]
    fn forged_and_replayed_headers_are_refused() {
        let keys = |byte| KeyRing::new(Key::from_bytes([byte; 32]));
        let uri: Uri = "/mcp".parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("mcp-session-id", "3.x".parse().unwrap());
        let ada = Principal::named("ada").scoped(["read"]);
        let request = (&Method::POST, &uri, &headers.clone(), b"body".as_slice());
        let header = seal(&keys(1), 3, &ada, request).unwrap();
        headers.insert(NODE, header.clone());
        let verifier = CredentialVerifier::default();
        let verify = |byte, epoch, method, path: &str, headers: &HeaderMap| {
            let uri = path.parse().unwrap();
            verifier.verify(&keys(byte), epoch, (&method, &uri, headers))
        };
        let mut other_session = headers.clone();
        other_session.insert("mcp-session-id", "3.y".parse().unwrap());
        let mut made_up = headers.clone();
        made_up.insert(NODE, "bm90IGEgY3JlZGVudGlhbA".parse().unwrap());
        for (byte, epoch, method, path, headers, refused) in [
            (2, Some(3), Method::POST, "/mcp", &headers, Refused::Forged),
            (1, Some(4), Method::POST, "/mcp", &headers, Refused::Misdirected),
            (1, None, Method::POST, "/mcp", &headers, Refused::Misdirected),
            (1, Some(3), Method::DELETE, "/mcp", &headers, Refused::Forged),
            (1, Some(3), Method::POST, "/download/1", &headers, Refused::Forged),
            (1, Some(3), Method::POST, "/mcp", &other_session, Refused::Forged),
            (1, Some(3), Method::POST, "/mcp", &made_up, Refused::Forged),
            (1, Some(3), Method::POST, "/mcp", &HeaderMap::new(), Refused::Forged),
        ] {
            let found = verify(byte, epoch, method, path, headers).unwrap_err();
            assert_eq!(found, refused, "{byte} {epoch:?} {path}");
        }
        let forwarded = verify(1, Some(3), Method::POST, "/mcp", &headers).unwrap();
        assert_eq!(forwarded.principal, ada);
        assert!(forwarded.principal.has_scope("read"));
        assert!(forwarded.reject_other_body(b"body").is_none());
        assert!(forwarded.reject_other_body(b"another").is_some());
        let replayed = verify(1, Some(3), Method::POST, "/mcp", &headers).unwrap_err();
        assert_eq!(replayed, Refused::Forged);
    }
}
