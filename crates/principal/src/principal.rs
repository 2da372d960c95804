//! Principals: the authenticated identities that calls are made for.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::RwLock;
use tokio_util::sync::CancellationToken;

use crate::permissions::Grants;

/// The authenticated identity a call is made for.
///
/// It never comes from what a client says of itself: a transport derives it from credentials it has
/// verified. Without authentication, all callers on the local machine are the principal `local`
/// (C-53).
///
/// Principals are equal if their names are, whatever their credentials: a session belongs to the
/// principal that started it, not to a token.
///
/// ```
/// use mcp_flow_principal::Principal;
///
/// let ada = Principal::named("ada").scoped(["files:read"]);
/// assert_eq!(ada, Principal::named("ada"));
/// assert!(ada.has_scope("files:read") && ada.is_valid());
///
/// ada.revoke();
/// assert!(!ada.is_valid());
/// ```
#[derive(Clone)]
pub struct Principal(Arc<Details>);

struct Details {
    name: Box<str>,
    scopes: Box<[Box<str>]>,
    expires: Option<SystemTime>,
    /// Thumbprint of the key that the credential is bound to.
    bound_key: Option<Box<str>>,
    revocation: Arc<Revocation>,
    /// The permissions evaluated last, for one set of rules.
    granted: RwLock<Option<Grants>>,
}

/// Revocation of a credential.
#[derive(Default)]
struct Revocation {
    /// Mirrors the token below, which takes a lock, for the check on every request.
    is_done: AtomicBool,
    done: CancellationToken,
}

impl Principal {
    /// A principal by name.
    pub fn named(name: &str) -> Self {
        Self(Arc::new(Details {
            name: name.into(),
            scopes: Box::default(),
            expires: None,
            bound_key: None,
            revocation: Arc::default(),
            granted: RwLock::new(None),
        }))
    }

    /// The principal of callers on this machine that were not asked for credentials.
    pub fn local() -> Self {
        Self::named(LOCAL)
    }

    /// The same principal by a credential with these scopes.
    #[must_use]
    pub fn scoped<T: AsRef<str>>(self, scopes: impl IntoIterator<Item = T>) -> Self {
        let scopes = scopes.into_iter().map(|scope| scope.as_ref().into()).collect();
        Self(Arc::new(Details { scopes, ..self.details() }))
    }

    /// The same principal by a credential that expires then.
    #[must_use]
    pub fn until(self, expires: SystemTime) -> Self {
        Self(Arc::new(Details { expires: Some(expires), ..self.details() }))
    }

    /// The same principal by a credential bound to the key with this thumbprint (RFC 7638): each
    /// request must prove possession of the key.
    #[must_use]
    pub fn bound_to(self, thumbprint: &str) -> Self {
        Self(Arc::new(Details { bound_key: Some(thumbprint.into()), ..self.details() }))
    }

    fn details(&self) -> Details {
        Details {
            name: self.0.name.clone(),
            scopes: self.0.scopes.clone(),
            expires: self.0.expires,
            bound_key: self.0.bound_key.clone(),
            revocation: self.0.revocation.clone(),
            granted: RwLock::new(None),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The scopes of its credential.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.0.scopes.iter().map(|scope| &**scope)
    }

    /// Returns whether its credential has a scope.
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes().any(|known| known == scope)
    }

    /// The expiry of its credential, if it has one.
    pub fn expires(&self) -> Option<SystemTime> {
        self.0.expires
    }

    /// The thumbprint of the key that its credential is bound to, if it is bound.
    pub fn bound_key(&self) -> Option<&str> {
        self.0.bound_key.as_deref()
    }

    /// Revokes the credential wherever it is in use.
    pub fn revoke(&self) {
        self.0.revocation.is_done.store(true, Ordering::Release);
        self.0.revocation.done.cancel();
    }

    /// Returns whether its credential has neither expired nor been revoked.
    pub fn is_valid(&self) -> bool {
        let has_ended = |expires: SystemTime| expires <= SystemTime::now();
        !self.0.revocation.is_done.load(Ordering::Acquire) && !self.0.expires.is_some_and(has_ended)
    }

    /// Completes when its credential expires or is revoked.
    pub async fn invalidated(&self) {
        let expiry = async {
            let Some(expires) = self.0.expires else { return std::future::pending().await };
            // In steps, because the wall clock may be set meanwhile.
            while let Ok(left) = expires.duration_since(SystemTime::now()) {
                tokio::time::sleep(left.min(STEP)).await;
            }
        };
        tokio::select! {
            () = expiry => {}
            () = self.0.revocation.done.cancelled() => {}
        }
    }

    /// The number of holders of this credential, its verifier included.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Reads the permissions evaluated for this set of rules, if they were.
    pub(crate) fn cached_grants<T>(
        &self,
        number: u64,
        look: impl FnOnce(&Grants) -> T,
    ) -> Option<T> {
        let granted = self.0.granted.read();
        granted.as_ref().filter(|granted| granted.number() == number).map(look)
    }

    pub(crate) fn cache_grants(&self, granted: Grants) {
        *self.0.granted.write() = Some(granted);
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Principal {}

impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Principal").field(&self.name()).finish()
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Checks that a principal can have this name. A colon separates the name of an issuer, and `local`
/// is reserved for callers without credentials.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    let is_plain = |character: char| !character.is_control() && !":*!".contains(character);
    match name {
        "" => Err("the name is empty"),
        LOCAL => Err("`local` is reserved for callers without credentials"),
        name if name.len() > MAX_NAME_LENGTH => Err("the name is longer than 128 bytes"),
        name if !name.chars().all(is_plain) => {
            Err("a name cannot contain `:`, `*`, `!` or control characters")
        }
        _ => Ok(()),
    }
}

const LOCAL: &str = "local";

const MAX_NAME_LENGTH: usize = 128;

/// Longest sleep while waiting for the expiry of a credential.
const STEP: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::{Principal, check_name};

    /// C-46: a credential ends by expiry or revocation, for all that hold it.
    #[tokio::test(start_paused = true)]
    async fn credentials_expire_and_are_revoked() {
        let soon = SystemTime::now() + Duration::from_millis(1);
        let ending = Principal::named("ada").until(soon);
        while ending.is_valid() {
            std::thread::yield_now();
        }
        ending.invalidated().await;
        let revoked = Principal::named("ada");
        let other = revoked.clone();
        revoked.revoke();
        other.invalidated().await;
        assert!(!other.is_valid() && Principal::named("ada").is_valid());
    }

    #[test]
    fn reserved_names_are_rejected() {
        assert!(check_name("ada").is_ok());
        for name in ["", "local", "corp:ada", "a*", "!a", "a\n", &"a".repeat(129)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }
}
