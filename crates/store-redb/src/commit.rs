//! Writing: what arrives while one commit is made durable shares the next.

use mcp_flow_session::store::LastTurn;
use mcp_flow_session::{SessionId, StoreError};
use redb::{Database, ReadableDatabase, ReadableTable};
use tokio::sync::{mpsc, oneshot};

use crate::database::Shelf;
use crate::error::failed;
use crate::row::{Head, Row, owner, position};
use crate::tables::{JOURNAL, META, Tables};
use crate::turns;

/// Something to be written, and who waits for it.
pub(crate) struct Job {
    write: Write,
    done: oneshot::Sender<Result<(), StoreError>>,
}

/// Something to be written.
pub(crate) enum Write {
    Append(Row),
    Erase(SessionId),
    /// The last turn of a session that its client carries.
    Turn(LastTurn),
    /// Puts sessions under their true deadline that stand under this one.
    Reindex(Vec<(u64, SessionId)>),
    /// Takes so many bytes on the disk, in place of those of the probe before.
    Probe(usize),
}

impl Job {
    pub(crate) fn new(write: Write) -> (Self, oneshot::Receiver<Result<(), StoreError>>) {
        let (done, waiting) = oneshot::channel();
        (Self { write, done }, waiting)
    }
}

/// Writes until nobody can ask for it any more.
pub(crate) fn run(shelf: &Shelf, mut incoming: mpsc::Receiver<Job>) {
    let mut jobs = Vec::with_capacity(MOST_TOGETHER);
    while incoming.blocking_recv_many(&mut jobs, MOST_TOGETHER) > 0 {
        // A probe may fail where the others would not, so it takes none of them down.
        let (probes, writes): (Vec<_>, Vec<_>) = jobs.drain(..).partition(Job::is_probe);
        for together in [writes, probes].into_iter().filter(|together| !together.is_empty()) {
            write(shelf, together);
        }
    }
}

fn write(shelf: &Shelf, jobs: Vec<Job>) {
    let size = jobs.iter().map(Job::size).sum();
    let committed = shelf.with(|database| commit(database, &jobs));
    // A failed probe says nothing of what somebody needed to write.
    if committed.is_ok() || !jobs.iter().all(Job::is_probe) {
        shelf.note(size, committed.is_ok());
    }
    let written = match committed {
        Ok(written) => written,
        Err(error) => recover(shelf, &jobs, error),
    };
    for (job, written) in jobs.into_iter().zip(written) {
        // Who does not wait any more has gone for reasons of their own.
        let _ = job.done.send(written);
    }
}

type Written = Vec<Result<(), StoreError>>;

