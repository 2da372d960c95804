//! Appends: all that wait are sent as one statement, conditional on the head of each session.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use mcp_flow_session::store::Fence;
use mcp_flow_session::{Epoch, SessionId, StoreError};
use mcp_flow_store_rows::JournalRow;
use mcp_flow_store_rows::row::state_number;
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::types::Type;

use crate::link::{Link, STATEMENT_TIMEOUT};
use crate::{Core, Param, key, millis, session_id};

/// An append, and the channel for its result.
pub(crate) struct AppendJob {
    row: JournalRow,
    fence: Fence,
    /// Header and content, as stored.
    value: Vec<u8>,
    done: oneshot::Sender<Result<(), StoreError>>,
}

impl AppendJob {
    pub(crate) fn new(
        row: JournalRow,
        fence: Fence,
    ) -> (Self, oneshot::Receiver<Result<(), StoreError>>) {
        let (done, result) = oneshot::channel();
        let value = row.header.join(&row.body);
        (Self { row, fence, value, done }, result)
    }
}

/// Writes appends until the store is closed.
pub(crate) async fn run_writer(core: &Arc<Core>, mut incoming: mpsc::Receiver<AppendJob>) {
    let link = match Link::new(&core.url) {
        Ok(link) => link,
        Err(error) => return tracing::error!(%error, "cannot write to the store"),
    };
    let mut waiting = Vec::new();
    loop {
        if waiting.is_empty() && incoming.recv_many(&mut waiting, BATCH_LIMIT).await == 0 {
            return;
        }
        while waiting.len() < BATCH_LIMIT {
            match incoming.try_recv() {
                Ok(job) => waiting.push(job),
                Err(_) => break,
            }
        }
        // A statement can change a session once only.
        let mut ids = HashSet::new();
        let (batch, later): (Vec<_>, Vec<_>) =
            waiting.drain(..).partition(|job| ids.insert(job.row.id));
        waiting = later;
        write(core, &link, batch).await;
    }
}

async fn write(core: &Arc<Core>, link: &Link, mut batch: Vec<AppendJob>) {
    for _ in 0..LOCKED_ATTEMPTS {
        let written = match append(link, &batch).await {
            Ok(written) => written,
            Err(error) => return settle(core, link, batch, error).await,
        };
        let (done, refused): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|job| written.contains(&job.row.id));
        finish(core, done);
        if refused.is_empty() {
            return;
        }
        // Skipped because another transaction had locked the row, or refused for good?
        let heads = match heads(link, &refused).await {
            Ok(heads) => heads,
            Err(error) => return settle(core, link, refused, error).await,
        };
        let (again, conflicts): (Vec<_>, Vec<_>) =
            refused.into_iter().partition(|job| job.is_permitted(heads.get(&job.row.id)));
        for job in conflicts {
            let _ = job.done.send(Err(StoreError::Conflict(job.row.id)));
        }
        if again.is_empty() {
            return;
        }
        batch = again;
        tokio::time::sleep(LOCKED_PAUSE).await;
    }
    for job in batch {
        let reason = "another transaction has locked the session".to_owned();
        let _ = job.done.send(Err(StoreError::Unavailable(reason)));
    }
}

/// Acknowledges appends, and has them announced.
fn finish(core: &Core, done: Vec<AppendJob>) {
    for job in done {
        let _ = core.changed.send((job.fence.by.number(), job.row.id));
        // The caller may have gone away.
        let _ = job.done.send(Ok(()));
    }
}

