//! The contract of all stores, in memory.

use std::sync::Arc;

use mcp_flow_session::MemoryStore;

mcp_flow_testkit_store::store_contract!(|| Arc::new(MemoryStore::new()));
