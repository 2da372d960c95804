//! Authentication of a request by its bearer token, and the challenge that a rejection carries.

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use mcp_flow_server::Principal;
use mcp_flow_server::access::{AccessDenied, AccessPolicy};
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

/// Authenticates a request: returns its principal, or the rejection with its challenge.
///
/// `metadata_url` gives the address of the protected resource metadata.
pub(crate) async fn authenticate(
    access: &AccessPolicy,
    headers: &HeaderMap,
    last: &LastCaller,
    metadata_url: impl FnOnce() -> Option<String>,
) -> Result<Principal, HttpResponse> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let credential = given.next();
    // With two credentials, a proxy may have checked the other one.
    let is_duplicated = given.next().is_some();
    let single = credential.filter(|_| access.requires_token() && !is_duplicated);
    if let Some(principal) = single.and_then(|credential| last.find(access, credential)) {
        return Ok(principal);
    }
    let authorization = credential.map(|value| value.to_str().unwrap_or_default());
    match access.authenticate(if is_duplicated { Some("") } else { authorization }).await {
        Ok(principal) => {
            if let Some(credential) = single {
                last.store(credential, &principal);
            }
            Ok(principal)
        }
        Err(denied) => {
            let challenge = Challenge::new(access, &denied, metadata_url);
            let mut response = denial(denied);
            if response.status() != StatusCode::SERVICE_UNAVAILABLE {
                response.headers_mut().extend(challenge.header());
            }
            Err(response)
        }
    }
}

/// Bearer challenge of a 401 or 403 response (RFC 6750, RFC 9728).
struct Challenge {
    error: Option<&'static str>,
    scopes: String,
    resource_metadata: Option<String>,
}

impl Challenge {
    fn new(
        access: &AccessPolicy,
        denied: &AccessDenied,
        metadata_url: impl FnOnce() -> Option<String>,
    ) -> Self {
        let terms =
            access.token_requirements().filter(|terms| resource_metadata::is_published(terms));
        let metadata = terms.and_then(|terms| Some((metadata_url()?, terms)));
        Self {
            error: match denied {
                AccessDenied::Unauthorized(_, true) => Some("invalid_token"),
                AccessDenied::Insufficient(..) => Some("insufficient_scope"),
                _ => None,
            },
            scopes: match (denied, &metadata) {
                (AccessDenied::Insufficient(_, scopes), _) => scopes.join(" "),
                (_, Some((_, terms))) => terms.required_scopes.join(" "),
                _ => String::new(),
            },
            resource_metadata: metadata.map(|(url, _)| url),
        }
    }

    fn header(self) -> Option<(HeaderName, HeaderValue)> {
        let error = self.error.map(str::to_owned);
        let scopes = Some(self.scopes).filter(|scopes| !scopes.is_empty());
        let parameters =
            [("error", error), ("scope", scopes), ("resource_metadata", self.resource_metadata)];
        let parameters = parameters.into_iter().filter_map(|(name, value)| {
            // Values that would need escaping are left out.
            let value = value.filter(|value| !value.contains(['"', '\\']))?;
            Some(format!("{name}=\"{value}\""))
        });
        let parameters = parameters.collect::<Vec<_>>().join(", ");
        let value = format!("Bearer {parameters}");
        Some((WWW_AUTHENTICATE, HeaderValue::from_str(value.trim_end()).ok()?))
    }
}

/// Converts a denial of the access policy to a response.
pub(crate) fn denial(denied: AccessDenied) -> HttpResponse {
    match denied {
        AccessDenied::Forbidden(error) | AccessDenied::Insufficient(error, _) => {
            rejection(StatusCode::FORBIDDEN, &error)
        }
        AccessDenied::Unauthorized(error, _) => rejection(StatusCode::UNAUTHORIZED, &error),
        AccessDenied::Unavailable(error) => busy(&error),
    }
}
