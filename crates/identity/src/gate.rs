//! The gate: every token that is good, known by its hash.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::{Header, decode_header};
use mcp_flow_server::identity::Verification;
use mcp_flow_server::identity::{TokenRejected, TokenRequirements};
use mcp_flow_server::permissions::Names;
use mcp_flow_server::{Principal, StaticTokens, TokenHash, Verifier};

use crate::claims::{self, Claims};
use crate::issuer::{Issuer, IssuerSettings, Judged};
use crate::keys::{Key, KeyError};

/// Who is let in.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Tokens that were handed over by hand.
    pub tokens: StaticTokens,
    /// Issuers of signed tokens.
    pub issuers: Vec<IssuerSettings>,
    /// Principals that are not let in, whatever their token.
    pub denied: Names,
    /// The scopes that mean something here, for clients to know what they may ask for.
    pub scopes: Vec<String>,
}

/// Lets those in whose token is good, and forgets nobody who is inside.
pub struct Gate {
    rules: RwLock<Arc<Rules>>,
    /// Signed tokens that were found good.
    seen: Mutex<Seen>,
}

struct Rules {
    tokens: StaticTokens,
    issuers: Vec<Arc<Issuer>>,
    denied: Names,
    terms: Arc<TokenRequirements>,
}

struct Seen {
    by_hash: HashMap<TokenHash, Entry>,
    /// At which number of them those are looked for that nobody uses.
    sweep_at: usize,
}

struct Entry {
    principal: Principal,
    issuer: Arc<Issuer>,
    key: Arc<Key>,
}

impl Gate {
    /// Opens a gate. Keys that are in files are read; those at URLs are fetched when needed.
    pub fn new(settings: Settings) -> Result<Self, KeyError> {
        crate::crypto::install();
        let rules = RwLock::new(Arc::new(Rules::new(settings, &[])?));
        let seen = Mutex::new(Seen { by_hash: HashMap::new(), sweep_at: SWEEP_AT });
        Ok(Self { rules, seen })
    }

    /// Lets others in from now on. Who is inside by a token that is still good stays; the tokens of
    /// all others are taken back. With an error nothing has changed.
    pub fn replace(&self, settings: Settings) -> Result<(), KeyError> {
        let mut rules = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        let mut new = Rules::new(settings, &rules.issuers)?;
        new.take_over(&rules.tokens);
        let new = Arc::new(new);
        *rules = new.clone();
        drop(rules);
        self.take_back(|entry| {
            let is_issuer = new.issuers.iter().any(|issuer| Arc::ptr_eq(issuer, &entry.issuer));
            is_issuer && !new.denied.have(entry.principal.name())
        });
        Ok(())
    }

    /// Looks up the keys of all issuers again and again, and takes tokens back whose keys are gone.
    /// To be run beside the server.
    pub async fn keep_keys_fresh(&self) {
        loop {
            let rules = self.rules();
            let pause = rules.issuers.iter().map(|issuer| issuer.settings.refresh).min();
            for issuer in &rules.issuers {
                if let Err(error) = issuer.look_up(issuer.settings.refresh / 2).await {
                    tracing::warn!(%error, "an issuer's keys could not be looked up");
                }
            }
            self.take_back(|entry| entry.issuer.has(&entry.key));
            tokio::time::sleep(pause.unwrap_or(IDLE).clamp(SHORTEST_PAUSE, IDLE)).await;
        }
    }

    /// Takes back all signed tokens but some.
    fn take_back(&self, is_kept: impl Fn(&Entry) -> bool) {
        self.seen().by_hash.retain(|_, entry| {
            let is_kept = is_kept(entry);
            if !is_kept {
                entry.principal.revoke();
            }
            is_kept
        });
    }

    /// Whom a token stands for that was seen before, or is known by hand.
    fn recall(&self, rules: &Rules, hash: TokenHash) -> Option<Result<Principal, TokenRejected>> {
        let good = |principal: &Principal| match principal.is_valid() {
            true => Ok(principal.clone()),
            false => Err(TokenRejected::Expired),
        };
        if let Some(principal) = rules.tokens.find_hash(hash) {
            return Some(good(principal));
        }
        self.seen().by_hash.get(&hash).map(|entry| good(&entry.principal))
    }

