//! Retries of steps.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::StepError;

/// Policy by which a step that failed runs again.
///
/// ```
/// use mcp_flow_engine::Retry;
/// use std::time::Duration;
///
/// let retry = Retry::exponential(5)
///     .initial(Duration::from_secs(1))
///     .max(Duration::from_secs(60))
///     .unless(|error| error.to_string().contains("card declined"));
/// # let _ = retry;
/// ```
#[derive(Clone)]
pub struct Retry {
    attempts: u32,
    initial: Duration,
    max: Duration,
    factor: u32,
    unless: Option<Arc<IsFinal>>,
}

type IsFinal = dyn Fn(&StepError) -> bool + Send + Sync;

impl Retry {
    /// Runs a step up to this many times, and waits twice as long after each failure: a second, two
    /// seconds and so on, up to an hour. 100 times are the most.
    pub fn exponential(attempts: u32) -> Self {
        let (initial, max) = (Duration::from_secs(1), Duration::from_secs(60 * 60));
        Self { attempts: attempts.min(MOST_ATTEMPTS), initial, max, factor: 2, unless: None }
    }

    /// Runs a step up to this many times, and waits equally long after each failure, by default a
    /// second. 100 times are the most.
    pub fn fixed(attempts: u32) -> Self {
        Self { factor: 1, ..Self::exponential(attempts) }
    }

    /// Sets how long to wait after the first failure.
    #[must_use]
    pub fn initial(mut self, wait: Duration) -> Self {
        self.initial = wait;
        self
    }

    /// Sets how long to wait at most. 30 days are the most.
    #[must_use]
    pub fn max(mut self, wait: Duration) -> Self {
        self.max = wait;
        self
    }

    /// Sets which errors are final. Asked once for each failure: a replay follows the journal.
    #[must_use]
    pub fn unless(mut self, is_final: impl Fn(&StepError) -> bool + Send + Sync + 'static) -> Self {
        self.unless = Some(Arc::new(is_final));
        self
    }

    /// Returns how long to wait after this many failures, or none if the last one is final.
    pub(crate) fn wait(&self, failures: u32, error: &StepError) -> Option<Duration> {
        let is_final = self.unless.as_ref().is_some_and(|is_final| is_final(error));
        if failures >= self.attempts || is_final {
            return None;
        }
        let factor = self.factor.saturating_pow(failures.saturating_sub(1));
        let wait = self.initial.saturating_mul(factor).min(self.max).min(LONGEST_WAIT);
        // Up to a tenth less, so that sessions that failed together do not return together.
        let random = getrandom::u32().unwrap_or_default() % 1_000;
        Some(wait - wait / 10_000 * random)
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempts, initial, max, .. } = self;
        write!(formatter, "Retry({attempts} attempts, {initial:?} to {max:?})")
    }
}

const MOST_ATTEMPTS: u32 = 100;
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
