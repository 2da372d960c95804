//! Durability: crashes, full disks, panics, damaged files, keys.

use std::sync::Arc;

use crate::support::{Disk, keys, occurrences};
use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_session::store::{Append, Filter, LastTurn, PageRequest, Phase, ReplayGuard};
use mcp_flow_session::{SessionId, State, Store, StoreError, Timestamp};
use mcp_flow_store_redb::{RedbStore, StoreOpenError};
use mcp_flow_testkit_store::crash::Witness;
use mcp_flow_testkit_store::{Opened, append, id, noted, started, summary};

/// After a crash at any disk operation, a reopened store has everything it acknowledged, and no
/// partial writes.
#[tokio::test]
async fn a_crash_after_any_write_loses_nothing_acknowledged() {
    for torn in [false, true] {
        let mut complete = false;
        let mut operations = 0;
        while !complete {
            assert!(operations < 10_000, "it is never done");
            let disk = Disk::new();
            drop(open(&disk, keys(1)).unwrap());
            disk.stop_after(operations);
            let witness = match open(&disk, keys(1)) {
                Ok(store) => Witness::write(&store).await,
                Err(_) => Witness::default(),
            };
            complete = witness.is_complete();
            disk.crash(torn);
            let store = open(&disk, keys(1)).unwrap();
            witness.check(&store).await;
            operations += 1;
        }
        assert!(operations > 30, "it should have crashed in the middle of something");
    }
}

/// A full disk is reported. Acknowledged events stay, and writes succeed once there is space.
#[tokio::test]
async fn a_full_disk_is_reported_and_survived() {
    let disk = Disk::new();
    let store = open(&disk, keys(1)).unwrap();
    store.append(append(id(1), 0, vec![started("ada")])).await.unwrap();
    disk.room(Some(disk.size()));
    let mut length = 1;
    let refused = loop {
        let events = (0..200).map(|number| noted(length + number)).collect();
        match store.append(append(id(1), length, events)).await {
            Ok(()) => length += 200,
            Err(error) => break error,
        }
        assert!(length < 1_000_000, "a disk without room takes everything");
    };
    assert!(matches!(refused, StoreError::Full), "{refused:?}");
    // A small write fits, which does not make the store healthy.
    store.erase(id(2)).await.unwrap();
    for _ in 0..40 {
        let probed = store.probe().await;
        assert!(matches!(probed, Err(StoreError::Full)), "{probed:?}");
    }
    assert_eq!(store.read(id(1)).await.unwrap().len(), length);
    // Failed probes do not raise the size that has to succeed.
    disk.room(Some(disk.size() + 4 * 1024 * 1024));
    store.probe().await.unwrap();
    disk.room(None);
    store.probe().await.unwrap();
    let events = (0..200).map(noted).collect();
    store.append(append(id(1), length, events)).await.unwrap();
    assert_eq!(store.read(id(1)).await.unwrap().len(), length + 200);
    drop(store);
    let store = open(&disk, keys(1)).unwrap();
    assert_eq!(store.read(id(1)).await.unwrap().len(), length + 200);
}

/// A write that panics, and a database that panics again when it is closed, end neither the writer
/// nor the store.
#[tokio::test]
async fn a_panic_while_writing_is_survived() {
    let disk = Disk::new();
    let store = open(&disk, keys(1)).unwrap();
    store.append(append(id(1), 0, vec![started("ada")])).await.unwrap();
    disk.panics(true);
    let failed = store.append(append(id(1), 1, vec![noted(1)])).await;
    assert!(matches!(failed, Err(StoreError::Backend(_))), "{failed:?}");
    disk.panics(false);
    store.append(append(id(1), 1, vec![noted(1)])).await.unwrap();
    assert_eq!(store.read(id(1)).await.unwrap().len(), 2);
}

/// INT-113: neither answers nor owners are in the file in plain text.
#[tokio::test]
async fn events_are_encrypted() {
    let disk = Disk::new();
    let store = open(&disk, keys(1)).unwrap();
    store.append(append(id(1), 0, vec![started("ada lovelace"), noted(1)])).await.unwrap();
    let write = Append {
        summary: summary("ada lovelace", State::WaitingUser, Some(5)),
        ..append(id(2), 0, vec![started("ada lovelace"), noted(1)])
    };
    store.append(write).await.unwrap();
    drop(store);
    let found = occurrences(&disk.content(), &["ada lovelace", "so it was written", "sample"]);
    assert!(found.values().all(|count| *count == 0), "{found:?}");
}

