//! Tables of the database.

use mcp_flow_store_rows::OwnerHash;
use redb::{Table, TableDefinition, WriteTransaction};

pub(crate) const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
pub(crate) const JOURNAL: TableDefinition<'_, RowKey, &[u8]> = TableDefinition::new("journal");
pub(crate) const OWNERS: TableDefinition<'_, (OwnerHash, u128), ()> =
    TableDefinition::new("owners");
pub(crate) const WORKING: TableDefinition<'_, u128, ()> = TableDefinition::new("working");
pub(crate) const ENDED: TableDefinition<'_, u128, ()> = TableDefinition::new("ended");
pub(crate) const DEADLINES: TableDefinition<'_, (u64, u128), ()> =
    TableDefinition::new("deadlines");

/// Session id, and the number of the first event in the row.
pub(crate) type RowKey = (u128, u32);

/// All tables of journals, open for writing.
pub(crate) struct Tables<'a> {
    pub(crate) journal: Table<'a, RowKey, &'static [u8]>,
    pub(crate) owners: Table<'a, (OwnerHash, u128), ()>,
    pub(crate) working: Table<'a, u128, ()>,
    pub(crate) ended: Table<'a, u128, ()>,
    pub(crate) deadlines: Table<'a, (u64, u128), ()>,
}

impl<'a> Tables<'a> {
    pub(crate) fn open(transaction: &'a WriteTransaction) -> Result<Self, redb::Error> {
        Ok(Self {
            journal: transaction.open_table(JOURNAL)?,
            owners: transaction.open_table(OWNERS)?,
            working: transaction.open_table(WORKING)?,
            ended: transaction.open_table(ENDED)?,
            deadlines: transaction.open_table(DEADLINES)?,
        })
    }
}
