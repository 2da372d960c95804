//! The contract of all stores, and that of shared ones.

use std::sync::Arc;

use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_session::Store;
use mcp_flow_session::store::SharedStore;
use mcp_flow_store_sqlite::SqliteStore;
use mcp_flow_testkit_store::Opened;

/// Store that is removed when it is closed.
#[derive(Debug)]
struct Temporary {
    store: SqliteStore,
    _folder: Arc<tempfile::TempDir>,
}

mcp_flow_testkit_store::store_contract!(|| open_twice().0);
mcp_flow_testkit_store::shared_store_contract!(open_twice);

fn open_twice() -> (Opened, Opened) {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let open = || {
        let keys = KeyRing::new(Key::from_bytes([1; 32]));
        let store = SqliteStore::open_with_keys(folder.path().join("journal.db"), keys).unwrap();
        Arc::new(Temporary { store, _folder: Arc::clone(&folder) })
    };
    (open(), open())
}

/// Passes every call on.
macro_rules! delegate {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)+) => {
        $(fn $name(&self, $($argument: $type),*) -> mcp_flow_session::store::StoreFuture<'_, $result> {
            Store::$name(&self.store, $($argument),*)
        })+
    };
}

impl Store for Temporary {
    delegate! {
        read(id: mcp_flow_session::SessionId) -> Vec<mcp_flow_session::JournalEvent>;
        append(append: mcp_flow_session::store::Append) -> ();
        list(
            filter: mcp_flow_session::store::Filter,
            page: mcp_flow_session::store::PageRequest
        ) -> Vec<mcp_flow_session::store::Listed>;
        due(time: mcp_flow_session::Timestamp, most: usize) -> Vec<mcp_flow_session::SessionId>;
        census() -> mcp_flow_session::store::Census;
        erase(id: mcp_flow_session::SessionId) -> ();
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        self.store.shared()
    }
}
