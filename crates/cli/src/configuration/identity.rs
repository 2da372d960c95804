//! `[identity]`: authentication of clients.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Problems, resolve_path};

/// Authentication of clients. Without credentials, everyone on this machine is `local`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct IdentitySection {
    /// Accept clients without credentials, even on a public address. All of them are one principal,
    /// so they see and answer each other's sessions and share its rate limits: set
    /// `offer.interaction = false` for such a server.
    pub(crate) anonymous: bool,
    /// File of bearer tokens, one `name:token` per line, with at least 16 characters each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    /// Bearer tokens by hash, file or environment variable.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tokens: Vec<TokenEntry>,
    /// Authorization servers whose access tokens (JWT) are accepted, by a name of your choice.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) issuers: BTreeMap<String, IssuerEntry>,
    /// Tokens that are bound to a key of the client (DPoP).
    pub(crate) dpop: DpopSection,
    /// Principals to reject whatever their token; their open connections are closed.
    pub(crate) denied: Vec<String>,
}

/// Bearer token of a principal. Exactly one of `sha256`, `token_file` and `token_env` is set.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TokenEntry {
    /// Principal that the token authenticates; every token needs one.
    pub(crate) name: String,
    /// SHA-256 of the token in hexadecimal; `mcp-flow config token` generates both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sha256: Option<String>,
    /// File that contains only the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    /// Environment variable with the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_env: Option<String>,
    /// Scopes of the token.
    pub(crate) scopes: Vec<String>,
    /// Expiry, for example `2027-01-31T00:00:00Z`. Default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<String>,
}

/// Authorization server whose access tokens are accepted.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IssuerEntry {
    /// Issuer URL: the `iss` claim of its tokens, announced to clients.
    pub(crate) issuer: String,
    /// Accepted `aud` claims, so that tokens for other servers are rejected: the URL of this
    /// server, for example `https://flow.example/mcp`.
    pub(crate) audience: Vec<String>,
    /// URL of its key set (JWKS): https, or http on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) jwks_url: Option<String>,
    /// File with its key set, instead of `jwks_url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) jwks_file: Option<PathBuf>,
    /// PEM file with the certificate authorities to trust for `jwks_url`. Default: those of the
    /// system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) jwks_certificates: Option<PathBuf>,
    /// Accepted signature algorithms; never shared secrets, never `none`.
    #[serde(default = "algorithms")]
    pub(crate) algorithms: Vec<Algorithm>,
    /// Claim with the principal's name. The full name is `ISSUER:CLAIM`, with this entry's name first.
    #[serde(default = "principal_claim")]
    pub(crate) principal_claim: String,
    /// Claim with the scopes: a space-separated string, or a list.
    #[serde(default = "scope_claim")]
    pub(crate) scope_claim: String,
    /// Scopes that every token needs, announced to clients; without them it gets 403 with
    /// `insufficient_scope`.
    #[serde(default)]
    pub(crate) required_scopes: Vec<String>,
    /// Allowed clock difference, in seconds.
    #[serde(default = "leeway")]
    #[schemars(range(max = 600))]
    pub(crate) leeway_seconds: u64,
    /// Seconds until the key set is fetched again; an unknown key is fetched at once, but at most
    /// every 10 seconds.
    #[serde(default = "refresh")]
    #[schemars(range(min = 10))]
    pub(crate) refresh_seconds: u64,
}

/// Rules for proofs of possession (DPoP, RFC 9449). A token that its issuer has bound to a key is
/// accepted only with a proof by that key.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DpopSection {
    /// True to accept tokens of issuers only if they are bound to a key; tokens of
    /// `identity.tokens` stay bearer tokens.
    pub(crate) required: bool,
    /// True to require a nonce of this server in each proof, so that none can be prepared in
    /// advance; several servers behind one address do not accept each other's.
    pub(crate) nonce: bool,
    /// Accepted signature algorithms of proofs.
    pub(crate) algorithms: Vec<Algorithm>,
    /// Seconds for which a proof is accepted.
    #[schemars(range(min = 5, max = 600))]
    pub(crate) max_age_seconds: u64,
}

