//! Requests from templates, each value encoded for its place.

use bytes::Bytes;
use hyper::Request;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use mcp_flow_server::tool::Failure;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::Attempt;
use crate::model::{BodyEncoding, BodyTemplate, HeaderTemplate, HttpAction, QueryValue};
use crate::secret::Secret;
use crate::template::{Template, Variables, shown};

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
    let mut query = Serializer::new(String::new());
    for (name, value) in &http.query {
        let name = name.text(variables);
        match value {
            QueryValue::Secret(source) => {
                let secret = source.read().map_err(unavailable)?;
                query.append_pair(&name, secret.expose());
                secrets.push(secret);
            }
            QueryValue::Value(value) => {
                if let Some(value) = value.render(variables) {
                    append(&mut query, &name, &value, Lists::Repeated);
                }
            }
            QueryValue::Joined(value) => match value.render(variables) {
                Some(Value::Array(items)) => {
                    let items: Vec<_> = items.iter().map(shown).collect();
                    query.append_pair(&name, &items.join(","));
                }
                Some(value) => {
                    query.append_pair(&name, &shown(&value));
                }
                None => {}
            },
        }
    }
    let query = query.finish();
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
                    if value.is_array() || value.is_object() {
                        return Err(refused(format!("`{variable}` must be a single value")));
                    }
                    text.push_str(&shown(value));
                    Ok(())
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
    let body = http.body.as_ref().and_then(|body| fill_body(body, variables, &mut headers));
    let body = body.unwrap_or_default().into();
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
        if value.is_array() || value.is_object() {
            return Err(format!("`{name}` must be a single value"));
        }
        let value = shown(value);
        let is_dots = |part: &str| matches!(part.trim(), "." | "..");
        if value.is_empty() || value.split(['/', '\\']).any(is_dots) {
            return Err(format!(
                "`{name}` must not be empty and must not contain `.` or `..` segments"
            ));
        }
        if value.contains('\0') {
            return Err(format!("`{name}` contains NUL"));
        }
        text.extend(utf8_percent_encode(&value, COMPONENT));
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

fn fill_body(
    body: &BodyTemplate,
    variables: &Variables,
    headers: &mut HeaderMap,
) -> Option<Vec<u8>> {
    let value = body.value.render(variables)?;
    let (bytes, content_type) = match body.encoding {
        BodyEncoding::Json => (value.to_string().into_bytes(), "application/json"),
        BodyEncoding::Text => {
            (shown(&value).into_owned().into_bytes(), "text/plain; charset=utf-8")
        }
        BodyEncoding::Form => {
            let mut form = Serializer::new(String::new());
            if let Value::Object(members) = &value {
                for (name, value) in members {
                    append(&mut form, name, value, Lists::Indexed);
                }
            }
            (form.finish().into_bytes(), "application/x-www-form-urlencoded")
        }
    };
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(content_type));
    Some(bytes)
}

/// Form of lists in a query or a form.
#[derive(Clone, Copy)]
enum Lists {
    /// `a=1&a=2`.
    Repeated,
    /// `a[0]=1&a[1]=2`.
    Indexed,
}

/// Appends a value; members of objects are in brackets.
fn append(query: &mut Serializer<'_, String>, name: &str, value: &Value, lists: Lists) {
    match value {
        Value::Null => {}
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                match lists {
                    Lists::Repeated => append(query, name, item, lists),
                    Lists::Indexed => append(query, &format!("{name}[{index}]"), item, lists),
                }
            }
        }
        Value::Object(members) => {
            for (member, value) in members {
                append(query, &format!("{name}[{member}]"), value, lists);
            }
        }
        scalar => {
            query.append_pair(name, &shown(scalar));
        }
    }
}

/// Everything but the unreserved characters of RFC 3986.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The same, with what an author may write in a path.
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
