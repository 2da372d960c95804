//! The contract of all stores, and that of shared ones, on a real server.

use std::sync::Arc;

use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_store_postgres::PostgresStore;
use mcp_flow_testkit::postgres::PostgresServer;
use mcp_flow_testkit_store::Opened;

mcp_flow_testkit_store::store_contract!(|| open_twice().0);
mcp_flow_testkit_store::shared_store_contract!(open_twice);

/// Opens a database of its own twice.
fn open_twice() -> (Opened, Opened) {
    let url = PostgresServer::shared().create_database();
    let open = || {
        let keys = KeyRing::new(Key::from_bytes([1; 32]));
        Arc::new(PostgresStore::open(&url.parse().unwrap(), keys).unwrap())
    };
    (open(), open())
}
