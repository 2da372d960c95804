//! Access control: token verification and permissions, from the configuration.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use mcp_flow::client::Trust;
use mcp_flow::identity::{
    self, DpopSettings, IssuerSettings, KeySource, TokenVerifier, VerifierSettings,
};
use mcp_flow::permissions::{AccessRule, Names};
use mcp_flow::{Permissions, Principal, StaticTokens, TokenHash};

use crate::configuration::{
    Algorithm, DpopSection, File, IssuerEntry, PermissionRule, Problems, TokenEntry,
};
use crate::exit::{Exit, Failure};

/// Creates the token verifier; none if authentication is not configured.
pub(crate) fn token_verifier(file: &File) -> anyhow::Result<Option<Arc<TokenVerifier>>> {
    if !file.identity.is_configured() {
        return Ok(None);
    }
    Ok(Some(Arc::new(TokenVerifier::new(identity_settings(file)?)?)))
}

/// Reads the identity settings, with the secrets in files and variables as hashes.
pub(crate) fn identity_settings(file: &File) -> anyhow::Result<VerifierSettings> {
    let identity = &file.identity;
    let mut tokens = match &identity.token_file {
        Some(path) => StaticTokens::read(path)?,
        None => StaticTokens::default(),
    };
    for entry in &identity.tokens {
        let hash = hash(entry).map_err(|problem| usage(&entry.name, &problem))?;
        let principal = principal(entry).map_err(|problem| usage(&entry.name, &problem))?;
        tokens = tokens.and(hash, principal)?;
    }
    let issuers = identity.issuers.iter().map(|(name, entry)| issuer(name, entry));
    let scopes = file.permissions.iter().flat_map(|rule| rule.scopes.iter().cloned());
    Ok(VerifierSettings {
        tokens,
        issuers: issuers.collect(),
        denied: Names::new(&identity.denied),
        scopes: scopes.collect(),
        dpop: dpop(&identity.dpop),
    })
}

/// Creates the permissions. Without a rule everyone may use everything.
pub(crate) fn permissions(file: &File) -> Permissions {
    if file.permissions.is_empty() {
        return Permissions::everything();
    }
    Permissions::new(file.permissions.iter().map(rule).collect())
}

fn rule(rule: &PermissionRule) -> AccessRule {
    AccessRule {
        principals: Names::new(&rule.principals),
        scopes: rule.scopes.clone(),
        tools: Names::new(&rule.tools),
        resources: Names::new(&rule.resources),
        prompts: Names::new(&rule.prompts),
        flows: Names::new(&rule.flows),
        admin: rule.admin,
        metrics: rule.metrics,
    }
}

/// Reads a token, wherever it is, and hashes it.
fn hash(entry: &TokenEntry) -> Result<TokenHash, String> {
    if let Some(text) = &entry.sha256 {
        let problem =
            "sha256 must have 64 hexadecimal digits; `mcp-flow config token` generates one";
        return TokenHash::from_hex(text).ok_or_else(|| problem.to_owned());
    }
    let token = match (&entry.token_file, &entry.token_env) {
        (Some(path), _) => std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?,
        (None, Some(name)) => std::env::var(name).map_err(|_| {
            format!("the environment variable {name} is not set; set it to the token")
        })?,
        (None, None) => return Err("set sha256, token_file or token_env".to_owned()),
    };
    let token = token.trim();
    if token.len() < mcp_flow::identity::MIN_TOKEN_LENGTH {
        return Err("a token must have at least 16 characters".to_owned());
    }
    Ok(TokenHash::of(token))
}

fn principal(entry: &TokenEntry) -> Result<Principal, String> {
    let principal = Principal::named(&entry.name).scoped(&entry.scopes);
    let Some(text) = &entry.expires else { return Ok(principal) };
    let problem = |_| format!("expires: {text:?} is not a time such as 2027-01-31T00:00:00Z");
    let expires = chrono::DateTime::parse_from_rfc3339(text).map_err(problem)?;
    let seconds = u64::try_from(expires.timestamp()).unwrap_or_default();
    Ok(principal.until(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)))
}

