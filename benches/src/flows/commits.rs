//! Reference for a durable turn: rows committed one by one to redb with the same durability.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use redb::{Builder, TableDefinition};

/// Returns the number of rows per second that are committed one by one to a new file.
pub(crate) fn per_second(path: &Path, time: Duration) -> anyhow::Result<f64> {
    let database = Builder::new().set_cache_size(CACHE).create(path)?;
    let row = [7; ROW];
    let start = Instant::now();
    let mut rows = 0_u32;
    while start.elapsed() < time {
        let mut writing = database.begin_write()?;
        // As the store sets it, for a quick start after a crash.
        writing.set_quick_repair(true);
        let id = u128::from(rows).wrapping_mul(SPREAD);
        writing.open_table(TABLE)?.insert((id, 0), row.as_slice())?;
        writing.commit()?;
        rows += 1;
    }
    Ok(f64::from(rows) / start.elapsed().as_secs_f64())
}

const TABLE: TableDefinition<'_, (u128, u32), &[u8]> = TableDefinition::new("journal");

/// The cache size that the store sets.
const CACHE: usize = 16 << 20;

/// Approximate size of a turn: an answer and the next question, sealed.
const ROW: usize = 300;

/// Spreads keys like random ids.
const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
