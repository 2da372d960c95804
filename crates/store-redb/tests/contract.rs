//! The store in a file keeps the contract of all stores.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;

use mcp_flow_store_redb::RedbStore;
use support::{Disk, keys};

mcp_flow_testkit::store_contract!(|| {
    let disk = Disk::new();
    let store =
        RedbStore::open_from(move |builder| builder.create_with_backend(disk.plug()), keys(1));
    Arc::new(store.unwrap())
});
