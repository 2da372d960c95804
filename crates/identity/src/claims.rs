//! Validation of JWT claims, and the principal they describe.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Header, Validation};
use mcp_flow_principal::Principal;
use mcp_flow_principal::TokenRejected;
use serde_json::{Map, Value};

use crate::dpop::is_thumbprint;
use crate::issuer::IssuerSettings;

pub(crate) type Claims = Map<String, Value>;

/// Returns whether a header is that of an access token without critical extensions.
pub(crate) fn is_acceptable(header: &Header) -> bool {
    let kind = header.typ.as_deref().unwrap_or("JWT").to_ascii_lowercase();
    let kind = kind.strip_prefix("application/").unwrap_or(&kind);
    ["jwt", "at+jwt"].contains(&kind) && header.crit.is_none()
}

/// Returns the rules for claims: algorithm, audience, issuer, times.
pub(crate) fn validation(settings: &IssuerSettings, header: &Header) -> Validation {
    let mut validation = Validation::new(header.alg);
    validation.leeway = settings.leeway.as_secs();
    validation.validate_nbf = true;
    validation.set_audience(&settings.audience);
    validation.set_issuer(&[&settings.issuer]);
    validation.set_required_spec_claims(&["exp", "iss", "aud"]);
    validation
}

/// Returns the principal of validated claims.
pub(crate) fn principal(
    settings: &IssuerSettings,
    claims: &Claims,
) -> Result<Principal, TokenRejected> {
    let name = claims.get(&settings.principal_claim).and_then(Value::as_str);
    let name = name.filter(|name| {
        !name.is_empty() && name.len() <= MAX_NAME && !name.chars().any(char::is_control)
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
    let principal = Principal::named(&name).scoped(scopes).until(expires + settings.leeway);
    let Some(confirmation) = claims.get("cnf") else { return Ok(principal) };
    // A token bound in a way that cannot be checked must not be accepted as if it were unbound.
    let thumbprint = confirmation.get("jkt").and_then(Value::as_str);
    let thumbprint = thumbprint.filter(|thumbprint| is_thumbprint(thumbprint));
    Ok(principal.bound_to(thumbprint.ok_or(TokenRejected::Unknown)?))
}

/// Reads scopes: a space-separated string or an array of strings.
fn scopes(claim: Option<&Value>) -> Vec<&str> {
    match claim {
        Some(Value::String(text)) => text.split_ascii_whitespace().collect(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn time(seconds: f64) -> Option<SystemTime> {
    let since = Duration::try_from_secs_f64(seconds).ok()?;
    UNIX_EPOCH.checked_add(since.min(MAX_EXPIRY))
}

/// Converts a validation error to the reason that the client is given.
pub(crate) fn rejection(error: &Error) -> TokenRejected {
    match error.kind() {
        ErrorKind::ExpiredSignature | ErrorKind::ImmatureSignature => TokenRejected::Expired,
        ErrorKind::InvalidAudience => TokenRejected::Audience,
        _ => TokenRejected::Unknown,
    }
}

const MAX_NAME: usize = 256;

/// Latest expiry that every clock can represent: the end of the year 9999.
const MAX_EXPIRY: Duration = Duration::from_secs(253_402_300_799);
