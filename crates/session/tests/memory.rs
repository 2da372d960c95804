//! The contract of all stores, in memory.

use std::sync::Arc;

use mcp_flow_session::MemoryStore;

mcp_flow_testkit_store::store_contract!(|| Arc::new(MemoryStore::new()));

mod shared {
    use std::sync::Arc;

    use mcp_flow_testkit_store::{Opened, SharedMemory};

    mcp_flow_testkit_store::store_contract!(|| SharedMemory::create().connect());
    mcp_flow_testkit_store::shared_store_contract!(open_twice);

    fn open_twice() -> (Opened, Opened) {
        let store = SharedMemory::create();
        (store.connect() as Arc<_>, store.connect() as Arc<_>)
    }
}