/// Finds out which appends were written before the connection was lost: every seal has fresh random
/// bytes, so the content identifies the row.
async fn settle(core: &Core, link: &Link, batch: Vec<AppendJob>, error: StoreError) {
    let sessions: Vec<_> = batch.iter().map(|job| key(job.row.id)).collect();
    let positions: Vec<_> = batch.iter().map(AppendJob::position).collect();
    let find = "SELECT session, value FROM mcp_flow_journal JOIN unnest($1::bytea[], $2::int4[]) \
                AS wanted (id, number) ON session = id AND position = number";
    let params: [Param<'_>; 2] = [(&sessions, Type::BYTEA_ARRAY), (&positions, Type::INT4_ARRAY)];
    let mut stored = HashMap::new();
    for attempt in 0..2 {
        match link.query(STATEMENT_TIMEOUT, find, &params).await {
            Ok(rows) => {
                let rows = rows.iter().filter_map(|row| {
                    Some((session_id(row.get(0))?, row.get::<_, &[u8]>(1).to_vec()))
                });
                stored.extend(rows);
                break;
            }
            Err(error) if attempt > 0 => {
                tracing::warn!(%error, "cannot read back what was written");
            }
            Err(_) => {}
        }
    }
    tracing::warn!(%error, appends = batch.len(), "an append failed");
    let (done, lost): (Vec<_>, Vec<_>) =
        batch.into_iter().partition(|job| stored.get(&job.row.id) == Some(&job.value));
    finish(core, done);
    for job in lost {
        let _ = job.done.send(Err(match &error {
            StoreError::Full => StoreError::Full,
            StoreError::Unavailable(reason) => StoreError::Unavailable(reason.clone()),
            error => StoreError::Backend(error.to_string().into()),
        }));
    }
}

/// Current length, state and holder of sessions.
async fn heads(
    link: &Link,
    jobs: &[AppendJob],
) -> Result<HashMap<SessionId, (i32, i16, Option<i64>)>, StoreError> {
    let ids: Vec<_> = jobs.iter().map(|job| key(job.row.id)).collect();
    let find = "SELECT id, length, state, holder FROM mcp_flow_session WHERE id = ANY($1)";
    let rows = link.query(STATEMENT_TIMEOUT, find, &[(&ids, Type::BYTEA_ARRAY)]).await?;
    let head = |row: &tokio_postgres::Row| {
        Some((session_id(row.get(0))?, (row.get(1), row.get(2), row.get(3))))
    };
    Ok(rows.iter().filter_map(head).collect())
}

impl AppendJob {
    fn position(&self) -> i32 {
        i32::try_from(self.row.position()).unwrap_or(i32::MAX)
    }

    fn expected(&self) -> i32 {
        i32::try_from(self.row.expected).unwrap_or(i32::MAX)
    }

    /// Returns whether the append can still be made.
    fn is_permitted(&self, head: Option<&(i32, i16, Option<i64>)>) -> bool {
        match head {
            None => false,
            Some((length, state, holder)) => {
                let holder = holder.map(|holder| Epoch::new(holder.unsigned_abs()));
                *length == self.expected()
                    && *length > 0
                    && *state < 4
                    && self.fence.permits(holder)
            }
        }
    }
}

/// Sends appends to different sessions as one statement, and returns which were written.
async fn append(link: &Link, jobs: &[AppendJob]) -> Result<HashSet<SessionId>, StoreError> {
    let column = |number: fn(&AppendJob) -> i64| jobs.iter().map(number).collect::<Vec<_>>();
    let optional =
        |number: fn(&AppendJob) -> Option<i64>| jobs.iter().map(number).collect::<Vec<_>>();
    let flag = |flag: fn(&AppendJob) -> bool| jobs.iter().map(flag).collect::<Vec<_>>();
    let ids: Vec<_> = jobs.iter().map(|job| key(job.row.id)).collect();
    let expected: Vec<_> = jobs.iter().map(AppendJob::expected).collect();
    let positions: Vec<_> = jobs.iter().map(AppendJob::position).collect();
    let length = |job: &AppendJob| i32::try_from(job.row.header.length).unwrap_or(i32::MAX);
    let lengths: Vec<_> = jobs.iter().map(length).collect();
    let states: Vec<_> =
        jobs.iter().map(|job| i16::from(state_number(job.row.header.state))).collect();
    let touched = column(|job| millis(job.row.header.touched));
    let deadlines = optional(|job| job.row.header.deadline.map(millis));
    let by = column(|job| millis(job.fence.by.number()));
    let holders = optional(|job| job.fence.holder.map(|holder| millis(holder.number())));
    let steal = flag(|job| job.fence.steal);
    let replace = flag(|job| job.row.replace);
    let owners: Vec<_> = jobs.iter().map(|job| job.row.owner.to_vec()).collect();
    let values: Vec<_> = jobs.iter().map(|job| job.value.as_slice()).collect();
    let params: [Param<'_>; 13] = [
        (&ids, Type::BYTEA_ARRAY),
        (&expected, Type::INT4_ARRAY),
        (&positions, Type::INT4_ARRAY),
        (&lengths, Type::INT4_ARRAY),
        (&states, Type::INT2_ARRAY),
        (&touched, Type::INT8_ARRAY),
        (&deadlines, Type::INT8_ARRAY),
        (&by, Type::INT8_ARRAY),
        (&holders, Type::INT8_ARRAY),
        (&steal, Type::BOOL_ARRAY),
        (&replace, Type::BOOL_ARRAY),
        (&owners, Type::BYTEA_ARRAY),
        (&values, Type::BYTEA_ARRAY),
    ];
    let rows = link.query(STATEMENT_TIMEOUT, APPEND, &params).await?;
    Ok(rows.iter().filter_map(|row| session_id(row.get(0))).collect())
}

/// Erases a session.
pub(crate) async fn erase(core: &Core, id: SessionId) -> Result<(), StoreError> {
    let erase = "WITH head AS (DELETE FROM mcp_flow_session WHERE id = $1) \
                 DELETE FROM mcp_flow_journal WHERE session = $1";
    core.durable.query(STATEMENT_TIMEOUT, erase, &[(&key(id), Type::BYTEA)]).await.map(drop)
}

/// Checks that the store is writable.
pub(crate) async fn probe(core: &Core) -> Result<(), StoreError> {
    let write = "INSERT INTO mcp_flow_meta (name, value) VALUES ('probe', '') \
                 ON CONFLICT (name) DO UPDATE SET value = ''";
    core.durable.query(STATEMENT_TIMEOUT, write, &[]).await.map(drop)
}

/// Locks the heads that are as expected, updates or creates them, and inserts the rows. A head that
/// is locked is skipped: waiting for it could deadlock with another node's batch. The index entry
/// `due` stays if it is early enough, so that most updates touch no index.
const APPEND: &str = "
WITH input AS (
    SELECT * FROM unnest($1::bytea[], $2::int4[], $3::int4[], $4::int4[], $5::int2[], $6::int8[],
        $7::int8[], $8::int8[], $9::int8[], $10::bool[], $11::bool[], $12::bytea[], $13::bytea[])
    AS input (id, expected, position, length, state, touched, deadline, by, holder, steal, replace,
        owner, value)
), head AS (
    SELECT session.id FROM mcp_flow_session AS session JOIN input USING (id)
    WHERE input.expected > 0 AND session.length = input.expected AND session.state < 4
        AND (input.steal OR session.holder IS NULL OR session.holder = 0
            OR session.holder = input.by)
    FOR NO KEY UPDATE OF session SKIP LOCKED
), updated AS (
    UPDATE mcp_flow_session AS session SET length = input.length, state = input.state,
        touched = input.touched, deadline = input.deadline, holder = input.holder,
        due = CASE WHEN session.due <= input.deadline THEN session.due ELSE input.deadline END
    FROM input JOIN head USING (id) WHERE session.id = input.id
    RETURNING session.id
), created AS (
    INSERT INTO mcp_flow_session (id, length, state, touched, deadline, due, holder, owner)
    SELECT id, length, state, touched, deadline, deadline, holder, owner FROM input
    WHERE expected = 0 ORDER BY id
    ON CONFLICT (id) DO NOTHING
    RETURNING id
), changed AS (
    SELECT id FROM updated UNION ALL SELECT id FROM created
), removed AS (
    DELETE FROM mcp_flow_journal AS journal USING input JOIN updated USING (id)
    WHERE input.replace AND journal.session = input.id AND journal.position > 0
), written AS (
    INSERT INTO mcp_flow_journal (session, position, value)
    SELECT id, position, value FROM input JOIN changed USING (id)
    ON CONFLICT (session, position) DO UPDATE SET value = excluded.value
)
SELECT id FROM changed";

/// Most appends of one statement.
const BATCH_LIMIT: usize = 256;

/// Attempts at an append whose session is locked by another transaction, and the pause between.
const LOCKED_ATTEMPTS: usize = 50;
const LOCKED_PAUSE: Duration = Duration::from_millis(3);
