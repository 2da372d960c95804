//! The token verifier: static tokens and a cache of verified JWTs, both by hash.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::{Header, decode_header};
use mcp_flow_principal::permissions::Names;
use mcp_flow_principal::{Principal, Verifier};
use mcp_flow_principal::{
    ProofContext, ProofRejected, ProofRequirements, TokenRejected, TokenRequirements, Verification,
};
use parking_lot::{Mutex, RwLock};

use crate::claims::{self, Claims};
use crate::dpop::{DpopSettings, ProofVerifier};
use crate::issuer::{Issuer, IssuerSettings, VerifiedToken};
use crate::keys::{Key, KeyError};
use crate::static_tokens::{StaticTokens, TokenHash};

/// Accepted tokens, issuers and denied principals.
#[derive(Clone, Debug, Default)]
pub struct VerifierSettings {
    /// Static tokens.
    pub tokens: StaticTokens,
    /// Issuers of JWTs.
    pub issuers: Vec<IssuerSettings>,
    /// Principals that are rejected, whatever their token.
    pub denied: Names,
    /// Scopes that the server uses, published in the protected resource metadata.
    pub scopes: Vec<String>,
    /// Rules for proofs of possession.
    pub dpop: DpopSettings,
}

/// Verifies tokens and proofs of possession, and revokes those that become invalid while they are in use.
pub struct TokenVerifier {
    rules: RwLock<Arc<Rules>>,
    /// Verified JWTs.
    verified: Mutex<VerifiedTokens>,
    proofs: ProofVerifier,
}

struct Rules {
    tokens: StaticTokens,
    issuers: Vec<Arc<Issuer>>,
    denied: Names,
    dpop: DpopSettings,
    terms: Arc<TokenRequirements>,
}

struct VerifiedTokens {
    by_hash: HashMap<TokenHash, Entry>,
    /// Size at which unused and expired entries are removed.
    sweep_at: usize,
}

struct Entry {
    principal: Principal,
    issuer: Arc<Issuer>,
    key: Arc<Key>,
}

impl TokenVerifier {
    /// Creates a verifier. Reads key sets from files; those at URLs are fetched when needed.
    pub fn new(settings: VerifierSettings) -> Result<Self, KeyError> {
        crate::crypto::install();
        let rules = RwLock::new(Arc::new(Rules::new(settings, &[])?));
        let verified = VerifiedTokens { by_hash: HashMap::new(), sweep_at: SWEEP_AT };
        Ok(Self { rules, verified: Mutex::new(verified), proofs: ProofVerifier::new() })
    }

    /// Replaces the settings. Tokens that are still valid stay in use, all others are revoked. On an
    /// error nothing changes.
    pub fn replace(&self, settings: VerifierSettings) -> Result<(), KeyError> {
        let mut rules = self.rules.write();
        let mut new = Rules::new(settings, &rules.issuers)?;
        new.inherit_tokens(&rules.tokens);
        let new = Arc::new(new);
        *rules = new.clone();
        drop(rules);
        self.revoke_unless(|entry| {
            let is_issuer = new.issuers.iter().any(|issuer| Arc::ptr_eq(issuer, &entry.issuer));
            is_issuer
                && !new.denied.contains(entry.principal.name())
                && new.check_binding(&entry.principal).is_ok()
        });
        Ok(())
    }

    /// Waits for the end of the second in which the verifier was created, if it has issuers. Until then
    /// a proof dated in whole seconds could be from an earlier process, and needs a nonce. A server
    /// waits before it listens.
    pub async fn wait_for_fresh_proofs(&self) {
        if !self.rules().issuers.is_empty() {
            self.proofs.wait_for_fresh_proofs().await;
        }
    }

