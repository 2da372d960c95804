//! References: rows written to PostgreSQL and SQLite without a server before them.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use mcp_flow_testkit::postgres::{PostgresServer, find};
use rusqlite::{Connection, params};

/// Returns the conditional inserts per second of a number of clients with a connection each, by
/// PostgreSQL's own `pgbench`.
pub(super) fn inserts_per_second(
    server: &PostgresServer,
    clients: usize,
    time: Duration,
) -> anyhow::Result<f64> {
    let url = server.create_database();
    let table = "CREATE TABLE bare (session bytea, position int, value bytea, \
                 PRIMARY KEY (session, position))";
    server.execute(&url, table);
    let script = tempfile::NamedTempFile::new()?;
    let insert = format!(
        "INSERT INTO bare VALUES (uuid_send(gen_random_uuid()), 0, '\\x{}') ON CONFLICT DO NOTHING;\n",
        "07".repeat(ROW)
    );
    std::fs::write(script.path(), insert)?;
    let clients = clients.to_string();
    let seconds = time.as_secs().to_string();
    let measured = Command::new(find("pgbench"))
        .args(["--no-vacuum", "--protocol=prepared", "--jobs=2", "--client", &clients])
        .args(["--time", &seconds, "--file"])
        .arg(script.path())
        .arg(&url)
        .output()
        .context("pgbench cannot be started")?;
    let text = String::from_utf8_lossy(&measured.stdout);
    ensure!(measured.status.success(), "pgbench: {}", String::from_utf8_lossy(&measured.stderr));
    let rate = text.lines().find_map(|line| line.strip_prefix("tps = "));
    let rate = rate.and_then(|rate| rate.split(' ').next()).context("pgbench printed no rate")?;
    Ok(rate.parse()?)
}

/// Returns the rows per second that are committed one by one to a new SQLite file.
pub(super) fn rows_per_second(path: &Path, time: Duration) -> anyhow::Result<f64> {
    let database = Connection::open(path)?;
    database.pragma_update(None, "journal_mode", "wal")?;
    database.pragma_update(None, "synchronous", "full")?;
    database.execute_batch("CREATE TABLE bare (id INTEGER PRIMARY KEY, value BLOB NOT NULL)")?;
    let row = [7_u8; ROW];
    let start = Instant::now();
    let mut rows = 0_u32;
    while start.elapsed() < time {
        let mut insert = database.prepare_cached("INSERT INTO bare (value) VALUES (?1)")?;
        insert.execute(params![row.as_slice()])?;
        rows += 1;
    }
    Ok(f64::from(rows) / start.elapsed().as_secs_f64())
}

/// Approximate size of a turn: an answer and the next question, sealed.
const ROW: usize = 300;