/// INT-113: a store does not open with the wrong key, and opens with a rotated ring.
#[tokio::test]
async fn keys_can_be_rotated_but_must_match() {
    let disk = Disk::new();
    let store = open(&disk, keys(1)).unwrap();
    store.append(append(id(1), 0, vec![started("ada"), noted(1)])).await.unwrap();
    drop(store);
    assert!(matches!(open(&disk, keys(2)), Err(StoreOpenError::WrongKey)));

    let mut rotated = keys(1);
    rotated.rotate(Key::from_bytes([2; 32]));
    let store = open(&disk, rotated.clone()).unwrap();
    store.append(append(id(1), 2, vec![noted(2)])).await.unwrap();
    assert_eq!(store.read(id(1)).await.unwrap().len(), 3);
    drop(store);
    // Without the old key the store opens, and sessions of that key are damaged.
    let store = open(&disk, keys(2)).unwrap();
    assert!(matches!(store.read(id(1)).await, Err(StoreError::Damaged(_))));
    store.append(append(id(2), 0, vec![started("ada")])).await.unwrap();
    assert_eq!(store.read(id(2)).await.unwrap(), [started("ada")]);
    let listed = store.list(Filter::default(), PageRequest { after: None, most: 1 }).await.unwrap();
    assert_eq!(listed.iter().map(|listed| listed.id).collect::<Vec<_>>(), [id(2)]);
    store.erase(id(1)).await.unwrap();
    assert_eq!(store.read(id(1)).await.unwrap(), []);
}

/// INT-133, C-43: records of client-held sessions survive a restart, and are removed when they
/// expire.
#[tokio::test]
async fn replay_records_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.redb");
    let path = path.to_str().unwrap();
    let turn = |number: u128, turn: u64, until: u64, at: u64| LastTurn {
        id: id(number),
        turn,
        until: Timestamp::from_millis(until),
        at: Timestamp::from_millis(at),
    };
    let store = RedbStore::open(path).unwrap();
    assert_eq!(store.last_turn(id(1)).await.unwrap(), None);
    for kept in [turn(1, 3, 100, 0), turn(2, 5, 100, 0), turn(1, 7, 200, 50)] {
        store.keep_turn(kept).await.unwrap();
    }
    drop(store);
    let store = RedbStore::open(path).unwrap();
    assert_eq!(store.last_turn(id(1)).await.unwrap(), Some(7));
    assert_eq!(store.last_turn(id(2)).await.unwrap(), Some(5));
    assert_eq!(store.read(id(1)).await.unwrap(), [], "it is no journal");
    store.keep_turn(turn(3, 1, 300, 150)).await.unwrap();
    assert_eq!(store.last_turn(id(1)).await.unwrap(), Some(7));
    assert_eq!(store.last_turn(id(2)).await.unwrap(), None);
}

/// A second process cannot open the store, and gets the reason.
#[tokio::test]
async fn a_second_process_cannot_open_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/journal.redb");
    let store = RedbStore::open(&path).unwrap();
    let refused = RedbStore::open(&path).unwrap_err();
    assert!(matches!(refused, StoreOpenError::InUse), "{refused}");
    store.append(append(id(1), 0, vec![started("ada")])).await.unwrap();
    drop(store);
    let store = RedbStore::open(&path).unwrap();
    assert_eq!(store.read(id(1)).await.unwrap(), [started("ada")]);
}

/// A process killed while creating the file leaves only a temporary file, which the next one
/// removes.
#[tokio::test]
async fn leftovers_of_an_interrupted_creation_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.redb");
    let left = folder.path().join("journal.redb.0123456789abcdef.new");
    let other = folder.path().join("journal.redb.notes");
    std::fs::write(&left, vec![0; 4096]).unwrap();
    std::fs::write(&other, "not ours").unwrap();
    let store = RedbStore::open(&path).unwrap();
    store.append(append(id(1), 0, vec![started("ada")])).await.unwrap();
    assert!(!left.exists() && other.exists());
    drop(store);
    let mut names: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["journal.key", "journal.redb", "journal.redb.notes"]);
}

/// The key file is created once, readable by its owner only, and required afterwards.
#[tokio::test]
async fn the_key_file_is_created_once_and_private() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.redb");
    drop(RedbStore::open(&path).unwrap());
    let key = mcp_flow_store_redb::keys::path(&path);
    #[cfg(unix)]
    for path in [&path, &key] {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    std::fs::remove_file(&key).unwrap();
    let refused = RedbStore::open(&path).unwrap_err();
    assert!(matches!(refused, StoreOpenError::MissingKey(_)), "{refused}");
    assert!(!key.exists(), "a new key would only hide that the old one is missing");
}

/// A file that is no store, or of a newer format, is rejected.
#[tokio::test]
async fn other_files_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.redb");
    std::fs::write(&path, "something else entirely, and long enough to be looked at".repeat(200))
        .unwrap();
    assert!(RedbStore::open_with_keys(&path, keys(1)).is_err());

    let disk = Disk::new();
    drop(open(&disk, keys(1)).unwrap());
    let database = redb::Builder::new().create_with_backend(disk.plug()).unwrap();
    let writing = database.begin_write().unwrap();
    let meta = redb::TableDefinition::<&str, &[u8]>::new("meta");
    writing.open_table(meta).unwrap().insert("format", 2_u32.to_le_bytes().as_slice()).unwrap();
    writing.commit().unwrap();
    drop(database);
    let refused = open(&disk, keys(1)).unwrap_err();
    assert!(matches!(refused, StoreOpenError::Format { found: 2, known: 1 }), "{refused}");
}