    /// Remembers a token that was found good, if it still is by the rules of now.
    fn remember(
        &self,
        hash: TokenHash,
        issuer: &Arc<Issuer>,
        judged: Result<Judged, TokenRejected>,
    ) -> Result<Principal, TokenRejected> {
        let Judged { principal, key } = judged?;
        // Held from here on: new rules that come meanwhile look at what is seen afterwards.
        let mut seen = self.seen();
        let rules = self.rules();
        let is_issuer = rules.issuers.iter().any(|known| Arc::ptr_eq(known, issuer));
        if !is_issuer || rules.denied.have(principal.name()) {
            return Err(TokenRejected::Unknown);
        }
        seen.sweep();
        // Another request may have come first; all are to hold the same.
        let entry = Entry { principal, issuer: issuer.clone(), key };
        Ok(seen.by_hash.entry(hash).or_insert(entry).principal.clone())
    }

    fn rules(&self) -> Arc<Rules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Verifier for Gate {
    fn verify<'a>(&'a self, token: &'a str) -> Verification<'a> {
        let (rules, hash) = (self.rules(), TokenHash::of(token));
        if let Some(known) = self.recall(&rules, hash) {
            return Verification::Now(known);
        }
        let Some((issuer, header)) = rules.issuer_of(token) else {
            return Verification::Now(Err(TokenRejected::Unknown));
        };
        match issuer.judge(&header, token) {
            Some(judged) => Verification::Now(self.remember(hash, &issuer, judged)),
            None => Verification::Later(Box::pin(async move {
                let judged = issuer.judge_with_new_keys(&header, token).await;
                self.remember(hash, &issuer, judged)
            })),
        }
    }

    /// What is taken back is not good any more.
    fn is_still_valid(&self, principal: &Principal) -> bool {
        principal.is_valid()
    }

    fn requirements(&self) -> Arc<TokenRequirements> {
        self.rules().terms.clone()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.rules();
        let issuers: Vec<_> = rules.issuers.iter().map(|issuer| &issuer.settings.name).collect();
        formatter
            .debug_struct("Gate")
            .field("tokens", &rules.tokens)
            .field("issuers", &issuers)
            .finish_non_exhaustive()
    }
}

impl Rules {
    /// Issuers that are the same as before keep their keys, and with them their tokens.
    fn new(settings: Settings, before: &[Arc<Issuer>]) -> Result<Self, KeyError> {
        let Settings { tokens, issuers, denied, mut scopes } = settings;
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
        let allowed = tokens.iter().filter(|(_, principal)| !denied.have(principal.name()));
        let tokens = allowed.map(|(hash, principal)| (hash, principal.clone())).collect();
        Ok(Self { tokens, issuers, denied, terms: Arc::new(terms) })
    }

    /// Keeps the principals of tokens that mean the same as before, and takes the others back.
    fn take_over(&mut self, before: &StaticTokens) {
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

    /// The issuer a signed token says it is from. It is not believed before the signature is
    /// checked by a key of that issuer's.
    fn issuer_of(&self, token: &str) -> Option<(Arc<Issuer>, Header)> {
        if self.issuers.is_empty() {
            return None;
        }
        let header = decode_header(token).ok().filter(claims::is_acceptable)?;
        let claims: Claims = insecure_decode_claims(token).ok()?;
        let said = claims.get("iss")?.as_str()?;
        let issuer = self.issuers.iter().find(|issuer| {
            issuer.settings.issuer == said && issuer.settings.algorithms.contains(&header.alg)
        });
        Some((issuer?.clone(), header))
    }
}

impl Seen {
    /// Forgets tokens that have ended, and those that nobody holds if there are many.
    fn sweep(&mut self) {
        if self.by_hash.len() < self.sweep_at {
            return;
        }
        self.by_hash.retain(|_, entry| entry.principal.is_valid() && entry.principal.holders() > 1);
        self.sweep_at = SWEEP_AT.max(2 * self.by_hash.len());
    }
}

/// So many tokens that nobody holds at the moment are remembered.
const SWEEP_AT: usize = 16 * 1024;

/// How often is looked whether there are issuers, if there are none.
const IDLE: Duration = Duration::from_secs(60);

const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