    /// Refreshes the key sets of all issuers at their intervals, and revokes tokens whose key was
    /// removed. Run it beside the server; it does not return.
    pub async fn refresh_keys(&self) {
        loop {
            let rules = self.rules();
            let pause = rules.issuers.iter().map(|issuer| issuer.settings.refresh).min();
            for issuer in &rules.issuers {
                if let Err(error) = issuer.fetch_keys(issuer.settings.refresh / 2).await {
                    tracing::warn!(%error, "cannot fetch the keys of an issuer");
                }
            }
            self.revoke_unless(|entry| entry.issuer.has_key(&entry.key));
            tokio::time::sleep(
                pause.unwrap_or(IDLE_INTERVAL).clamp(MINIMUM_INTERVAL, IDLE_INTERVAL),
            )
            .await;
        }
    }

    /// Revokes all verified JWTs but those to keep.
    fn revoke_unless(&self, is_kept: impl Fn(&Entry) -> bool) {
        self.verified.lock().by_hash.retain(|_, entry| {
            let is_kept = is_kept(entry);
            if !is_kept {
                entry.principal.revoke();
            }
            is_kept
        });
    }

    /// Looks up a static token or a JWT that was verified before.
    fn find(&self, rules: &Rules, hash: TokenHash) -> Option<Result<Principal, TokenRejected>> {
        let checked = |principal: &Principal| match principal.is_valid() {
            true => Ok(principal.clone()),
            false => Err(TokenRejected::Expired),
        };
        if let Some(principal) = rules.tokens.find_hash(hash) {
            return Some(checked(principal));
        }
        self.verified.lock().by_hash.get(&hash).map(|entry| checked(&entry.principal))
    }

    /// Caches a verified JWT, if the current settings still accept it.
    fn store(
        &self,
        hash: TokenHash,
        issuer: &Arc<Issuer>,
        verified: Result<VerifiedToken, TokenRejected>,
    ) -> Result<Principal, TokenRejected> {
        let VerifiedToken { principal, key } = verified?;
        // Locked before the rules are read: a concurrent `replace` revokes after it has set new rules.
        let mut verified = self.verified.lock();
        let rules = self.rules();
        let is_issuer = rules.issuers.iter().any(|known| Arc::ptr_eq(known, issuer));
        if !is_issuer || rules.denied.contains(principal.name()) {
            return Err(TokenRejected::Unknown);
        }
        rules.check_binding(&principal)?;
        verified.sweep();
        // A concurrent request may have stored it first; all requests share one principal.
        let entry = Entry { principal, issuer: issuer.clone(), key };
        Ok(verified.by_hash.entry(hash).or_insert(entry).principal.clone())
    }

    fn rules(&self) -> Arc<Rules> {
        self.rules.read().clone()
    }
}

impl Verifier for TokenVerifier {
    fn verify<'a>(&'a self, token: &'a str) -> Verification<'a> {
        let (rules, hash) = (self.rules(), TokenHash::of(token));
        if let Some(known) = self.find(&rules, hash) {
            return Verification::Now(known);
        }
        let Some((issuer, header)) = rules.issuer_of(token) else {
            return Verification::Now(Err(TokenRejected::Unknown));
        };
        match issuer.verify(&header, token) {
            Some(verified) => Verification::Now(self.store(hash, &issuer, verified)),
            None => Verification::Later(Box::pin(async move {
                let verified = issuer.verify_with_new_keys(&header, token).await;
                self.store(hash, &issuer, verified)
            })),
        }
    }

    fn verify_proof(
        &self,
        proof: &str,
        request: &ProofContext<'_>,
    ) -> Result<Option<String>, ProofRejected> {
        let verified = self.proofs.verify(&self.rules().dpop, proof, request);
        if let Err(rejected) = &verified {
            tracing::debug!(%rejected, "proof of possession rejected");
        }
        verified
    }

    fn proof_nonce(&self) -> Option<String> {
        self.rules().dpop.requires_nonce.then(|| self.proofs.nonce())
    }

    /// Revoked and expired principals are no longer valid.
    fn is_still_valid(&self, principal: &Principal) -> bool {
        principal.is_valid()
    }

    fn requirements(&self) -> Arc<TokenRequirements> {
        self.rules().terms.clone()
    }
}

