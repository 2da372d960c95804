//! `[identity]`: who is let in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Problems, resolved};

/// Who is let in, and by which credentials. Without any, everyone on this machine is `local`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct IdentitySection {
    /// Whether everyone is let in without credentials, even where others can reach the server.
    pub(crate) anonymous: bool,
    /// A file of tokens, one `name:token` a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    /// Tokens that are known by their hashes, by files or by environment variables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tokens: Vec<TokenEntry>,
    /// Authorization servers whose tokens (JWT) are accepted, by a name of one's own choosing.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) issuers: BTreeMap<String, IssuerEntry>,
    /// Principals that are not let in, whatever their token; live connections of theirs are closed.
    pub(crate) denied: Vec<String>,
}

/// A token and whom it stands for. Exactly one of `sha256`, `token_file` and `token_env` says it.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TokenEntry {
    /// The principal it stands for.
    pub(crate) name: String,
    /// The SHA-256 of the token, in hexadecimal digits; `mcp-flow config token` makes both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sha256: Option<String>,
    /// A file that holds the token and nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    /// The environment variable that holds the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_env: Option<String>,
    /// The scopes it has.
    pub(crate) scopes: Vec<String>,
    /// When it ends, such as `2027-01-31T00:00:00Z`; never, if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<String>,
}

/// An authorization server whose tokens are accepted.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IssuerEntry {
    /// What its tokens say in `iss`, and where clients find it.
    pub(crate) issuer: String,
    /// What its tokens must say in `aud`, one of these: where clients find this server, such as
    /// `https://flow.example/mcp`.
    pub(crate) audience: Vec<String>,
    /// Where its keys are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) jwks_url: Option<String>,
    /// The file its keys are in, in place of `jwks_url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) jwks_file: Option<PathBuf>,
    /// A PEM file with the certificates that are trusted when its keys are fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) jwks_certificates: Option<PathBuf>,
    /// The algorithms that are accepted; all of them have public keys.
    #[serde(default = "algorithms")]
    pub(crate) algorithms: Vec<Algorithm>,
    /// The claim that names the principal, whose full name is `NAME:CLAIM`.
    #[serde(default = "principal_claim")]
    pub(crate) principal_claim: String,
    /// The claim with the scopes: a text with spaces between, or a list.
    #[serde(default = "scope_claim")]
    pub(crate) scope_claim: String,
    /// Scopes without which a token is not enough; clients are told to ask for them.
    #[serde(default)]
    pub(crate) required_scopes: Vec<String>,
    /// How many seconds clocks may differ.
    #[serde(default = "leeway")]
    #[schemars(range(max = 600))]
    pub(crate) leeway_seconds: u64,
    /// After how many seconds the keys are fetched again.
    #[serde(default = "refresh")]
    #[schemars(range(min = 10))]
    pub(crate) refresh_seconds: u64,
}

/// How tokens may be signed. Secrets that both sides know are no choice: whoever checks such a
/// token could also make it.
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
    /// Whether there are credentials to ask for.
    pub(crate) fn is_configured(&self) -> bool {
        self.token_file.is_some() || !self.tokens.is_empty() || !self.issuers.is_empty()
    }

    pub(super) fn check(&self, problems: &mut Problems<'_>) {
        if self.anonymous && self.is_configured() {
            let problem = "identity.anonymous lets everyone in, so no tokens can be asked for";
            problems.add(&["identity", "anonymous"], problem);
        }
        for (index, token) in self.tokens.iter().enumerate() {
            if let Err(problem) = token.check() {
                let problem = format!("identity.tokens, {:?}: {problem}", token.name);
                problems.add(&["identity", "tokens", &index.to_string()], problem);
            }
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
        paths.for_each(|path| resolved(path, folder));
    }
}

impl TokenEntry {
    fn check(&self) -> Result<(), String> {
        mcp_flow::identity::check_name(&self.name).map_err(str::to_owned)?;
        let ways = [self.sha256.is_some(), self.token_file.is_some(), self.token_env.is_some()];
        if ways.into_iter().filter(|way| *way).count() != 1 {
            return Err("say exactly one of sha256, token_file and token_env".to_owned());
        }
        Ok(())
    }
}

impl IssuerEntry {
    fn check(&self, name: &str) -> Result<(), String> {
        mcp_flow::identity::check_name(name).map_err(str::to_owned)?;
        if self.jwks_url.is_some() == self.jwks_file.is_some() {
            return Err("say where its keys are: jwks_url or jwks_file".to_owned());
        }
        if self.audience.is_empty() {
            let problem = "say in `audience` where clients find this server; tokens made for \
                           others must not be good here";
            return Err(problem.to_owned());
        }
        if self.algorithms.is_empty() {
            return Err("name at least one algorithm".to_owned());
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
