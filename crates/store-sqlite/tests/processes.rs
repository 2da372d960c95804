//! Several writers on one file.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_session::Store;
use mcp_flow_store_sqlite::SqliteStore;
use mcp_flow_testkit_store::{append, id, noted, started};
use tokio::sync::Barrier;

/// Three writers at full speed take turns: when the first has finished, none is far behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_writer_starves() {
    const WRITERS: usize = 3;
    const APPENDS: usize = 100;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let stores: Vec<_> = (0..WRITERS)
        .map(|_| {
            let keys = KeyRing::new(Key::from_bytes([1; 32]));
            Arc::new(SqliteStore::open_with_keys(&path, keys).unwrap())
        })
        .collect();
    let together = Arc::new(Barrier::new(WRITERS));
    let counts: Arc<Vec<_>> = Arc::new((0..WRITERS).map(|_| AtomicUsize::new(0)).collect());
    let mut writers = tokio::task::JoinSet::new();
    for (writer, store) in stores.into_iter().enumerate() {
        let (together, counts) = (Arc::clone(&together), Arc::clone(&counts));
        writers.spawn(async move {
            let session = id(writer as u128);
            store.append(append(session, 0, vec![started("ada")])).await.unwrap();
            together.wait().await;
            for length in 1..=APPENDS {
                store.append(append(session, length, vec![noted(length)])).await.unwrap();
                counts[writer].store(length, Ordering::SeqCst);
            }
            counts.iter().map(|count| count.load(Ordering::SeqCst)).min().unwrap()
        });
    }
    let least = writers.join_all().await.into_iter().min().unwrap();
    assert!(least >= APPENDS / 10, "one writer had {APPENDS} turns and another {least}");
}