/// Writes all jobs in one transaction. Those in conflict change nothing and keep nobody up.
fn commit(database: &Database, jobs: &[Job]) -> Result<Written, redb::Error> {
    let mut transaction = database.begin_write()?;
    // Half as fast for one commit, but a crash is mended in no time, however many sessions wait.
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
                    turns::keep(&transaction, turn)?;
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

/// After a failed commit: opens the database again and looks what became of each job, so that
/// nobody is told the wrong thing.
fn recover(shelf: &Shelf, jobs: &[Job], error: redb::Error) -> Written {
    tracing::error!(%error, "the journal could not be written");
    let error = failed(error);
    let kept = match shelf.reopen() {
        Ok(()) => shelf.with(|database| jobs.iter().map(|job| job.is_kept(database)).collect()),
        Err(error) => Err(error),
    };
    let kept: Vec<bool> = kept.unwrap_or_else(|error| {
        tracing::error!(%error, "the journal could not be opened again");
        vec![false; jobs.len()]
    });
    kept.into_iter()
        .map(|kept| match (kept, &error) {
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

    /// About how many bytes it takes on the disk.
    fn size(&self) -> usize {
        match &self.write {
            Write::Append(row) => row.body.len() + PAGE,
            Write::Probe(size) => *size,
            Write::Erase(_) | Write::Turn(_) | Write::Reindex(_) => PAGE,
        }
    }

    /// Whether this was written after all.
    fn is_kept(&self, database: &Database) -> Result<bool, redb::Error> {
        let row = match &self.write {
            Write::Append(row) => row,
            Write::Turn(turn) => return turns::is_kept(database, turn),
            Write::Erase(_) | Write::Reindex(_) | Write::Probe(_) => return Ok(false),
        };
        let journal = database.begin_read()?.open_table(JOURNAL)?;
        let key = (row.id.bits(), position(row.expected, row.replace));
        let value = journal.get(key)?;
        // Every seal is made of fresh randomness, so no other row has this one.
        Ok(value.is_some_and(|value| {
            Head::split(value.value()).is_some_and(|(_, body)| body == row.body)
        }))
    }
}

impl Tables<'_> {
    fn append(&mut self, row: &Row) -> Result<Result<(), StoreError>, redb::Error> {
        let id = row.id.bits();
        let last = self.last(id)?;
        if last.map_or(0, |(_, head)| head.length) != row.expected {
            return Ok(Err(StoreError::Conflict(row.id)));
        }
        let before = last.map(|(_, head)| head);
        if row.replace {
            self.remove_rows(id)?;
        }
        if before.is_none() {
            self.owners.insert((row.owner, id), ())?;
        }
        let (was, is) =
            (before.is_some_and(|head| head.state.is_working()), row.head.state.is_working());
        if is && !was {
            self.working.insert(id, ())?;
        } else if was && !is {
            self.working.remove(id)?;
        }
        if row.head.state.is_final() {
            self.ended.insert(id, ())?;
        }
        let indexed = before.and_then(|head| head.indexed);
        let head = Head { indexed: self.index(id, indexed, row.head.deadline)?, ..row.head };
        let value = head.join(&row.body);
        self.journal.insert((id, position(row.expected, row.replace)), value.as_slice())?;
        Ok(Ok(()))
    }

    /// Sees to it that a session stands among the deadlines no later than its own, and says
    /// where. One that stands too early is found out in time.
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
        let Some((position, head)) = self.last(id)? else { return Ok(()) };
        if let Some(deadline) = head.deadline {
            self.deadlines.insert((deadline, id), ())?;
        }
        let value = match self.journal.get((id, position))? {
            Some(value) => value.value().to_vec(),
            None => return Ok(()),
        };
        if let Some((head, body)) = Head::split(&value) {
            let head = Head { indexed: head.deadline, ..head };
            self.journal.insert((id, position), head.join(body).as_slice())?;
        }
        Ok(())
    }

    fn erase(&mut self, id: SessionId) -> Result<(), redb::Error> {
        let id = id.bits();
        let Some((_, head)) = self.last(id)? else { return Ok(()) };
        let owner = self.journal.get((id, 0))?.and_then(|first| owner(first.value()));
        if let Some(owner) = owner {
            self.owners.remove((owner, id))?;
        }
        self.remove_rows(id)?;
        self.working.remove(id)?;
        self.ended.remove(id)?;
        if let Some(indexed) = head.indexed {
            self.deadlines.remove((indexed, id))?;
        }
        Ok(())
    }

    fn remove_rows(&mut self, id: u128) -> Result<(), redb::Error> {
        self.journal.retain_in((id, 0)..=(id, u32::MAX), |_, _| false)?;
        Ok(())
    }

    /// The last row of a session.
    fn last(&self, id: u128) -> Result<Option<(u32, Head)>, redb::Error> {
        let Some(row) = self.journal.range((id, 0)..=(id, u32::MAX))?.next_back() else {
            return Ok(None);
        };
        let (key, value) = row?;
        let head = Head::split(value.value()).map(|(head, _)| head);
        match head {
            Some(head) => Ok(Some((key.value().1, head))),
            None => {
                Err(redb::Error::Corrupted(format!("the row at {:?} has no head", key.value())))
            }
        }
    }
}

/// What is written to find out whether there is room on the disk, in [`META`].
const PROBE: &str = "probe";

/// Size of a page, by which the disk is written.
const PAGE: usize = 4096;

/// How many writes share one commit at most.
const MOST_TOGETHER: usize = 1024;
