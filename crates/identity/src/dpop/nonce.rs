//! Nonces for proofs: authenticated periods of time, so that none must be stored.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use subtle::ConstantTimeEq as _;

/// Issues nonces and recognizes its own.
pub(crate) struct NonceIssuer {
    /// None if there is no randomness; then no nonce is ever accepted.
    key: Option<hmac::Key>,
}

impl NonceIssuer {
    pub(crate) fn new() -> Self {
        Self { key: hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok() }
    }

    /// Returns the nonce of a time since 1970.
    pub(crate) fn current(&self, time: Duration) -> String {
        self.of_period(period(time)).unwrap_or_default()
    }

    /// Returns whether a nonce is that of the current period, or of the one before; none if of
    /// neither.
    pub(crate) fn is_current(&self, nonce: &str, time: Duration) -> Option<bool> {
        let current = period(time);
        let is_of = |period: u64| {
            self.of_period(period).is_some_and(|own| own.as_bytes().ct_eq(nonce.as_bytes()).into())
        };
        if is_of(current) {
            return Some(true);
        }
        current.checked_sub(1).is_some_and(is_of).then_some(false)
    }

    fn of_period(&self, period: u64) -> Option<String> {
        let tag = hmac::sign(self.key.as_ref()?, &period.to_be_bytes());
        Some(URL_SAFE_NO_PAD.encode(&tag.as_ref()[..18]))
    }
}

fn period(time: Duration) -> u64 {
    time.as_secs() / PERIOD
}

/// Seconds for which a nonce is issued. It is accepted for as long again.
const PERIOD: u64 = 120;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::NonceIssuer;

    /// A nonce is accepted for one period more than it is issued, and by its issuer only.
    #[test]
    fn nonces_expire() {
        let (issuer, other) = (NonceIssuer::new(), NonceIssuer::new());
        let at = |seconds: u64| Duration::from_secs(1_200_000 + seconds);
        let nonce = issuer.current(at(0));
        for (seconds, expected) in [
            (0, Some(true)),
            (119, Some(true)),
            (120, Some(false)),
            (239, Some(false)),
            (240, None),
        ] {
            assert_eq!(issuer.is_current(&nonce, at(seconds)), expected, "{seconds}");
        }
        assert_eq!(other.is_current(&nonce, at(0)), None);
        assert_eq!(issuer.is_current("", at(0)), None);
    }
}
