//! Reading `http`.

mod body;

use std::time::Duration;

use hyper::Method;
use hyper::header::HeaderName;
use mcp_flow_http_client::AddressZone;
use mcp_flow_workflow::document::{Fields, Problems, ValuePath, shown};
use serde_json::Value;
use url::Url;

use super::{Reader, scalar};
use crate::http::is_listed;
use crate::model::{
    ClientCredentials, CredentialText, HeaderTemplate, HttpAction, HttpAuth, ListStyle, Parameter,
};
use crate::template::Template;
use body::{read_body, read_pairs, read_parameters};

pub(super) fn read(
    value: &Value,
    path: ValuePath<'_>,
    reader: Reader<'_>,
    problems: &Problems,
) -> Option<HttpAction> {
    let fields = Fields::of(value, path, &HTTP, problems)?;
    let method = match fields.get("method") {
        None => Some(Method::GET),
        Some(_) => scalar::one_of(&fields, "method", &METHODS)
            .and_then(|name| Method::from_bytes(name.as_bytes()).ok()),
    };
    let url = fields.required_text("url", 1..=8192);
    let url = url.and_then(|url| read_url(&url, &fields, &reader));
    let headers = read_headers(&fields, &reader);
    let body = read_body(&fields, &reader, &headers);
    let timeout = scalar::duration(&fields, "timeout", MIN_TIMEOUT..=MAX_TIMEOUT);
    let allow_private = fields.texts("allow_private", 1..=256);
    let auth = read_auth(&fields, &reader);
    if auth.is_some() && headers.iter().any(|(name, _)| *name == hyper::header::AUTHORIZATION) {
        fields.note("auth", "`auth` sets the header Authorization; remove one of them");
    }
    let retries = fields.whole("retries", 0..=5).and_then(|retries| u32::try_from(retries).ok());
    let lists = scalar::one_of(&fields, "lists", &LISTS).unwrap_or_default();
    let query = read_query(&fields, &reader);
    let mut url = url?;
    check_address(&url.origin, &allow_private, &fields);
    url.query.extend(query);
    Some(HttpAction {
        method: method?,
        origin: url.origin,
        path: url.path,
        query: url.query,
        headers,
        body,
        timeout: timeout.unwrap_or(TIMEOUT),
        allow_private,
        auth,
        retries: retries.unwrap_or(RETRIES),
        lists,
    })
}

struct UrlTemplate {
    origin: Url,
    path: Vec<Template>,
    query: Vec<Parameter>,
}

/// Warns about an address that every call will refuse.
fn check_address(origin: &Url, allowed: &[Box<str>], fields: &Fields<'_>) {
    let host = origin.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if is_private(origin) && !is_listed(allowed, host) {
        fields.warn(&format!(
            "{host} is not a public address, so every call is refused; list it: allow_private: [{host}]"
        ));
    }
}

/// Returns whether a URL names this machine or an address that is not of the internet.
pub(crate) fn is_private(url: &Url) -> bool {
    let zone = match url.host() {
        Some(url::Host::Ipv4(address)) => AddressZone::of(address.into()),
        Some(url::Host::Ipv6(address)) => AddressZone::of(address.into()),
        Some(url::Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            return name == "localhost" || name.ends_with(".localhost");
        }
        None => return false,
    };
    zone != AddressZone::Public
}

/// Reads a URL with variables in its path and query only.
fn read_url(text: &str, fields: &Fields<'_>, reader: &Reader<'_>) -> Option<UrlTemplate> {
    let refuse = |message: &str| {
        fields.note("url", message);
        None
    };
    let Some((scheme, rest)) = text.split_once("://") else {
        return refuse("`url` must be absolute, such as https://api.example.com/items/{{id}}");
    };
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    if scheme.contains("{{") || authority.contains("{{") {
        return refuse("scheme and host of `url` cannot have variables");
    }
    let Ok(origin) = Url::parse(&format!("{scheme}://{authority}/")) else {
        return refuse("`url` is not a URL");
    };
    if !matches!(origin.scheme(), "http" | "https") {
        return refuse("`url` must begin with https:// or http://");
    }
    if !origin.username().is_empty() || origin.password().is_some() {
        return refuse("`url` cannot have credentials; use `auth`");
    }
    if rest.contains(['#', '\\']) {
        return refuse("`url` cannot have a fragment or a backslash");
    }
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let location = fields.location("url");
    let problems = fields.problems();
    let mut segments = Vec::new();
    for segment in path.split('/').skip(1) {
        if matches!(segment, "." | "..") {
            return refuse("`url` cannot have the segments . and ..");
        }
        segments.push(reader.template(segment, location, problems)?);
    }
    let query = read_pairs(query, location, reader, problems)?;
    Some(UrlTemplate { origin, path: segments, query })
}

fn read_query(fields: &Fields<'_>, reader: &Reader<'_>) -> Vec<Parameter> {
    match fields.get("query") {
        None => Vec::new(),
        Some(Value::Object(members)) => {
            read_parameters(members, fields.location("query"), reader, fields.problems())
        }
        Some(other) => {
            fields.note("query", format!("`query` must be an object, not {}", shown(other)));
            Vec::new()
        }
    }
}

