//! The contract of all stores, on a file.

use std::sync::Arc;

use crate::support::{Disk, keys};
use mcp_flow_store_redb::RedbStore;

mcp_flow_testkit_store::store_contract!(|| {
    let disk = Disk::new();
    let store =
        RedbStore::open_from(move |builder| builder.create_with_backend(disk.plug()), keys(1));
    Arc::new(store.unwrap())
});
