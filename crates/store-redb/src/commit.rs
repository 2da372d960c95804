//! Group commit: writes that arrive during a commit share the next one.

use mcp_flow_session::store::LastTurn;
use mcp_flow_session::{SessionId, StoreError};
use mcp_flow_store_rows::row::owner;
use mcp_flow_store_rows::{JournalRow, RowHeader};
use redb::{Database, ReadableDatabase, ReadableTable};
use tokio::sync::{mpsc, oneshot};

use crate::database::JournalDatabase;
use crate::error::store_error;
use crate::replay_guard;
use crate::tables::{JOURNAL, META, Tables};

/// A write, and the channel for its result.
pub(crate) struct Job {
    write: Write,
    done: oneshot::Sender<Result<(), StoreError>>,
}

/// A write.
pub(crate) enum Write {
    Append(JournalRow),
    Erase(SessionId),
    /// Records the last turn of a client-held session.
    Turn(LastTurn),
    /// Moves entries of `deadlines` from these times to the sessions' deadlines.
    Reindex(Vec<(u64, SessionId)>),
    /// Writes this many bytes, in place of the probe before.
    Probe(usize),
}

impl Job {
    pub(crate) fn new(write: Write) -> (Self, oneshot::Receiver<Result<(), StoreError>>) {
        let (done, waiting) = oneshot::channel();
        (Self { write, done }, waiting)
    }
}

/// Runs the writer thread until its channel is closed.
pub(crate) fn run(journals: &JournalDatabase, mut incoming: mpsc::Receiver<Job>) {
    let mut jobs = Vec::with_capacity(BATCH_LIMIT);
    while incoming.blocking_recv_many(&mut jobs, BATCH_LIMIT) > 0 {
        // Committed apart, because a probe may fail where the others would not.
        let (probes, writes): (Vec<_>, Vec<_>) = jobs.drain(..).partition(Job::is_probe);
        for together in [writes, probes].into_iter().filter(|together| !together.is_empty()) {
            write_batch(journals, together);
        }
    }
}

fn write_batch(journals: &JournalDatabase, jobs: Vec<Job>) {
    let size = jobs.iter().map(Job::size).sum();
    let committed = journals.with(|database| commit(database, &jobs));
    // A failed probe does not raise the size that has to succeed.
    if committed.is_ok() || !jobs.iter().all(Job::is_probe) {
        journals.record_write(size, committed.is_ok());
    }
    let written = match committed {
        Ok(written) => written,
        Err(error) => recover(journals, &jobs, error),
    };
    for (job, written) in jobs.into_iter().zip(written) {
        // The caller may have gone away.
        let _ = job.done.send(written);
    }
}

type Written = Vec<Result<(), StoreError>>;

/// Commits all writes in one transaction. A conflict fails only its own write.
fn commit(database: &Database, jobs: &[Job]) -> Result<Written, redb::Error> {
    let mut transaction = database.begin_write()?;
    // Halves the speed of a single commit, but recovery after a crash takes constant time.
    transaction.set_quick_repair(true);
    let mut written = Vec::with_capacity(jobs.len());
    {
        let mut tables = Tables::open(&transaction)?;
        for job in jobs {
            written.push(match &job.write {
                Write::Append(row) => tables.append(row)?,
                Write::Erase(id) => {
                    tables.erase(*id)?;
                    Ok(())
                }
                Write::Turn(turn) => {
                    replay_guard::keep(&transaction, turn)?;
                    Ok(())
                }
                Write::Reindex(moved) => {
                    for (time, id) in moved {
                        tables.reindex(*time, *id)?;
                    }
                    Ok(())
                }
                Write::Probe(size) => {
                    let mut meta = transaction.open_table(META)?;
                    match size {
                        0 => drop(meta.remove(PROBE)?),
                        _ => drop(meta.insert(PROBE, vec![0; *size].as_slice())?),
                    }
                    Ok(())
                }
            });
        }
    }
    transaction.commit()?;
    Ok(written)
}

/// Reopens the database after a failed commit, and reads which writes are in it.
fn recover(journals: &JournalDatabase, jobs: &[Job], error: redb::Error) -> Written {
    tracing::error!(%error, "cannot write to the store");
    let error = store_error(error);
    let committed = match journals.reopen() {
        Ok(()) => {
            journals.with(|database| jobs.iter().map(|job| job.is_committed(database)).collect())
        }
        Err(error) => Err(error),
    };
    let committed: Vec<bool> = committed.unwrap_or_else(|error| {
        tracing::error!(%error, "cannot reopen the store");
        vec![false; jobs.len()]
    });
    committed
        .into_iter()
        .map(|committed| match (committed, &error) {
            (true, _) => Ok(()),
            (false, StoreError::Full) => Err(StoreError::Full),
            (false, error) => Err(StoreError::Backend(error.to_string().into())),
        })
        .collect()
}

impl Job {
    fn is_probe(&self) -> bool {
        matches!(self.write, Write::Probe(_))
    }

    /// Approximate bytes on the disk.
    fn size(&self) -> usize {
        match &self.write {
            Write::Append(row) => row.body.len() + PAGE,
            Write::Probe(size) => *size,
            Write::Erase(_) | Write::Turn(_) | Write::Reindex(_) => PAGE,
        }
    }

