//! Sliding window of the sequence numbers received from one sender.

use super::EnvelopeError;

/// Sliding window of received sequence numbers; older ones count as received.
#[derive(Debug)]
pub(super) struct ReplayWindow {
    /// One more than the highest number received.
    next: u64,
    /// Bitmap of the latest numbers, by their remainder.
    seen: Box<[u64; WORDS]>,
}

impl ReplayWindow {
    pub(super) fn new() -> Self {
        Self { next: 0, seen: Box::new([0; WORDS]) }
    }

    /// Accepts a number once, in any order.
    pub(super) fn accept(&mut self, number: u64) -> Result<(), EnvelopeError> {
        let next = number.checked_add(1).ok_or(EnvelopeError::Repeated)?;
        if next > self.next {
            // Numbers in between were not received; their bits may be set from earlier ones.
            let skipped = (next - self.next).min(WINDOW);
            for passed in next - skipped..next {
                self.mark(passed, false);
            }
            self.next = next;
        } else if self.next - number > WINDOW || self.is_marked(number) {
            return Err(EnvelopeError::Repeated);
        }
        self.mark(number, true);
        Ok(())
    }

    /// Accepts the next number only.
    pub(super) fn accept_next(&mut self, number: u64) -> Result<(), EnvelopeError> {
        let expected = self.next;
        match number {
            _ if number == expected => self.accept(number),
            _ if number < expected => Err(EnvelopeError::Repeated),
            came => Err(EnvelopeError::OutOfOrder { expected, came }),
        }
    }

    fn is_marked(&self, number: u64) -> bool {
        let (word, bit) = bit_of(number);
        self.seen[word] & bit != 0
    }

    fn mark(&mut self, number: u64, seen: bool) {
        let (word, bit) = bit_of(number);
        match seen {
            true => self.seen[word] |= bit,
            false => self.seen[word] &= !bit,
        }
    }
}

fn bit_of(number: u64) -> (usize, u64) {
    let index = number % WINDOW;
    let word = usize::try_from(index / 64).expect("there are few words");
    (word, 1 << (index % 64))
}

const WORDS: usize = 32;

/// Number of later messages that may overtake one.
const WINDOW: u64 = 64 * WORDS as u64;

#[cfg(test)]
mod tests {
    use super::{EnvelopeError, ReplayWindow, WINDOW};

    /// MCP-073: each number is accepted once, however far apart they are.
    #[test]
    fn a_number_is_accepted_once() {
        for order in [
            vec![0, 1, 2, 3],
            vec![3, 2, 1, 0],
            vec![0, WINDOW - 1, 1],
            vec![5, 5 + WINDOW, 6, 6 + WINDOW, 7],
            vec![0, 10 * WINDOW, 9 * WINDOW + 1],
            vec![u64::MAX - 1],
        ] {
            let mut window = ReplayWindow::new();
            for number in &order {
                assert_eq!(window.accept(*number), Ok(()), "{number} of {order:?}");
            }
            for number in &order {
                assert_eq!(
                    window.accept(*number),
                    Err(EnvelopeError::Repeated),
                    "{number} of {order:?}"
                );
            }
        }
    }

    /// MCP-073: a number below the window is rejected.
    #[test]
    fn a_number_below_the_window_is_rejected() {
        let mut window = ReplayWindow::new();
        assert_eq!(window.accept(WINDOW), Ok(()));
        assert_eq!(window.accept(0), Err(EnvelopeError::Repeated));
        assert_eq!(window.accept(1), Ok(()));
        assert_eq!(window.accept(u64::MAX), Err(EnvelopeError::Repeated));
    }

    /// MCP-073: on an ordered transport, only the next number is accepted.
    #[test]
    fn gaps_are_rejected_in_order() {
        let mut window = ReplayWindow::new();
        let ahead = EnvelopeError::OutOfOrder { expected: 0, came: 1 };
        assert_eq!(window.accept_next(1), Err(ahead));
        assert_eq!(window.accept_next(0), Ok(()));
        assert_eq!(window.accept_next(0), Err(EnvelopeError::Repeated));
        assert_eq!(window.accept_next(1), Ok(()));
    }
}