impl Default for DpopSection {
    fn default() -> Self {
        let algorithms = vec![
            Algorithm::ES256,
            Algorithm::ES384,
            Algorithm::EdDSA,
            Algorithm::RS256,
            Algorithm::PS256,
        ];
        Self { required: false, nonce: false, algorithms, max_age_seconds: 120 }
    }
}

/// Signature algorithm. Shared secrets (HS256) are not supported: a verifier could forge tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub(crate) enum Algorithm {
    RS256,
    RS384,
    RS512,
    PS256,
    PS384,
    PS512,
    ES256,
    ES384,
    EdDSA,
}

impl IdentitySection {
    /// Returns whether authentication is enabled.
    pub(crate) fn is_configured(&self) -> bool {
        self.token_file.is_some() || !self.tokens.is_empty() || !self.issuers.is_empty()
    }

    pub(super) fn check(&self, problems: &mut Problems<'_>) {
        if self.anonymous && self.is_configured() {
            let problem =
                "identity.anonymous disables authentication; remove it, or the tokens and issuers";
            problems.add(&["identity", "anonymous"], problem);
        }
        for (index, token) in self.tokens.iter().enumerate() {
            if let Err(problem) = token.check() {
                let problem = format!("identity.tokens, {:?}: {problem}", token.name);
                problems.add(&["identity", "tokens", &index.to_string()], problem);
            }
        }
        if self.dpop.algorithms.is_empty() {
            problems
                .add(&["identity", "dpop", "algorithms"], "set at least one algorithm".to_owned());
        }
        if (self.dpop.required || self.dpop.nonce) && self.issuers.is_empty() {
            let problem = "identity.dpop is about the tokens of issuers; configure one in \
                           [identity.issuers.NAME]";
            problems.add(&["identity", "dpop"], problem.to_owned());
        }
        for (name, issuer) in &self.issuers {
            if let Err(problem) = issuer.check(name) {
                let problem = format!("identity.issuers.{name}: {problem}");
                problems.add(&["identity", "issuers", name], problem);
            }
        }
    }

    pub(super) fn resolve(&mut self, folder: &Path) {
        let tokens = self.tokens.iter_mut().filter_map(|token| token.token_file.as_mut());
        let keys = self.issuers.values_mut().flat_map(|issuer| {
            issuer.jwks_file.as_mut().into_iter().chain(issuer.jwks_certificates.as_mut())
        });
        let paths = self.token_file.iter_mut().chain(tokens).chain(keys);
        paths.for_each(|path| resolve_path(path, folder));
    }
}

impl TokenEntry {
    fn check(&self) -> Result<(), String> {
        mcp_flow::identity::check_name(&self.name).map_err(str::to_owned)?;
        let ways = [self.sha256.is_some(), self.token_file.is_some(), self.token_env.is_some()];
        if ways.into_iter().filter(|way| *way).count() != 1 {
            return Err("set exactly one of sha256, token_file and token_env".to_owned());
        }
        Ok(())
    }
}

impl IssuerEntry {
    fn check(&self, name: &str) -> Result<(), String> {
        mcp_flow::identity::check_name(name).map_err(str::to_owned)?;
        if self.jwks_url.is_some() == self.jwks_file.is_some() {
            return Err("set either jwks_url or jwks_file".to_owned());
        }
        if self.audience.is_empty() {
            let problem = "set `audience` to the URL of this server, so that tokens for other \
                           servers are rejected";
            return Err(problem.to_owned());
        }
        if self.algorithms.is_empty() {
            return Err("set at least one algorithm".to_owned());
        }
        Ok(())
    }
}

fn algorithms() -> Vec<Algorithm> {
    vec![Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA]
}

fn principal_claim() -> String {
    "sub".to_owned()
}

fn scope_claim() -> String {
    "scope".to_owned()
}

fn leeway() -> u64 {
    30
}

fn refresh() -> u64 {
    300
}
