//! What a signed token has to say, and whom it makes of its bearer.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Header, Validation};
use mcp_flow_server::Principal;
use mcp_flow_server::identity::TokenRejected;
use serde_json::{Map, Value};

use crate::issuer::IssuerSettings;

pub(crate) type Claims = Map<String, Value>;

/// Whether a header is that of an access token, and asks for nothing that is not understood here.
pub(crate) fn is_acceptable(header: &Header) -> bool {
    let kind = header.typ.as_deref().unwrap_or("JWT").to_ascii_lowercase();
    let kind = kind.strip_prefix("application/").unwrap_or(&kind);
    ["jwt", "at+jwt"].contains(&kind) && header.crit.is_none()
}

/// What is checked of claims beside the signature.
pub(crate) fn validation(settings: &IssuerSettings, header: &Header) -> Validation {
    let mut validation = Validation::new(header.alg);
    validation.leeway = settings.leeway.as_secs();
    validation.validate_nbf = true;
    validation.set_audience(&settings.audience);
    validation.set_issuer(&[&settings.issuer]);
    validation.set_required_spec_claims(&["exp", "iss", "aud"]);
    validation
}

/// Whom claims stand for that were checked.
pub(crate) fn principal(
    settings: &IssuerSettings,
    claims: &Claims,
) -> Result<Principal, TokenRejected> {
    let name = claims.get(&settings.principal_claim).and_then(Value::as_str);
    let name = name.filter(|name| {
        !name.is_empty() && name.len() <= LONGEST_NAME && !name.chars().any(char::is_control)
    });
    let name = name.ok_or(TokenRejected::Unknown)?;
    let scopes = scopes(claims.get(&settings.scope_claim));
    let lacks = |scope: &String| !scopes.contains(&scope.as_str());
    if settings.required_scopes.iter().any(lacks) {
        return Err(TokenRejected::Scope(settings.required_scopes.clone()));
    }
    let expires =
        claims.get("exp").and_then(Value::as_f64).and_then(time).ok_or(TokenRejected::Unknown)?;
    let name = format!("{}:{name}", settings.name);
    Ok(Principal::named(&name).scoped(scopes).until(expires + settings.leeway))
}

/// Scopes are one text with spaces between, or a list of texts.
fn scopes(claim: Option<&Value>) -> Vec<&str> {
    match claim {
        Some(Value::String(text)) => text.split_ascii_whitespace().collect(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn time(seconds: f64) -> Option<SystemTime> {
    let since = Duration::try_from_secs_f64(seconds).ok()?;
    UNIX_EPOCH.checked_add(since.min(LONGEST_LIFE))
}

/// What a bearer is told of a token that is not good.
pub(crate) fn refusal(error: &Error) -> TokenRejected {
    match error.kind() {
        ErrorKind::ExpiredSignature | ErrorKind::ImmatureSignature => TokenRejected::Expired,
        ErrorKind::InvalidAudience => TokenRejected::Audience,
        _ => TokenRejected::Unknown,
    }
}

const LONGEST_NAME: usize = 256;

/// No clock goes further: until the year 9999.
const LONGEST_LIFE: Duration = Duration::from_secs(253_402_300_799);
