//! Bounded queue of encoded records that wait for their export.
//!
//! Records are encoded by the thread that made them, outside the lock, and appended to a batch. If the
//! collector does not keep up, further records are dropped and counted: nobody ever waits here.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::protobuf::Encode;

/// Records of one signal: spans, or log records.
#[derive(Debug)]
pub(crate) struct Queue {
    batches: Mutex<Batches>,
    /// Number of records that wait.
    waiting: AtomicUsize,
    max_waiting: usize,
    max_batch: usize,
    dropped: AtomicU64,
    /// Signalled when a batch is full.
    filled: Notify,
}

#[derive(Debug, Default)]
struct Batches {
    full: VecDeque<Batch>,
    open: Batch,
}

/// Encoded records, each as field 2 of the message that holds them.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) records: Vec<u8>,
    pub(crate) count: usize,
}

impl Queue {
    pub(crate) fn new(max_waiting: usize, max_batch: usize) -> Self {
        let max_batch = max_batch.clamp(1, max_waiting.max(1));
        Self {
            batches: Mutex::default(),
            waiting: AtomicUsize::new(0),
            max_waiting: max_waiting.max(1),
            max_batch,
            dropped: AtomicU64::new(0),
            filled: Notify::new(),
        }
    }

    /// Adds a record, or drops and counts it if the queue is full.
    pub(crate) fn push(&self, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.waiting.load(Ordering::Relaxed) >= self.max_waiting {
            self.count_dropped(1);
            return;
        }
        // Taken out while it is in use: what is encoded may log, and be recorded itself.
        let mut scratch = SCRATCH.take();
        scratch.clear();
        encode(&mut scratch);
        match scratch.len() > MAX_RECORD {
            true => self.count_dropped(1),
            false => self.append(&scratch),
        }
        SCRATCH.set(scratch);
    }

    fn append(&self, record: &[u8]) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut batches = self.batches.lock();
        batches.open.records.bytes(2, record);
        batches.open.count += 1;
        if batches.open.count >= self.max_batch {
            let full = std::mem::take(&mut batches.open);
            batches.full.push_back(full);
            drop(batches);
            self.filled.notify_one();
        }
    }

    /// Takes the oldest batch: a full one, or what there is.
    pub(crate) fn take(&self) -> Option<Batch> {
        let mut batches = self.batches.lock();
        let batch = match batches.full.pop_front() {
            Some(full) => full,
            None => std::mem::take(&mut batches.open),
        };
        drop(batches);
        self.waiting.fetch_sub(batch.count, Ordering::Relaxed);
        (batch.count > 0).then_some(batch)
    }

    /// Waits until a batch is full.
    pub(crate) async fn filled(&self) {
        self.filled.notified().await;
    }

    pub(crate) fn count_dropped(&self, count: usize) {
        self.dropped.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Returns the number of records that were dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Longest record, in bytes. With the number of records it bounds the memory of a queue.
const MAX_RECORD: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::{MAX_RECORD, Queue};

    #[test]
    fn records_beyond_the_limit_are_dropped_and_counted() {
        let queue = Queue::new(5, 2);
        for number in 0..8 {
            queue.push(|record| record.push(number));
        }
        queue.push(|record| record.resize(MAX_RECORD + 1, 0));
        assert_eq!(queue.dropped(), 4);
        let mut taken = Vec::new();
        while let Some(batch) = queue.take() {
            taken.push((batch.count, batch.records));
        }
        let record = |number| vec![0x12, 1, number];
        let expected = [
            (2, [record(0), record(1)].concat()),
            (2, [record(2), record(3)].concat()),
            (1, record(4)),
        ];
        assert_eq!(taken, expected);
        queue.push(|record| record.push(9));
        assert_eq!(queue.take().unwrap().count, 1);
        assert_eq!(queue.dropped(), 4);
        queue.push(|record| record.resize(MAX_RECORD + 1, 0));
        assert_eq!(queue.dropped(), 5, "a record that is too long is dropped");
    }
}
