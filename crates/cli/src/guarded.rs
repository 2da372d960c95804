//! From what a file says of identity and permissions to what the server is guarded by.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use mcp_flow::client::Trust;
use mcp_flow::identity::{self, IssuerSettings, KeySource, TokenVerifier, VerifierSettings};
use mcp_flow::permissions::{AccessRule, Names};
use mcp_flow::{Permissions, Principal, StaticTokens, TokenHash};

use crate::configuration::{Algorithm, File, IssuerEntry, PermissionRule, Problems, TokenEntry};
use crate::exit::{Exit, Failure};

/// Returns the token verifier, if the configuration requires tokens.
pub(crate) fn token_verifier(file: &File) -> anyhow::Result<Option<Arc<TokenVerifier>>> {
    if !file.identity.is_configured() {
        return Ok(None);
    }
    Ok(Some(Arc::new(TokenVerifier::new(settings(file)?)?)))
}

/// Who is let in, with all secrets that files and variables hold, as hashes.
pub(crate) fn settings(file: &File) -> anyhow::Result<VerifierSettings> {
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
    })
}

/// Who may use what. Without a rule everyone may use everything.
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

/// The hash of a token, wherever the token is.
fn hash(entry: &TokenEntry) -> Result<TokenHash, String> {
    if let Some(text) = &entry.sha256 {
        let problem = "sha256 has 64 hexadecimal digits; `mcp-flow config token` makes one";
        return TokenHash::from_hex(text).ok_or_else(|| problem.to_owned());
    }
    let token = match (&entry.token_file, &entry.token_env) {
        (Some(path), _) => std::fs::read_to_string(path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?,
        (None, Some(name)) => std::env::var(name)
            .map_err(|_| format!("the environment has no {name}; set it to the token"))?,
        (None, None) => return Err("say sha256, token_file or token_env".to_owned()),
    };
    let token = token.trim();
    if token.len() < mcp_flow::identity::SHORTEST_TOKEN {
        return Err("a token has 16 characters or more".to_owned());
    }
    Ok(TokenHash::of(token))
}

fn principal(entry: &TokenEntry) -> Result<Principal, String> {
    let principal = Principal::named(&entry.name).scoped(&entry.scopes);
    let Some(text) = &entry.expires else { return Ok(principal) };
    let problem = |_| format!("expires: {text:?} is no time such as 2027-01-31T00:00:00Z");
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
    Failure::new(Exit::Usage, format!("the token of {name:?}: {problem}"))
}

/// Whom the program that started this one speaks for, by a token in the environment (MCP-072).
///
/// Without one it is whoever runs it. A wrong one makes nobody of it, and every request is refused.
pub(crate) fn by_environment(file: &File) -> anyhow::Result<Principal> {
    let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
    let (Some(token), Some(verifier)) = (token, token_verifier(file)?) else {
        return Ok(Principal::local());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let verdict = runtime.block_on(async {
        use mcp_flow::Verifier as _;
        verifier.verify(token.trim()).result().await
    });
    Ok(verdict.unwrap_or_else(|refused| {
        tracing::error!(%refused, "the token in {TOKEN} is not good");
        let nobody = Principal::named("nobody");
        nobody.revoke();
        nobody
    }))
}

/// Checks as much as can be known without serving.
pub(crate) fn check(file: &File, problems: &mut Problems<'_>) {
    let mut tokens_are_good = true;
    for (index, entry) in file.identity.tokens.iter().enumerate() {
        if let Err(problem) = hash(entry).and_then(|_| principal(entry)) {
            tokens_are_good = false;
            let problem = usage(&entry.name, &problem).to_string();
            problems.add(&["identity", "tokens", &index.to_string()], problem);
        }
    }
    if tokens_are_good && let Err(error) = token_verifier(file) {
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

/// The variable that holds a token.
const TOKEN: &str = "MCP_FLOW_TOKEN";
