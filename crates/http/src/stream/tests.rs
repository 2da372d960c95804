//! Streams of events, without a network.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};

use super::{Budget, EventStream, parse_id};

/// What is read can be read again from any event on, and ends where the stream does.
#[tokio::test]
async fn a_stream_is_read_again_from_any_event() {
    let stream = stream(1000);
    ["a", "b", "c"].iter().for_each(|message| stream.write(message.as_bytes()));
    stream.finish();
    for (position, expected) in [(0, "abc"), (1, "bc"), (2, "c"), (3, ""), (99, ""), (0, "abc")] {
        assert_eq!(read(&stream, position).await, expected, "after {position}");
    }
}

/// Without a reader the oldest events are given up, but never the only one.
#[tokio::test]
async fn what_is_kept_is_bounded() {
    let stream = stream(100);
    for message in ["a", "b", "c", "d", "e", "f"] {
        stream.write(message.as_bytes());
    }
    stream.finish();
    assert_eq!(read(&stream, 0).await, "def");
    let alone = self::stream(100);
    alone.write(&[b'x'; 200]);
    assert!(alone.budget.is_exceeded());
    alone.write(b"y");
    alone.finish();
    assert_eq!(read(&alone, 0).await, "y");
}

/// Streams of one session share what may be kept.
#[tokio::test]
async fn streams_share_a_budget() {
    let first = stream(100);
    let second = EventStream::new(2, first.budget.clone());
    first.write(&[b'x'; 100]);
    second.write(b"y");
    second.write(b"z");
    first.finish();
    second.finish();
    assert_eq!(read(&second, 0).await, "", "the first one has used it up");
    assert_eq!(read(&first, 0).await.len(), 100);
    drop(first);
    assert!(!second.budget.is_exceeded());
}

/// While someone reads, the writer waits for them, until they are gone.
#[tokio::test]
async fn a_writer_waits_for_its_reader() {
    let stream = stream(100);
    let mut reader = Box::pin(stream.read_after(0, false, Duration::MAX));
    let long = vec![b'x'; super::MOST_UNREAD];
    stream.write(&long);
    assert!(stream.room().now_or_never().is_none());
    reader.next().await.unwrap();
    assert!(stream.room().now_or_never().is_some());
    stream.write(&long);
    drop(reader);
    assert!(stream.room().now_or_never().is_some());
}

/// The newest reader takes over, and the one before ends.
#[tokio::test]
async fn the_newest_reader_takes_over() {
    let stream = stream(1000);
    let mut old = pin!(stream.read_after(0, false, Duration::MAX));
    stream.write(b"a");
    assert!(old.next().await.is_some());
    let mut new = pin!(stream.read_after(1, false, Duration::MAX));
    assert!(old.next().await.is_none());
    stream.write(b"b");
    assert!(new.next().await.is_some());
    assert!(stream.is_attached());
}

/// A quiet stream shows that it is alive.
#[tokio::test(start_paused = true)]
async fn a_quiet_stream_is_kept_alive() {
    let stream = stream(1000);
    let mut reader = pin!(stream.read_after(0, true, Duration::from_secs(15)));
    assert_eq!(reader.next().await.unwrap(), "id: 1-0\nretry: 1000\ndata: \n\n");
    assert_eq!(reader.next().await.unwrap(), ":\n\n");
}

#[test]
fn ids_are_read_back() {
    assert_eq!(parse_id("3-17"), Some((3, 17)));
    for bad in ["", "3", "-", "3-", "a-1", "3--1", "99999999999999999999-1"] {
        assert_eq!(parse_id(bad), None, "{bad}");
    }
}

fn stream(limit: usize) -> Arc<EventStream> {
    EventStream::new(1, Budget::new(limit))
}

/// The data of all events after a position.
async fn read(stream: &Arc<EventStream>, position: u64) -> String {
    let mut reader = pin!(stream.read_after(position, false, Duration::MAX));
    let mut all = String::new();
    while let Some(event) = reader.next().await {
        let text = String::from_utf8(event.to_vec()).unwrap();
        all += text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    }
    all
}