    /// Returns whether this was committed.
    fn is_committed(&self, database: &Database) -> Result<bool, redb::Error> {
        let row = match &self.write {
            Write::Append(row) => row,
            Write::Turn(turn) => return replay_guard::is_kept(database, turn),
            Write::Erase(_) | Write::Reindex(_) | Write::Probe(_) => return Ok(false),
        };
        let journal = database.begin_read()?.open_table(JOURNAL)?;
        let key = (row.id.bits(), row.position());
        let value = journal.get(key)?;
        // Every seal has fresh random bytes, so the content identifies the row.
        Ok(value.is_some_and(|value| {
            RowHeader::split(value.value()).is_some_and(|(_, body)| body == row.body)
        }))
    }
}

impl Tables<'_> {
    fn append(&mut self, row: &JournalRow) -> Result<Result<(), StoreError>, redb::Error> {
        let id = row.id.bits();
        let last = self.last(id)?;
        // Nothing follows an end, even if it left as many events as were expected.
        let has_ended = last.is_some_and(|(_, header)| header.state.is_final());
        if has_ended || last.map_or(0, |(_, header)| header.length) != row.expected {
            return Ok(Err(StoreError::Conflict(row.id)));
        }
        let before = last.map(|(_, header)| header);
        if row.replace {
            self.remove_rows(id)?;
        }
        if before.is_none() {
            self.owners.insert((row.owner, id), ())?;
        }
        let (was, is) =
            (before.is_some_and(|header| header.state.is_working()), row.header.state.is_working());
        if is && !was {
            self.working.insert(id, ())?;
        } else if was && !is {
            self.working.remove(id)?;
        }
        if row.header.state.is_final() {
            self.ended.insert(id, ())?;
        }
        let indexed = before.and_then(|header| header.indexed);
        let header =
            RowHeader { indexed: self.index(id, indexed, row.header.deadline)?, ..row.header };
        let value = header.join(&row.body);
        self.journal.insert((id, row.position()), value.as_slice())?;
        Ok(Ok(()))
    }

    /// Ensures an entry in `deadlines` no later than the deadline of a session, and returns its
    /// time. An entry that is too early is moved when it comes up.
    fn index(
        &mut self,
        id: u128,
        indexed: Option<u64>,
        deadline: Option<u64>,
    ) -> Result<Option<u64>, redb::Error> {
        match (indexed, deadline) {
            (Some(indexed), Some(deadline)) if indexed <= deadline => Ok(Some(indexed)),
            (_, None) => Ok(indexed),
            (indexed, Some(deadline)) => {
                if let Some(indexed) = indexed {
                    self.deadlines.remove((indexed, id))?;
                }
                self.deadlines.insert((deadline, id), ())?;
                Ok(Some(deadline))
            }
        }
    }

    fn reindex(&mut self, time: u64, id: SessionId) -> Result<(), redb::Error> {
        let id = id.bits();
        self.deadlines.remove((time, id))?;
        let Some((position, header)) = self.last(id)? else { return Ok(()) };
        if let Some(deadline) = header.deadline {
            self.deadlines.insert((deadline, id), ())?;
        }
        let value = match self.journal.get((id, position))? {
            Some(value) => value.value().to_vec(),
            None => return Ok(()),
        };
        if let Some((header, body)) = RowHeader::split(&value) {
            let header = RowHeader { indexed: header.deadline, ..header };
            self.journal.insert((id, position), header.join(body).as_slice())?;
        }
        Ok(())
    }

    fn erase(&mut self, id: SessionId) -> Result<(), redb::Error> {
        let id = id.bits();
        let Some((_, header)) = self.last(id)? else { return Ok(()) };
        let owner = self.journal.get((id, 0))?.and_then(|first| owner(first.value()));
        if let Some(owner) = owner {
            self.owners.remove((owner, id))?;
        }
        self.remove_rows(id)?;
        self.working.remove(id)?;
        self.ended.remove(id)?;
        if let Some(indexed) = header.indexed {
            self.deadlines.remove((indexed, id))?;
        }
        Ok(())
    }

    fn remove_rows(&mut self, id: u128) -> Result<(), redb::Error> {
        self.journal.retain_in((id, 0)..=(id, u32::MAX), |_, _| false)?;
        Ok(())
    }

    /// Returns the last row of a session.
    fn last(&self, id: u128) -> Result<Option<(u32, RowHeader)>, redb::Error> {
        let Some(row) = self.journal.range((id, 0)..=(id, u32::MAX))?.next_back() else {
            return Ok(None);
        };
        let (key, value) = row?;
        let header = RowHeader::split(value.value()).map(|(header, _)| header);
        match header {
            Some(header) => Ok(Some((key.value().1, header))),
            None => {
                Err(redb::Error::Corrupted(format!("the row at {:?} has no header", key.value())))
            }
        }
    }
}

/// Key of the probe in [`META`].
const PROBE: &str = "probe";

/// Size of a page of the database.
const PAGE: usize = 4096;

/// Most writes of one commit.
const BATCH_LIMIT: usize = 1024;