impl fmt::Debug for TokenVerifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.rules();
        let issuers: Vec<_> = rules.issuers.iter().map(|issuer| &issuer.settings.name).collect();
        formatter
            .debug_struct("TokenVerifier")
            .field("tokens", &rules.tokens)
            .field("issuers", &issuers)
            .finish_non_exhaustive()
    }
}

impl Rules {
    /// Creates rules. Unchanged issuers keep their keys, and with them their tokens.
    fn new(settings: VerifierSettings, before: &[Arc<Issuer>]) -> Result<Self, KeyError> {
        let VerifierSettings { tokens, issuers, denied, mut scopes, dpop } = settings;
        let issuers: Result<Vec<_>, _> = issuers
            .into_iter()
            .map(|settings| match before.iter().find(|issuer| issuer.settings == settings) {
                Some(same) => Ok(same.clone()),
                None => Issuer::new(settings).map(Arc::new),
            })
            .collect();
        let issuers = issuers?;
        let mut terms = TokenRequirements::default();
        for issuer in &issuers {
            terms.authorization_servers.push(issuer.settings.issuer.clone());
            terms.required_scopes.extend(issuer.settings.required_scopes.iter().cloned());
        }
        scopes.extend(terms.required_scopes.iter().cloned());
        for list in [&mut scopes, &mut terms.required_scopes] {
            list.sort_unstable();
            list.dedup();
        }
        terms.scopes = scopes;
        terms.proofs = (!issuers.is_empty()).then(|| ProofRequirements {
            algorithms: dpop.algorithms.iter().map(|one| format!("{one:?}")).collect(),
            is_required: dpop.is_required,
        });
        let allowed = tokens.iter().filter(|(_, principal)| !denied.contains(principal.name()));
        let tokens = allowed.map(|(hash, principal)| (hash, principal.clone())).collect();
        Ok(Self { tokens, issuers, denied, dpop, terms: Arc::new(terms) })
    }

    /// Checks that a token is bound to a key, if it must be.
    fn check_binding(&self, principal: &Principal) -> Result<(), TokenRejected> {
        match self.dpop.is_required && principal.bound_key().is_none() {
            true => Err(TokenRejected::NotBound),
            false => Ok(()),
        }
    }

    /// Keeps the principals of unchanged static tokens, and revokes the others.
    fn inherit_tokens(&mut self, before: &StaticTokens) {
        let mut kept = self.tokens.clone();
        for (hash, old) in before.iter() {
            let is_same = self.tokens.find_hash(hash).is_some_and(|new| {
                new == old && new.scopes().eq(old.scopes()) && new.expires() == old.expires()
            });
            if is_same {
                kept = kept.with(hash, old.clone());
            } else {
                old.revoke();
            }
        }
        self.tokens = kept;
    }

    /// Returns the issuer that a JWT claims to be from. The claim is unverified until the signature
    /// has been checked with a key of that issuer.
    fn issuer_of(&self, token: &str) -> Option<(Arc<Issuer>, Header)> {
        if self.issuers.is_empty() {
            return None;
        }
        let header = decode_header(token).ok().filter(claims::is_acceptable)?;
        let claims: Claims = insecure_decode_claims(token).ok()?;
        let claimed = claims.get("iss")?.as_str()?;
        let issuer = self.issuers.iter().find(|issuer| {
            issuer.settings.issuer == claimed && issuer.settings.algorithms.contains(&header.alg)
        });
        Some((issuer?.clone(), header))
    }
}

impl VerifiedTokens {
    /// Removes expired tokens and those without open connections, once the cache is large.
    fn sweep(&mut self) {
        if self.by_hash.len() < self.sweep_at {
            return;
        }
        self.by_hash.retain(|_, entry| entry.principal.is_valid() && entry.principal.holders() > 1);
        self.sweep_at = SWEEP_AT.max(2 * self.by_hash.len());
    }
}

/// Cache size up to which unused tokens are kept.
const SWEEP_AT: usize = 16 * 1024;

/// Refresh interval while no issuer is configured.
const IDLE_INTERVAL: Duration = Duration::from_secs(60);

const MINIMUM_INTERVAL: Duration = Duration::from_secs(1);
