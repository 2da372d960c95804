//! The neighbour: one row after the other, each made durable as journals are.

use std::path::Path;
use std::time::{Duration, Instant};

use redb::{Builder, TableDefinition};

pub(crate) fn per_second(path: &Path) -> f64 {
    let database = Builder::new().set_cache_size(16 << 20).create(path).unwrap();
    let table = TableDefinition::<(u128, u32), &[u8]>::new("journal");
    let row = [7; 300];
    let began = Instant::now();
    let mut rows = 0_u32;
    while began.elapsed() < LONG_ENOUGH {
        let mut writing = database.begin_write().unwrap();
        writing.set_quick_repair(true);
        let id = u128::from(rows).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        writing.open_table(table).unwrap().insert((id, 0), row.as_slice()).unwrap();
        writing.commit().unwrap();
        rows += 1;
    }
    f64::from(rows) / began.elapsed().as_secs_f64()
}

const LONG_ENOUGH: Duration = Duration::from_secs(2);