/// A damaged file is rejected as a whole or by session, without a panic.
#[tokio::test]
async fn a_damaged_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.redb");
    let store = RedbStore::open_with_keys(&path, keys(1)).unwrap();
    for number in 0..50 {
        store.append(append(id(number), 0, vec![started("ada"), noted(1)])).await.unwrap();
    }
    drop(store);
    let whole = std::fs::read(&path).unwrap();
    let mut refused = 0;
    // A deterministic generator, so that every run has the same damage.
    let mut random = 1_u32;
    let mut noise = move || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        random.to_be_bytes()[0]
    };
    for from in [0, 64, 4096, 8192, 16_384, 65_536, whole.len() / 2] {
        let mut damaged = whole.clone();
        damaged[from..].iter_mut().for_each(|byte| *byte = noise());
        std::fs::write(&path, &damaged).unwrap();
        match RedbStore::open_with_keys(&path, keys(1)) {
            Err(StoreOpenError::Damaged(_)) => refused += 1,
            Err(other) => panic!("from {from}: {other:?}"),
            Ok(store) => {
                for number in 0..50 {
                    let _ = store.read(id(number)).await;
                    let _ = store.erase(id(number)).await;
                }
            }
        }
    }
    assert!(refused >= 3, "{refused} of the damaged files were refused");
}

/// A row that was modified, moved or removed is detected.
#[tokio::test]
async fn tampering_is_detected() {
    let journal = redb::TableDefinition::<(u128, u32), &[u8]>::new("journal");
    type Change = fn(&mut redb::Table<'_, (u128, u32), &'static [u8]>, Vec<u8>, Vec<u8>);
    let first = (id(1).bits(), 0);
    let changes: [Change; 4] = [
        |table, mut one, _| {
            *one.last_mut().unwrap() ^= 1;
            table.insert((id(1).bits(), 0), one.as_slice()).unwrap();
        },
        |table, mut one, _| {
            one[0] ^= 1;
            table.insert((id(1).bits(), 0), one.as_slice()).unwrap();
        },
        |table, _, two| {
            table.insert((id(1).bits(), 0), two.as_slice()).unwrap();
        },
        |table, _, _| {
            table.remove((id(1).bits(), 0)).unwrap();
        },
    ];
    for change in changes {
        let disk = Disk::new();
        let store = open(&disk, keys(1)).unwrap();
        for number in [1, 2] {
            store.append(append(id(number), 0, vec![started("ada")])).await.unwrap();
            store.append(append(id(number), 1, vec![noted(1)])).await.unwrap();
        }
        drop(store);
        let database = redb::Builder::new().create_with_backend(disk.plug()).unwrap();
        let writing = database.begin_write().unwrap();
        {
            use redb::ReadableTable;
            let mut table = writing.open_table(journal).unwrap();
            let one = table.get(first).unwrap().unwrap().value().to_vec();
            let two = table.get((id(2).bits(), 0)).unwrap().unwrap().value().to_vec();
            change(&mut table, one, two);
        }
        writing.commit().unwrap();
        drop(database);
        let store = open(&disk, keys(1)).unwrap();
        let read = store.read(id(1)).await;
        assert!(matches!(read, Err(StoreError::Damaged(_))), "{read:?}");
        assert_eq!(store.read(id(2)).await.unwrap().len(), 2, "others are not affected");
    }
}

/// The index of working sessions survives a crash.
#[tokio::test]
async fn indexes_survive_a_crash() {
    let disk = Disk::new();
    let store = open(&disk, keys(1)).unwrap();
    for number in 0..20_u64 {
        let state = if number % 10 == 3 { State::Processing } else { State::WaitingUser };
        let write = Append {
            summary: summary("ada", state, Some(number)),
            ..append(id(number.into()), 0, vec![started("ada")])
        };
        store.append(write).await.unwrap();
    }
    disk.crash(false);
    let store = open(&disk, keys(1)).unwrap();
    let filter = Filter { owner: None, phase: Phase::Working };
    let working = store.list(filter, PageRequest { after: None, most: 10 }).await.unwrap();
    let mut working: Vec<SessionId> = working.into_iter().map(|listed| listed.id).collect();
    working.sort_unstable();
    let mut expected = [id(3), id(13)];
    expected.sort_unstable();
    assert_eq!(working, expected);
    let due = store.due(Timestamp::from_millis(2), 10).await.unwrap();
    assert_eq!(due, [id(0), id(1), id(2)]);
}

fn open(disk: &Disk, keys: KeyRing) -> Result<Opened, StoreOpenError> {
    let disk = disk.clone();
    let store =
        RedbStore::open_from(move |builder| builder.create_with_backend(disk.plug()), keys)?;
    Ok(Arc::new(store))
}