fn read_headers(fields: &Fields<'_>, reader: &Reader<'_>) -> Vec<(HeaderName, HeaderTemplate)> {
    let Some(value) = fields.get("headers") else { return Vec::new() };
    let Value::Object(members) = value else {
        fields.note("headers", format!("`headers` must be an object, not {}", shown(value)));
        return Vec::new();
    };
    let (path, problems) = (fields.location("headers"), fields.problems());
    let mut headers = Vec::new();
    for (name, value) in members {
        let path = path.member(name);
        let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
            problems.error(path, "this cannot be the name of a header");
            continue;
        };
        if RESERVED.contains(&header.as_str()) {
            let message = format!("`{name}` is set by the server and cannot be changed");
            problems.error(path, message);
            continue;
        }
        let template = match value {
            Value::Object(_) => {
                let known = ["secret", "prefix"];
                let Some(secret) = Fields::of(value, path, &known, problems) else { continue };
                let prefix = secret.get("prefix").and_then(Value::as_str).unwrap_or_default();
                let source = scalar::secret(&secret, reader.folder);
                source.map(|source| HeaderTemplate::Secret { prefix: prefix.into(), source })
            }
            Value::String(_) | Value::Number(_) | Value::Bool(_) => {
                let text = crate::template::shown(value);
                let template = reader.template(&text, path, problems);
                if CREDENTIALS.contains(&header.as_str())
                    && template.as_ref().is_some_and(|template| template.literal().is_none())
                {
                    let message = format!("`{name}` cannot have variables; use a secret");
                    problems.error(path, message);
                }
                template.map(HeaderTemplate::Text)
            }
            other => {
                problems
                    .error(path, format!("a header is a text or a secret, not {}", shown(other)));
                None
            }
        };
        headers.extend(template.map(|template| (header, template)));
    }
    headers
}

fn read_auth(fields: &Fields<'_>, reader: &Reader<'_>) -> Option<HttpAuth> {
    let value = fields.get("auth")?;
    let (path, problems) = (fields.location("auth"), fields.problems());
    let auth = Fields::of(value, path, &["bearer", "basic", "oauth"], problems)?;
    let kinds: Vec<_> = auth.members().collect();
    let [(kind, value)] = kinds.as_slice() else {
        auth.note_here("`auth` has one of bearer, basic, oauth");
        return None;
    };
    let path = auth.location(kind);
    match *kind {
        "bearer" => {
            let fields = Fields::of(value, path, &["secret"], problems)?;
            scalar::secret(&fields, reader.folder).map(HttpAuth::Bearer)
        }
        "basic" => {
            let fields = Fields::of(value, path, &["username", "password"], problems)?;
            let username = credential(&fields, "username", reader)?;
            let password = match fields.get("password") {
                None => None,
                Some(_) => Some(secret_member(&fields, "password", reader)?),
            };
            Some(HttpAuth::Basic { username, password })
        }
        "oauth" => {
            let fields = Fields::of(value, path, &OAUTH, problems)?;
            let token_url = fields.required_text("token_url", 1..=4096)?;
            let token_url = match Url::parse(&token_url) {
                Ok(url)
                    if matches!(url.scheme(), "http" | "https") && !token_url.contains("{{") =>
                {
                    url
                }
                _ => {
                    fields.note("token_url", "`token_url` must be a URL of http or https");
                    return None;
                }
            };
            Some(HttpAuth::ClientCredentials(ClientCredentials {
                token_url,
                client_id: credential(&fields, "client_id", reader)?,
                client_secret: secret_member(&fields, "client_secret", reader)?,
                scope: fields.text("scope", 1..=4096).unwrap_or_default(),
            }))
        }
        _ => None,
    }
}

fn credential(fields: &Fields<'_>, name: &str, reader: &Reader<'_>) -> Option<CredentialText> {
    match fields.require(name)? {
        Value::Object(_) => secret_member(fields, name, reader).map(CredentialText::Secret),
        _ => fields.text(name, 1..=4096).map(CredentialText::Literal),
    }
}

fn secret_member(
    fields: &Fields<'_>,
    name: &str,
    reader: &Reader<'_>,
) -> Option<crate::secret::SecretSource> {
    let value = fields.require(name)?;
    if !value.is_object() {
        let message = format!("`{name}` is given by reference: {{secret: \"env:NAME\"}}");
        fields.note(name, message);
        return None;
    }
    let secret = Fields::of(value, fields.location(name), &["secret"], fields.problems())?;
    scalar::secret(&secret, reader.folder)
}

const HTTP: [&str; 10] = [
    "method",
    "url",
    "query",
    "headers",
    "body",
    "timeout",
    "allow_private",
    "auth",
    "retries",
    "lists",
];

const LISTS: [(&str, ListStyle); 2] =
    [("repeated", ListStyle::Repeated), ("indexed", ListStyle::Indexed)];

const OAUTH: [&str; 4] = ["token_url", "client_id", "client_secret", "scope"];

const METHODS: [(&str, &str); 7] = [
    ("GET", "GET"),
    ("POST", "POST"),
    ("PUT", "PUT"),
    ("PATCH", "PATCH"),
    ("DELETE", "DELETE"),
    ("HEAD", "HEAD"),
    ("OPTIONS", "OPTIONS"),
];

/// Headers that describe the connection or the message.
const RESERVED: [&str; 12] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "accept-encoding",
];

/// Headers that arguments cannot set.
const CREDENTIALS: [&str; 2] = ["authorization", "cookie"];

const TIMEOUT: Duration = Duration::from_secs(30);
const MIN_TIMEOUT: Duration = Duration::from_millis(1);
const MAX_TIMEOUT: Duration = Duration::from_secs(60 * 60);
const RETRIES: u32 = 2;