fn issuer(name: &str, entry: &IssuerEntry) -> IssuerSettings {
    let trust = entry.jwks_certificates.clone().map_or(Trust::System, Trust::File);
    let keys = match (&entry.jwks_url, &entry.jwks_file) {
        (Some(url), _) => KeySource::Url(url.clone(), trust),
        (None, path) => KeySource::File(path.clone().unwrap_or_else(PathBuf::new)),
    };
    IssuerSettings {
        name: name.to_owned(),
        issuer: entry.issuer.clone(),
        audience: entry.audience.clone(),
        keys,
        algorithms: entry.algorithms.iter().copied().map(algorithm).collect(),
        principal_claim: entry.principal_claim.clone(),
        scope_claim: entry.scope_claim.clone(),
        required_scopes: entry.required_scopes.clone(),
        leeway: Duration::from_secs(entry.leeway_seconds.min(600)),
        refresh: Duration::from_secs(entry.refresh_seconds.max(10)),
    }
}

fn dpop(section: &DpopSection) -> DpopSettings {
    DpopSettings {
        is_required: section.required,
        requires_nonce: section.nonce,
        algorithms: section.algorithms.iter().copied().map(algorithm).collect(),
        max_age: Duration::from_secs(section.max_age_seconds.clamp(5, 600)),
    }
}

fn algorithm(algorithm: Algorithm) -> identity::Algorithm {
    match algorithm {
        Algorithm::RS256 => identity::Algorithm::RS256,
        Algorithm::RS384 => identity::Algorithm::RS384,
        Algorithm::RS512 => identity::Algorithm::RS512,
        Algorithm::PS256 => identity::Algorithm::PS256,
        Algorithm::PS384 => identity::Algorithm::PS384,
        Algorithm::PS512 => identity::Algorithm::PS512,
        Algorithm::ES256 => identity::Algorithm::ES256,
        Algorithm::ES384 => identity::Algorithm::ES384,
        Algorithm::EdDSA => identity::Algorithm::EdDSA,
    }
}

fn usage(name: &str, problem: &str) -> Failure {
    Failure::new(Exit::Usage, format!("token {name:?}: {problem}"))
}

/// Authenticates the parent process by the token in the environment (MCP-072).
///
/// Without a token it is the local principal. With an invalid one it stays anonymous, and every
/// request is rejected.
pub(crate) fn principal_from_environment(file: &File) -> anyhow::Result<Principal> {
    let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
    let (Some(token), Some(verifier)) = (token, token_verifier(file)?) else {
        return Ok(Principal::local());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let verdict = runtime.block_on(async {
        use mcp_flow::Verifier as _;
        verifier.verify(token.trim()).result().await
    });
    // A pipe carries no proofs.
    let verdict = verdict.map_err(|refused| refused.to_string()).and_then(|principal| {
        match principal.bound_key() {
            Some(_) => Err("The token is bound to a key, which cannot be proven here.".to_owned()),
            None => Ok(principal),
        }
    });
    Ok(verdict.unwrap_or_else(|refused| {
        tracing::error!(%refused, "authentication failed: the token in {TOKEN} is invalid");
        let anonymous = Principal::named("nobody");
        anonymous.revoke();
        anonymous
    }))
}

/// Checks everything that can be checked without starting a server.
pub(crate) fn check(file: &File, problems: &mut Problems<'_>) {
    let mut tokens_are_valid = true;
    for (index, entry) in file.identity.tokens.iter().enumerate() {
        if let Err(problem) = hash(entry).and_then(|_| principal(entry)) {
            tokens_are_valid = false;
            let problem = usage(&entry.name, &problem).to_string();
            problems.add(&["identity", "tokens", &index.to_string()], problem);
        }
    }
    if tokens_are_valid && let Err(error) = token_verifier(file) {
        problems.add(&["identity"], format!("{error:#}"));
    }
    if let Err(error) = file.signing.keys().context("signing") {
        problems.add(&["signing"], format!("{error:#}"));
    }
    if let (Some(certificate), Some(key)) = (&file.serve.tls_certificate, &file.serve.tls_key)
        && let Err(error) =
            mcp_flow::tls::Tls::from_pem(certificate, key).context("serve.tls_certificate")
    {
        problems.add(&["serve", "tls_certificate"], format!("{error:#}"));
    }
}

/// Environment variable with a bearer token.
const TOKEN: &str = "MCP_FLOW_TOKEN";
