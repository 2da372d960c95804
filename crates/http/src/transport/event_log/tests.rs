//! Event logs, without a network.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};

use super::{Budget, EventLog, parse_id};

/// Events can be read again after any event id.
#[tokio::test]
async fn a_log_is_resumed_after_any_event() {
    let log = log(1000);
    ["a", "b", "c"].iter().for_each(|message| log.append(message.as_bytes()));
    log.finish();
    for (position, expected) in [(0, "abc"), (1, "bc"), (2, "c"), (3, ""), (99, ""), (0, "abc")] {
        assert_eq!(read(&log, position).await, expected, "after {position}");
    }
}

/// Without a reader the oldest events are dropped, but never the only one.
#[tokio::test]
async fn a_log_is_bounded() {
    let log = log(100);
    for message in ["a", "b", "c", "d", "e", "f"] {
        log.append(message.as_bytes());
    }
    log.finish();
    assert_eq!(read(&log, 0).await, "def");
    let alone = self::log(100);
    alone.append(&[b'x'; 200]);
    assert!(alone.budget.is_exceeded());
    alone.append(b"y");
    alone.finish();
    assert_eq!(read(&alone, 0).await, "y");
}

/// Logs of one session share a byte limit.
#[tokio::test]
async fn logs_share_a_budget() {
    let first = log(100);
    let second = EventLog::new(2, first.budget.clone());
    first.append(&[b'x'; 100]);
    second.append(b"y");
    second.append(b"z");
    first.finish();
    second.finish();
    assert_eq!(read(&second, 0).await, "", "the first one has used it up");
    assert_eq!(read(&first, 0).await.len(), 100);
    drop(first);
    assert!(!second.budget.is_exceeded());
}

/// A writer waits for its reader, until the reader disconnects.
#[tokio::test]
async fn a_writer_waits_for_its_reader() {
    let log = log(100);
    let mut reader = Box::pin(log.read_after(0, false, Duration::MAX));
    let long = vec![b'x'; super::MAX_UNREAD];
    log.append(&long);
    assert!(log.room().now_or_never().is_none());
    reader.next().await.unwrap();
    assert!(log.room().now_or_never().is_some());
    log.append(&long);
    drop(reader);
    assert!(log.room().now_or_never().is_some());
}

/// The newest reader takes over, and the log of the one before ends.
#[tokio::test]
async fn the_newest_reader_takes_over() {
    let log = log(1000);
    let mut old = pin!(log.read_after(0, false, Duration::MAX));
    log.append(b"a");
    assert!(old.next().await.is_some());
    let mut new = pin!(log.read_after(1, false, Duration::MAX));
    assert!(old.next().await.is_none());
    log.append(b"b");
    assert!(new.next().await.is_some());
    assert!(log.is_attached());
}

/// A quiet log carries keep-alives.
#[tokio::test(start_paused = true)]
async fn quiet_streams_are_kept_alive() {
    let log = log(1000);
    let mut reader = pin!(log.read_after(0, true, Duration::from_secs(15)));
    assert_eq!(reader.next().await.unwrap(), "id: 1-0\nretry: 1000\ndata: \n\n");
    assert_eq!(reader.next().await.unwrap(), ":\n\n");
}

#[test]
fn event_ids_are_parsed() {
    assert_eq!(parse_id("3-17"), Some((3, 17)));
    for bad in ["", "3", "-", "3-", "a-1", "3--1", "99999999999999999999-1"] {
        assert_eq!(parse_id(bad), None, "{bad}");
    }
}

fn log(limit: usize) -> Arc<EventLog> {
    EventLog::new(1, Budget::new(limit))
}

/// Returns the data of all events after a position.
async fn read(log: &Arc<EventLog>, position: u64) -> String {
    let mut reader = pin!(log.read_after(position, false, Duration::MAX));
    let mut all = String::new();
    while let Some(event) = reader.next().await {
        let text = String::from_utf8(event.to_vec()).unwrap();
        all += text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    }
    all
}
