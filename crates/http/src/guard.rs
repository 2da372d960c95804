//! Who is let in, as an answer to those who are not. The rules are those of [`Guard`].

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use hyper::{StatusCode, Uri};
use mcp_flow_server::Principal;
use mcp_flow_server::guard::{Denied, Guard, Page};

use crate::answer::{Answer, refusal};

/// Checks where a request was sent to and which page sent it. Gives the page's origin, if it is one
/// that has to be told that it may read the answer.
pub(crate) fn check_origin<'a>(
    guard: &Guard,
    headers: &'a HeaderMap,
    uri: &Uri,
) -> Result<Option<&'a HeaderValue>, Answer> {
    let named = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = named.or_else(|| uri.authority().map(hyper::http::uri::Authority::as_str));
    let page = headers.get(ORIGIN);
    let origin = page.map(|page| page.to_str().unwrap_or_default());
    match guard.check_origin(host, origin) {
        Ok(Page::Own) => Ok(None),
        Ok(Page::Listed) => Ok(page),
        Err(denied) => Err(answer(denied)),
    }
}

/// Whom a request is made for, or why it is refused.
pub(crate) fn admit(guard: &Guard, headers: &HeaderMap) -> Result<Principal, Answer> {
    let authorization = headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap_or_default());
    guard.admit(authorization).map_err(answer)
}

fn answer(denied: Denied) -> Answer {
    match denied {
        Denied::Forbidden(error) => refusal(StatusCode::FORBIDDEN, &error),
        Denied::Unauthorized(error, was_given) => {
            let challenge = if was_given { "Bearer error=\"invalid_token\"" } else { "Bearer" };
            let mut answer = refusal(StatusCode::UNAUTHORIZED, &error);
            let headers = answer.headers_mut();
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
            answer
        }
    }
}
