//! Who is let in, as an answer to those who are not. The rules are those of [`AccessPolicy`].

use std::sync::{Mutex, PoisonError};

use hyper::header::{
    AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, WWW_AUTHENTICATE,
};
use hyper::{StatusCode, Uri};
use mcp_flow_server::Principal;
use mcp_flow_server::access::{AccessDenied, AccessPolicy, RequestOrigin};
use subtle::ConstantTimeEq;

use crate::answer::{Answer, busy, refusal};
use crate::metadata;

/// Checks where a request was sent to and which page sent it. Gives the page's origin, if it is one
/// that has to be told that it may read the answer.
pub(crate) fn check_origin<'a>(
    guard: &AccessPolicy,
    headers: &'a HeaderMap,
    uri: &Uri,
) -> Result<Option<&'a HeaderValue>, Answer> {
    let named = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = named.or_else(|| uri.authority().map(hyper::http::uri::Authority::as_str));
    let page = headers.get(ORIGIN);
    let origin = page.map(|page| page.to_str().unwrap_or_default());
    match guard.check_origin(host, origin) {
        Ok(RequestOrigin::Own) => Ok(None),
        Ok(RequestOrigin::Listed) => Ok(page),
        Err(denied) => Err(answer(denied)),
    }
}

/// Who came last by a connection, and with which credential: nearly always the next one, too.
#[derive(Debug, Default)]
pub(crate) struct LastCaller(Mutex<Option<(HeaderValue, Principal)>>);

impl LastCaller {
    fn recall(&self, guard: &AccessPolicy, credential: &HeaderValue) -> Option<Principal> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, principal) = last.as_ref()?;
        // A proxy may bring several callers by one connection; none learns another's token.
        let is_same = bool::from(known.as_bytes().ct_eq(credential.as_bytes()));
        (is_same && guard.is_still_valid(principal)).then(|| principal.clone())
    }

    fn note(&self, credential: &HeaderValue, principal: &Principal) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut credential = credential.clone();
        credential.set_sensitive(true);
        *last = Some((credential, principal.clone()));
    }
}

/// Whom a request is made for, or why it is refused. `metadata` is where the client learns who
/// gives out tokens.
pub(crate) async fn admit(
    guard: &AccessPolicy,
    headers: &HeaderMap,
    last: &LastCaller,
    metadata: impl FnOnce() -> Option<String>,
) -> Result<Principal, Answer> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let credential = given.next();
    // Of two, somebody on the way may have looked at the other.
    let is_doubled = given.next().is_some();
    let single = credential.filter(|_| guard.requires_token() && !is_doubled);
    if let Some(principal) = single.and_then(|credential| last.recall(guard, credential)) {
        return Ok(principal);
    }
    let authorization = credential.map(|value| value.to_str().unwrap_or_default());
    match guard.authenticate(if is_doubled { Some("") } else { authorization }).await {
        Ok(principal) => {
            if let Some(credential) = single {
                last.note(credential, &principal);
            }
            Ok(principal)
        }
        Err(denied) => {
            let terms = guard.token_requirements().filter(|terms| metadata::is_offered(terms));
            let metadata = terms.and_then(|terms| Some((metadata()?, terms)));
            let challenge = Challenge {
                error: match &denied {
                    AccessDenied::Unauthorized(_, true) => Some("invalid_token"),
                    AccessDenied::Insufficient(..) => Some("insufficient_scope"),
                    _ => None,
                },
                scopes: match (&denied, &metadata) {
                    (AccessDenied::Insufficient(_, scopes), _) => scopes.join(" "),
                    (_, Some((_, terms))) => terms.required_scopes.join(" "),
                    _ => String::new(),
                },
                metadata: metadata.map(|(url, _)| url),
            };
            let mut refusal = answer(denied);
            if refusal.status() != StatusCode::SERVICE_UNAVAILABLE {
                refusal.headers_mut().extend(challenge.header());
            }
            Err(refusal)
        }
    }
}

/// What a client is told that is not let in for want of a token (RFC 6750, RFC 9728).
struct Challenge {
    error: Option<&'static str>,
    scopes: String,
    metadata: Option<String>,
}

impl Challenge {
    fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        let error = self.error.map(str::to_owned);
        let scopes = Some(self.scopes.clone()).filter(|scopes| !scopes.is_empty());
        let named =
            [("error", error), ("scope", scopes), ("resource_metadata", self.metadata.clone())];
        let told = named.into_iter().filter_map(|(name, value)| {
            // A value that would need to be escaped is none we give out.
            let value = value.filter(|value| !value.contains(['"', '\\']))?;
            Some(format!("{name}=\"{value}\""))
        });
        let told = told.collect::<Vec<_>>().join(", ");
        let value = format!("Bearer {told}");
        Some((WWW_AUTHENTICATE, HeaderValue::from_str(value.trim_end()).ok()?))
    }
}

fn answer(denied: AccessDenied) -> Answer {
    match denied {
        AccessDenied::Forbidden(error) | AccessDenied::Insufficient(error, _) => {
            refusal(StatusCode::FORBIDDEN, &error)
        }
        AccessDenied::Unauthorized(error, _) => refusal(StatusCode::UNAUTHORIZED, &error),
        AccessDenied::Unavailable(error) => busy(&error),
    }
}
