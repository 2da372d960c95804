//! Authentication of a request by its token and proof of possession, and the challenges that a
//! rejection carries.

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, StatusCode};
use mcp_flow_server::Principal;
use mcp_flow_server::access::{AccessDenied, AccessPolicy, Authenticated, Credentials};
use mcp_flow_server::identity::{ProofRejected, ProofRequirements};
use parking_lot::Mutex;
use subtle::ConstantTimeEq;

use crate::resource_metadata;
use crate::response::{HttpResponse, busy, rejection};

/// Cache of the credential a connection used last and its principal: the next request nearly always
/// repeats it.
#[derive(Debug, Default)]
pub(crate) struct LastCaller(Mutex<Option<(HeaderValue, Principal)>>);

impl LastCaller {
    fn find(&self, access: &AccessPolicy, credential: &HeaderValue) -> Option<Principal> {
        let last = self.0.lock();
        let (known, principal) = last.as_ref()?;
        // A proxy may send requests of several callers over one connection. Comparison in constant
        // time keeps one of them from guessing another's token.
        let is_same = bool::from(known.as_bytes().ct_eq(credential.as_bytes()));
        (is_same && access.is_still_valid(principal)).then(|| principal.clone())
    }

    fn store(&self, credential: &HeaderValue, principal: &Principal) {
        let mut credential = credential.clone();
        credential.set_sensitive(true);
        *self.0.lock() = Some((credential, principal.clone()));
    }
}

/// Addresses of a request as the client knows them.
pub(crate) struct Addresses<'a> {
    /// URL of the request, without its query.
    pub(crate) url: &'a (dyn Fn() -> Option<String> + Sync),
    /// URL of the protected resource metadata.
    pub(crate) metadata: &'a (dyn Fn() -> Option<String> + Sync),
}

/// Authenticates a request: returns its principal, or the rejection with its challenges.
pub(crate) async fn authenticate(
    access: &AccessPolicy,
    method: &Method,
    headers: &HeaderMap,
    last: &LastCaller,
    addresses: &Addresses<'_>,
) -> Result<Authenticated, HttpResponse> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let credential = given.next();
    // With two credentials, a proxy may have checked the other one.
    let is_duplicated = given.next().is_some();
    let single = credential.filter(|_| access.requires_token() && !is_duplicated);
    let authorization = credential.map(|value| value.to_str().unwrap_or_default());
    let credentials = Credentials {
        authorization: if is_duplicated { Some("") } else { authorization },
        proof: single_value(headers, &DPOP),
        method: method.as_str(),
        url: addresses.url,
    };
    let known = single.and_then(|credential| last.find(access, credential));
    let outcome = match known {
        Some(principal) => access.check_possession(principal, &credentials),
        None => access.authenticate(&credentials).await.inspect(|caller| {
            if let Some(credential) = single {
                last.store(credential, &caller.principal);
            }
        }),
    };
    outcome.map_err(|denied| {
        let challenges = challenges(access, &denied, addresses.metadata);
        let mut response = denial(denied);
        if response.status() != StatusCode::SERVICE_UNAVAILABLE {
            for (name, value) in challenges {
                response.headers_mut().append(name, value);
            }
        }
        response
    })
}

/// Adds the nonce for the client's next proof to a response.
pub(crate) fn add_nonce(response: &mut HttpResponse, nonce: Option<String>) {
    if let Some(value) = nonce.and_then(|nonce| HeaderValue::try_from(nonce).ok()) {
        response.headers_mut().insert(DPOP_NONCE, value);
    }
}

/// Returns the value of a header, empty if there are several.
fn single_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().unwrap_or_default();
    Some(if values.next().is_some() { "" } else { first })
}

