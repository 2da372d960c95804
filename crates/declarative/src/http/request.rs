//! Requests from templates, each value encoded for its place.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::Request;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use mcp_flow_server::tool::Failure;
use percent_encoding::{AsciiSet, utf8_percent_encode};

use super::Attempt;
use super::filling::{Filling, items_of};
use crate::model::{HeaderTemplate, HttpAction};
use crate::secret::{COMPONENT, Secret};
use crate::template::{Template, Variables};

/// A request that can be sent repeatedly.
#[derive(Debug)]
pub(super) struct PreparedRequest {
    pub(super) url: String,
    headers: HeaderMap,
    body: Bytes,
    /// Secrets in it.
    pub(super) secrets: Vec<Secret>,
}

/// Fills in the request of a call. Values that cannot be sent are rejected.
pub(super) fn prepare(
    http: &HttpAction,
    variables: &Variables,
) -> Result<PreparedRequest, Failure> {
    let refused = |message: String| Failure::new("INVALID_ARGUMENT", message);
    let unavailable = |message: String| Failure::new("UNAVAILABLE", message);
    let mut secrets = Vec::new();
    let mut url = http.origin.origin().ascii_serialization();
    for segment in &http.path {
        url.push('/');
        url.push_str(&fill_segment(segment, variables).map_err(refused)?);
    }
    if http.path.is_empty() {
        url.push('/');
    }
    let filling = Filling { variables, lists: http.lists };
    let query = filling.parameters(&http.query, &mut secrets)?;
    if !query.is_empty() {
        url.push('?');
        url.push_str(&query);
    }
    let mut headers = HeaderMap::new();
    for (name, template) in &http.headers {
        let value = match template {
            HeaderTemplate::Secret { prefix, source } => {
                let secret = source.read().map_err(unavailable)?;
                let value = sensitive(&format!("{prefix}{}", secret.expose()));
                secrets.push(secret);
                let invalid = || unavailable(format!("the secret {source} cannot be in a header"));
                value.ok_or_else(invalid)?
            }
            HeaderTemplate::Text(template) => {
                let filled = template.render_with(variables, |variable, value, text| {
                    let items = items_of(variable, value, true).map_err(refused)?;
                    text.push_str(&items.join(","));
                    Ok::<_, Failure>(())
                })?;
                let Some(text) = filled else { continue };
                HeaderValue::from_str(&text).map_err(|_| {
                    let named: Vec<_> = template.variables().collect();
                    let message = format!(
                        "`{}` cannot be in the header {name}: it has line breaks or other control \
                         characters",
                        named.join("`, `")
                    );
                    refused(message)
                })?
            }
        };
        headers.append(name.clone(), value);
    }
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json, */*;q=0.5"));
    let body = match &http.body {
        Some(body) => filling.body(body, &mut secrets, &mut headers)?.into(),
        None => Bytes::new(),
    };
    Ok(PreparedRequest { url, headers, body, secrets })
}

impl PreparedRequest {
    /// Builds the request of an attempt.
    pub(super) fn request(&self, attempt: &Attempt<'_>) -> Result<Request<Bytes>, String> {
        let body = if attempt.has_body { self.body.clone() } else { Bytes::new() };
        let mut request = Request::builder()
            .method(attempt.method)
            .uri(attempt.url)
            .body(body)
            .map_err(|error| error.to_string())?;
        request.headers_mut().extend(self.headers.clone());
        if !attempt.has_body {
            request.headers_mut().remove(CONTENT_TYPE);
        }
        if let Some(authorization) = attempt.authorization {
            let value = sensitive(authorization.expose());
            let value = value.ok_or("the credentials cannot be in a header")?;
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        Ok(request)
    }
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Fills in a segment of a path. A value cannot become another segment.
fn fill_segment(template: &Template, variables: &Variables) -> Result<String, String> {
    // Literal parts are the author's, who may have encoded them.
    if let Some(literal) = template.literal() {
        return Ok(utf8_percent_encode(literal, LITERAL).to_string());
    }
    let filled = template.render_with(variables, |name, value, text| {
        let items = items_of(name, value, false)?;
        let is_dots = |part: &str| matches!(part.trim(), "." | "..");
        let is_bad = |item: &Cow<'_, str>| item.is_empty() || item.split(['/', '\\']).any(is_dots);
        if items.is_empty() || items.iter().any(is_bad) {
            return Err(format!(
                "`{name}` must not be empty and must not contain `.` or `..` segments"
            ));
        }
        for (index, item) in items.iter().enumerate() {
            if item.contains('\0') {
                return Err(format!("`{name}` contains NUL"));
            }
            text.push_str(if index > 0 { "," } else { "" });
            text.extend(utf8_percent_encode(item, COMPONENT));
        }
        Ok(())
    })?;
    let Some(segment) = filled else {
        let names: Vec<_> = template.variables().collect();
        return Err(format!("`{}` is required", names.join("`, `")));
    };
    match segment.as_str() {
        "." | ".." => Err("the path must not have the segments . and ..".to_owned()),
        _ => Ok(segment),
    }
}

/// Everything but the unreserved characters of RFC 3986, and what an author may write in a path.
const LITERAL: &AsciiSet = &COMPONENT
    .remove(b'%')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');
