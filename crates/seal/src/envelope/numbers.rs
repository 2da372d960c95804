//! Which messages of one sender have come.

use super::Refused;

/// Remembers the newest numbers one by one, and takes all before them for seen.
#[derive(Debug)]
pub(super) struct Numbers {
    /// One more than the highest number seen.
    next: u64,
    /// Whether each of the last numbers was seen, by its remainder.
    seen: Box<[u64; WORDS]>,
}

impl Numbers {
    pub(super) fn new() -> Self {
        Self { next: 0, seen: Box::new([0; WORDS]) }
    }

    /// Takes note of a number, in whatever order they come.
    pub(super) fn take(&mut self, number: u64) -> Result<(), Refused> {
        let next = number.checked_add(1).ok_or(Refused::Repeated)?;
        if next > self.next {
            // What lies between has not come, whatever was there a round before.
            let skipped = (next - self.next).min(REMEMBERED);
            for passed in next - skipped..next {
                self.mark(passed, false);
            }
            self.next = next;
        } else if self.next - number > REMEMBERED || self.is_marked(number) {
            return Err(Refused::Repeated);
        }
        self.mark(number, true);
        Ok(())
    }

    /// Takes note of the number whose turn it is, and of no other.
    pub(super) fn take_next(&mut self, number: u64) -> Result<(), Refused> {
        let expected = self.next;
        match number {
            _ if number == expected => self.take(number),
            _ if number < expected => Err(Refused::Repeated),
            came => Err(Refused::OutOfOrder { expected, came }),
        }
    }

    fn is_marked(&self, number: u64) -> bool {
        let (word, bit) = place(number);
        self.seen[word] & bit != 0
    }

    fn mark(&mut self, number: u64, seen: bool) {
        let (word, bit) = place(number);
        match seen {
            true => self.seen[word] |= bit,
            false => self.seen[word] &= !bit,
        }
    }
}

fn place(number: u64) -> (usize, u64) {
    let place = number % REMEMBERED;
    let word = usize::try_from(place / 64).expect("there are few words");
    (word, 1 << (place % 64))
}

const WORDS: usize = 32;

/// How far a message may be overtaken by others of the same sender.
const REMEMBERED: u64 = 64 * WORDS as u64;

#[cfg(test)]
mod tests {
    use super::{Numbers, REMEMBERED, Refused};

    /// MCP-073: each number is good once, however far apart they come.
    #[test]
    fn a_number_is_good_once() {
        for order in [
            vec![0, 1, 2, 3],
            vec![3, 2, 1, 0],
            vec![0, REMEMBERED - 1, 1],
            vec![5, 5 + REMEMBERED, 6, 6 + REMEMBERED, 7],
            vec![0, 10 * REMEMBERED, 9 * REMEMBERED + 1],
            vec![u64::MAX - 1],
        ] {
            let mut numbers = Numbers::new();
            for number in &order {
                assert_eq!(numbers.take(*number), Ok(()), "{number} of {order:?}");
            }
            for number in &order {
                assert_eq!(numbers.take(*number), Err(Refused::Repeated), "{number} of {order:?}");
            }
        }
    }

    /// MCP-073: what was overtaken by too many is not taken any more.
    #[test]
    fn what_is_too_old_counts_as_seen() {
        let mut numbers = Numbers::new();
        assert_eq!(numbers.take(REMEMBERED), Ok(()));
        assert_eq!(numbers.take(0), Err(Refused::Repeated));
        assert_eq!(numbers.take(1), Ok(()));
        assert_eq!(numbers.take(u64::MAX), Err(Refused::Repeated));
    }

    /// MCP-073: in order means in order.
    #[test]
    fn the_next_is_the_next() {
        let mut numbers = Numbers::new();
        let ahead = Refused::OutOfOrder { expected: 0, came: 1 };
        assert_eq!(numbers.take_next(1), Err(ahead));
        assert_eq!(numbers.take_next(0), Ok(()));
        assert_eq!(numbers.take_next(0), Err(Refused::Repeated));
        assert_eq!(numbers.take_next(1), Ok(()));
    }
}