/// Builds the headers of a 401 or 403 response: a Bearer challenge (RFC 6750, RFC 9728), and one for
/// DPoP (RFC 9449) where bound tokens are accepted, with the nonce if one is required.
fn challenges(
    access: &AccessPolicy,
    denied: &AccessDenied,
    metadata_url: &dyn Fn() -> Option<String>,
) -> Vec<(HeaderName, HeaderValue)> {
    let terms = access.token_requirements();
    let proofs = terms.as_ref().and_then(|terms| terms.proofs.clone());
    let terms = terms.filter(|terms| resource_metadata::is_published(terms));
    let metadata = terms.and_then(|terms| Some((metadata_url()?, terms)));
    let challenge = Challenge {
        error: match denied {
            AccessDenied::Unauthorized(_, true) => Some("invalid_token"),
            AccessDenied::Insufficient(..) => Some("insufficient_scope"),
            AccessDenied::InvalidProof(_, rejected) => Some(rejected.code()),
            _ => None,
        },
        description: match denied {
            AccessDenied::InvalidProof(_, rejected) => Some(rejected.to_string()),
            _ => None,
        },
        scopes: match (denied, &metadata) {
            (AccessDenied::Insufficient(_, scopes), _) => scopes.join(" "),
            (_, Some((_, terms))) => terms.required_scopes.join(" "),
            _ => String::new(),
        },
        resource_metadata: metadata.map(|(url, _)| url),
    };
    let is_about_proof = matches!(denied, AccessDenied::InvalidProof(..));
    let is_required = proofs.as_ref().is_some_and(|proofs| proofs.is_required);
    let mut headers = Vec::new();
    if !is_about_proof && !is_required {
        headers.extend(challenge.header("Bearer", None));
    }
    if let Some(proofs) = &proofs {
        // The error belongs to one of the challenges.
        let error = challenge.error.filter(|_| headers.is_empty());
        headers.extend(Challenge { error, ..challenge }.header("DPoP", Some(proofs)));
        let nonce = match denied {
            AccessDenied::InvalidProof(_, ProofRejected::Nonce(nonce)) => Some(nonce.clone()),
            _ => access.proof_nonce(),
        };
        let nonce = nonce.and_then(|nonce| HeaderValue::try_from(nonce).ok());
        headers.extend(nonce.map(|nonce| (DPOP_NONCE, nonce)));
    }
    headers
}

/// Parameters of a challenge.
struct Challenge {
    error: Option<&'static str>,
    description: Option<String>,
    scopes: String,
    resource_metadata: Option<String>,
}

impl Challenge {
    fn header(
        &self,
        scheme: &str,
        proofs: Option<&ProofRequirements>,
    ) -> Option<(HeaderName, HeaderValue)> {
        let parameters = [
            ("error", self.error.map(str::to_owned)),
            ("error_description", self.description.clone()),
            ("scope", Some(self.scopes.clone()).filter(|scopes| !scopes.is_empty())),
            ("algs", proofs.map(|proofs| proofs.algorithms.join(" "))),
            ("resource_metadata", self.resource_metadata.clone()),
        ];
        let parameters = parameters.into_iter().filter_map(|(name, value)| {
            // Values that would need escaping are left out.
            let value = value.filter(|value| !value.contains(['"', '\\']))?;
            Some(format!("{name}=\"{value}\""))
        });
        let parameters = parameters.collect::<Vec<_>>().join(", ");
        let value = format!("{scheme} {parameters}");
        Some((WWW_AUTHENTICATE, HeaderValue::from_str(value.trim_end()).ok()?))
    }
}

/// Converts a denial of the access policy to a response.
pub(crate) fn denial(denied: AccessDenied) -> HttpResponse {
    match denied {
        AccessDenied::Forbidden(error) | AccessDenied::Insufficient(error, _) => {
            rejection(StatusCode::FORBIDDEN, &error)
        }
        AccessDenied::Unauthorized(error, _) | AccessDenied::InvalidProof(error, _) => {
            rejection(StatusCode::UNAUTHORIZED, &error)
        }
        AccessDenied::Unavailable(error) => busy(&error),
    }
}

/// Header of a proof of possession.
const DPOP: HeaderName = HeaderName::from_static("dpop");

/// Header of the nonce that a proof must contain.
pub(crate) const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
