//! Durability, encryption, and files that cannot be used.

use std::path::Path;

use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_session::store::{Filter, LastTurn, PageRequest, ReplayGuard};
use mcp_flow_session::{Store, StoreError, Timestamp};
use mcp_flow_store_sqlite::{SqliteStore, StoreOpenError};
use mcp_flow_testkit_store::{append, id, noted, started};

/// INT-113: neither answers nor owners are in the files in plain text, which only the owner can
/// read.
#[tokio::test]
async fn events_are_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let store = SqliteStore::open(&path).unwrap();
    store.append(append(id(1), 0, vec![started("ada lovelace"), noted(1)])).await.unwrap();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let content = std::fs::read(&path).unwrap();
        for text in ["ada lovelace", "so it was written", "sample"] {
            let found = content.windows(text.len()).any(|bytes| bytes == text.as_bytes());
            assert!(!found, "{text} is in {}", path.display());
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", path.display());
        }
    }
}

/// Acknowledged events are there after the store is opened again, with rotated keys too; not with
/// other keys.
#[tokio::test]
async fn journals_survive_a_restart_and_need_their_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let store = SqliteStore::open_with_keys(&path, keys(1)).unwrap();
    store.append(append(id(1), 0, vec![started("ada"), noted(1)])).await.unwrap();
    let until = Timestamp::from_millis(100);
    let turn = LastTurn { id: id(2), turn: u64::MAX, until, at: Timestamp::from_millis(0) };
    store.keep_turn(turn).await.unwrap();
    drop(store);
    assert!(matches!(open(&path, keys(2)), Err(StoreOpenError::WrongKey)));
    let mut rotated = keys(1);
    rotated.rotate(Key::from_bytes([2; 32]));
    let store = SqliteStore::open_with_keys(&path, rotated).unwrap();
    assert_eq!(store.read(id(1)).await.unwrap(), [started("ada"), noted(1)]);
    assert_eq!(store.last_turn(id(2)).await.unwrap(), Some(u64::MAX));
    drop(store);
    // Without the old key the store opens, and sessions of that key are damaged.
    let store = SqliteStore::open_with_keys(&path, keys(2)).unwrap();
    assert!(matches!(store.read(id(1)).await, Err(StoreError::Damaged(_))));
    let page = PageRequest { after: None, most: 10 };
    assert_eq!(store.list(Filter::default(), page).await.unwrap(), []);
}

/// Files that are no database, are damaged, or were written by a newer version are refused with the
/// reason, and left as they are.
#[tokio::test]
async fn other_files_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let text = "something else entirely, and long enough to be looked at".repeat(200);
    std::fs::write(&path, &text).unwrap();
    let refused = open(&path, keys(1)).unwrap_err();
    assert!(matches!(refused, StoreOpenError::Damaged(_)), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);

    let path = folder.path().join("newer.db");
    drop(SqliteStore::open_with_keys(&path, keys(1)).unwrap());
    let database = rusqlite::Connection::open(&path).unwrap();
    database.pragma_update(None, "user_version", 2).unwrap();
    drop(database);
    let refused = open(&path, keys(1)).unwrap_err();
    assert!(matches!(refused, StoreOpenError::Format { found: 2, known: 1 }), "{refused:?}");

    let path = folder.path().join("damaged.db");
    let store = SqliteStore::open_with_keys(&path, keys(1)).unwrap();
    for number in 0..50 {
        store.append(append(id(number), 0, vec![started("ada"), noted(1)])).await.unwrap();
    }
    drop(store);
    let whole = std::fs::read(&path).unwrap();
    for from in [0, 100, 4096, 8192, whole.len() / 2] {
        let mut damaged = whole.clone();
        damaged[from..].iter_mut().for_each(|byte| *byte = 0x5a);
        std::fs::write(&path, &damaged).unwrap();
        // Refused as a whole, or by session; never a panic.
        if let Ok(store) = open(&path, keys(1)) {
            for number in 0..50 {
                let _ = store.read(id(number)).await;
                let _ = store.erase(id(number)).await;
            }
        }
    }
}

fn open(path: &Path, keys: KeyRing) -> Result<SqliteStore, StoreOpenError> {
    SqliteStore::open_with_keys(path, keys)
}

fn keys(number: u8) -> KeyRing {
    KeyRing::new(Key::from_bytes([number; 32]))
}
