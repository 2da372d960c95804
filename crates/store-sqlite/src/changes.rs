//! Changes by other processes, found by polling.
//!
//! SQLite counts commits of other connections in `data_version`, which takes microseconds to read.
//! Only when it has changed are the new rows read.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow_seal::KeyRing;
use mcp_flow_session::Epoch;
use mcp_flow_session::store::{StoreChange, StoreChanges};
use mcp_flow_store_rows::open_message;
use rusqlite::{Connection, params};
use tokio::sync::mpsc;

use crate::schema::connect;
use crate::session_id;

/// Changes by other processes. A thread looks for them until this is dropped.
pub(crate) struct Changes {
    receiver: mpsc::Receiver<StoreChange>,
}

impl Changes {
    pub(crate) fn start(path: &Path, keys: &Arc<KeyRing>, of: Epoch) -> Self {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        let mut poller = Poller {
            path: path.to_owned(),
            keys: Arc::clone(keys),
            of,
            connection: None,
            version: 0,
            journal: 0,
            message: 0,
        };
        let poll = move || poller.run(&sender);
        if let Err(error) = std::thread::Builder::new().name("changes".into()).spawn(poll) {
            tracing::error!(%error, "cannot look for changes by other processes");
        }
        Self { receiver }
    }
}

impl StoreChanges for Changes {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = StoreChange> + Send + '_>> {
        Box::pin(async {
            match self.receiver.recv().await {
                Some(change) => change,
                // Without a thread the engine has to look itself, now and then.
                None => {
                    tokio::time::sleep(SLOWEST).await;
                    StoreChange::Missed
                }
            }
        })
    }
}

struct Poller {
    path: PathBuf,
    keys: Arc<KeyRing>,
    of: Epoch,
    connection: Option<Connection>,
    version: i64,
    /// Last row of the journal that was seen.
    journal: i64,
    /// Last message that was seen.
    message: i64,
}

impl Poller {
    fn run(&mut self, sender: &mpsc::Sender<StoreChange>) {
        let mut pause = FASTEST;
        while !sender.is_closed() {
            match self.poll() {
                Ok(changes) if changes.is_empty() => pause = (pause * 5 / 4).min(SLOWEST),
                Ok(changes) => {
                    pause = FASTEST;
                    for change in changes {
                        if sender.blocking_send(change).is_err() {
                            return;
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot look for changes by other processes; retrying");
                    self.connection = None;
                    pause = SLOWEST;
                }
            }
            std::thread::sleep(pause);
        }
    }

    /// Returns what has changed since the last call.
    fn poll(&mut self) -> rusqlite::Result<Vec<StoreChange>> {
        let is_new = self.connection.is_none();
        let connection = match &mut self.connection {
            Some(connection) => connection,
            closed => closed.insert(connect(&self.path, false)?),
        };
        let version = connection.query_row("PRAGMA data_version", [], |row| row.get(0))?;
        if !is_new && version == self.version {
            return Ok(Vec::new());
        }
        self.version = version;
        let last = |table: &str| -> rusqlite::Result<i64> {
            let last = format!("SELECT seq FROM sqlite_sequence WHERE name = '{table}'");
            let mut last = connection.prepare_cached(&last)?;
            let mut rows = last.query([])?;
            rows.next()?.map_or(Ok(0), |row| row.get(0))
        };
        let (journal, message) = (last("journal")?, last("message")?);
        if is_new {
            (self.journal, self.message) = (journal, message);
            return Ok(vec![StoreChange::Missed]);
        }
        let mut changes = Vec::new();
        if journal - self.journal > MISSED {
            changes.push(StoreChange::Missed);
        } else if journal > self.journal {
            let rows = "SELECT DISTINCT session FROM journal WHERE row > ?1 AND row <= ?2 \
                        AND node <> ?3";
            let mut rows = connection.prepare_cached(rows)?;
            let range = params![self.journal, journal, self.of.number()];
            for id in rows.query_map(range, |row| row.get(0))? {
                changes.push(StoreChange::Session(session_id(id?)));
            }
        }
        let messages = "SELECT value FROM message WHERE number > ?1 AND number <= ?2 \
                        AND (recipient IS NULL OR recipient = ?3)";
        let mut messages = connection.prepare_cached(messages)?;
        let range = params![self.message, message, self.of.number()];
        for value in messages.query_map(range, |row| row.get::<_, Vec<u8>>(0))? {
            changes.extend(open_message(&self.keys, &value?).map(StoreChange::Posted));
        }
        (self.journal, self.message) = (journal, message);
        Ok(changes)
    }
}

/// Pause between two looks while other processes are active, and the longest otherwise.
const FASTEST: Duration = Duration::from_millis(10);
const SLOWEST: Duration = Duration::from_millis(100);

/// Rows that are not read one by one.
const MISSED: i64 = 10_000;

/// Changes that wait for the engine.
const CAPACITY: usize = 1024;
