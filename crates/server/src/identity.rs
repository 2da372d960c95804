//! Who is calling, by which right, and for how long.

mod verifier;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use mcp_flow_proto::Revision;
use mcp_flow_proto::model::{ClientCapabilities, Implementation};
use tokio_util::sync::CancellationToken;

use crate::permissions::Granted;
pub use verifier::{Refused, Terms, Verifier, Verifying};

/// Whom a call is made for, as the server has established it.
///
/// Nothing a client says of itself makes a principal; a transport does, from credentials it has
/// checked. Without any, callers on one's own machine are all the same principal, `local` (C-53).
///
/// Two are equal if they have one name, whatever their credentials: a session belongs to who began
/// it, not to the token it was begun with.
///
/// ```
/// use mcp_flow_server::Principal;
///
/// let ada = Principal::named("ada").scoped(["files:read"]);
/// assert_eq!(ada, Principal::named("ada"));
/// assert!(ada.has_scope("files:read") && ada.is_good());
///
/// ada.revoke();
/// assert!(!ada.is_good());
/// ```
#[derive(Clone)]
pub struct Principal(Arc<Details>);

struct Details {
    name: Box<str>,
    scopes: Box<[Box<str>]>,
    expires: Option<SystemTime>,
    revocation: Arc<Revocation>,
    /// What it may do by the rules that were looked at last.
    granted: RwLock<Option<Granted>>,
}

/// Whether a credential was taken back.
#[derive(Default)]
struct Revocation {
    /// The same as the event below, for who asks with every request: a look at that takes a lock.
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
            revocation: Arc::default(),
            granted: RwLock::new(None),
        }))
    }

    /// Everyone on this machine who was not asked for credentials.
    pub fn local() -> Self {
        Self::named(LOCAL)
    }

    /// The same by a credential with these scopes.
    #[must_use]
    pub fn scoped<T: AsRef<str>>(self, scopes: impl IntoIterator<Item = T>) -> Self {
        let scopes = scopes.into_iter().map(|scope| scope.as_ref().into()).collect();
        Self(Arc::new(Details { scopes, ..self.details() }))
    }

    /// The same by a credential that ends then.
    #[must_use]
    pub fn until(self, expires: SystemTime) -> Self {
        Self(Arc::new(Details { expires: Some(expires), ..self.details() }))
    }

    fn details(&self) -> Details {
        Details {
            name: self.0.name.clone(),
            scopes: self.0.scopes.clone(),
            expires: self.0.expires,
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

    /// Whether its credential has a scope.
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes().any(|known| known == scope)
    }

    /// When its credential ends, if it does.
    pub fn expires(&self) -> Option<SystemTime> {
        self.0.expires
    }

    /// Takes the credential back, wherever it is in use.
    pub fn revoke(&self) {
        self.0.revocation.is_done.store(true, Ordering::Release);
        self.0.revocation.done.cancel();
    }

    /// Whether its credential has neither ended nor been taken back.
    pub fn is_good(&self) -> bool {
        let has_ended = |expires: SystemTime| expires <= SystemTime::now();
        !self.0.revocation.is_done.load(Ordering::Acquire) && !self.0.expires.is_some_and(has_ended)
    }

    /// Completes when its credential ends or is taken back.
    pub async fn lapsed(&self) {
        let expiry = async {
            let Some(expires) = self.0.expires else { return std::future::pending().await };
            // In steps, since the clock of the day may be set meanwhile.
            while let Ok(left) = expires.duration_since(SystemTime::now()) {
                tokio::time::sleep(left.min(STEP)).await;
            }
        };
        tokio::select! {
            () = expiry => {}
            () = self.0.revocation.done.cancelled() => {}
        }
    }

    /// How many hold this very credential, its verifier included.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Looks at what it was found to be granted by the rules of this number.
    pub(crate) fn granted<T>(&self, number: u64, look: impl FnOnce(&Granted) -> T) -> Option<T> {
        let granted = self.0.granted.read().unwrap_or_else(PoisonError::into_inner);
        granted.as_ref().filter(|granted| granted.number() == number).map(look)
    }

    pub(crate) fn note_granted(&self, granted: Granted) {
        *self.0.granted.write().unwrap_or_else(PoisonError::into_inner) = Some(granted);
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

/// Whether a name can be given to a principal. What comes before a colon is the name of an issuer,
/// and `local` is everyone who was not asked.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    let is_plain = |character: char| !character.is_control() && !":*!".contains(character);
    match name {
        "" => Err("it needs a name"),
        LOCAL => Err("`local` is the name of everyone who is not asked for credentials"),
        name if name.len() > LONGEST_NAME => Err("its name is too long"),
        name if !name.chars().all(is_plain) => Err("a name has none of `:`, `*` and `!`"),
        _ => Ok(()),
    }
}

/// What a client says of itself: good for display and for choosing a form, never for rights
/// (PAT-011).
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// The revision its requests are written in.
    pub revision: Revision,
    /// Its name and version, if it gave them.
    pub client: Option<Implementation>,
    /// What it can do.
    pub capabilities: ClientCapabilities,
}

impl Peer {
    /// The client's name, or "unknown" (C-22).
    pub fn name(&self) -> &str {
        self.client.as_ref().map_or("unknown", |client| &client.name)
    }
}

const LOCAL: &str = "local";

const LONGEST_NAME: usize = 128;

/// How long is waited at once for the end of a credential.
const STEP: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::{Principal, check_name};

    /// C-46: a credential ends by its time or by being taken back, for all that hold it.
    #[tokio::test(start_paused = true)]
    async fn credentials_end() {
        let soon = SystemTime::now() + Duration::from_millis(1);
        let ending = Principal::named("ada").until(soon);
        while ending.is_good() {
            std::thread::yield_now();
        }
        ending.lapsed().await;
        let revoked = Principal::named("ada");
        let other = revoked.clone();
        revoked.revoke();
        other.lapsed().await;
        assert!(!other.is_good() && Principal::named("ada").is_good());
    }

    #[test]
    fn names_that_mean_something_else_are_refused() {
        assert!(check_name("ada").is_ok());
        for name in ["", "local", "corp:ada", "a*", "!a", "a\n", &"a".repeat(129)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }
}
