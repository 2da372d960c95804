//! Servers that cannot be used, and connections that are cut.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_session::store::NodeInfo;
use mcp_flow_session::{Store, StoreError};
use mcp_flow_store_postgres::{PostgresStore, StoreOpenError};
use mcp_flow_testkit::postgres::PostgresServer;
use mcp_flow_testkit::tcp_relay::TcpRelay;
use mcp_flow_testkit_store::{append, id, noted, started};

/// A database that is missing, of other keys or of a newer version, a role without rights and a
/// server that is not there are refused with the reason.
#[test]
fn unusable_servers_are_refused() {
    let server = PostgresServer::shared();
    let url = server.create_database();
    drop(open(&url, 1).unwrap());
    assert!(matches!(open(&url, 2), Err(StoreOpenError::WrongKey)));
    let newer = "UPDATE mcp_flow_meta SET value = '\\x00000002' WHERE name = 'format'";
    server.execute(&url, newer);
    let refused = open(&url, 1).unwrap_err();
    assert!(matches!(refused, StoreOpenError::Format { found: 2, known: 1 }), "{refused:?}");
    // Nothing is added to the tables of a newer version.
    server.execute(&url, "DROP TABLE mcp_flow_record");
    let refused = open(&url, 1).unwrap_err();
    assert!(matches!(refused, StoreOpenError::Format { found: 2, known: 1 }), "{refused:?}");
    server.execute(&url, "CREATE TABLE mcp_flow_record (renamed int)");
    server.execute(&url, "UPDATE mcp_flow_meta SET value = 'two' WHERE name = 'format'");
    assert!(open(&url, 1).unwrap_err().to_string().contains("mcp_flow_meta, is no number"));

    let missing = url.replace("/test_", "/missing_");
    let cases = [
        (missing, "createdb"),
        (url.replace("flow@", "stranger@"), "role \"stranger\" does not exist"),
        (format!("{url}&sslmode=require"), "sslmode=disable"),
        ("postgres://flow@127.0.0.1:1/x".to_owned(), "refused"),
    ];
    for (url, reason) in cases {
        let refused = open(&url, 1).unwrap_err().to_string();
        assert!(refused.contains(reason), "{url}: {refused}");
    }
    let url = server.create_database();
    server.execute(&url, "CREATE ROLE reader LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    let refused = open(&url.replace("flow@", "reader@"), 1).unwrap_err().to_string();
    assert!(refused.contains("grant the role"), "{refused}");
    server.execute(&url, "ALTER ROLE reader SET default_transaction_read_only = on");
    server.execute(&url, "GRANT CREATE ON SCHEMA public TO reader");
    let refused = open(&url.replace("flow@", "reader@"), 1).unwrap_err().to_string();
    assert!(refused.contains("read-only"), "{refused}");
}

/// A connection that is cut in the middle of an append loses nothing that was acknowledged, and
/// writes nothing twice; the store works again when the server can be reached.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_connections_lose_and_repeat_nothing() {
    let server = PostgresServer::shared();
    let url = server.create_database();
    let relay = TcpRelay::start(server.socket()).await;
    let through = PostgresServer::through(&url, relay.address());
    let store =
        Arc::new(tokio::task::spawn_blocking(move || open(&through, 1)).await.unwrap().unwrap());
    store.append(append(id(1), 0, vec![started("ada")])).await.unwrap();
    let mut length = 1;
    // Set after an append that was neither acknowledged nor found: the server may commit it later.
    let mut in_doubt = false;
    for cut in 0..20 {
        let cutting = async {
            tokio::time::sleep(Duration::from_micros(cut * 137)).await;
            relay.cut();
        };
        let write = store.append(append(id(1), length, vec![noted(length)]));
        let (written, ()) = tokio::join!(write, cutting);
        let kept = store.read(id(1)).await;
        let kept = match kept {
            Ok(kept) => kept.len(),
            Err(StoreError::Unavailable(_)) => store.read(id(1)).await.unwrap().len(),
            Err(error) => panic!("{error:?}"),
        };
        match written {
            Ok(()) => assert_eq!(kept, length + 1, "an acknowledged append was lost"),
            Err(StoreError::Unavailable(_)) => assert!(kept == length || kept == length + 1),
            Err(StoreError::Conflict(_)) if in_doubt => assert_eq!(kept, length + 1),
            Err(error) => panic!("{error:?}"),
        }
        in_doubt = kept == length;
        length = kept;
    }
    let events = store.read(id(1)).await.unwrap();
    let expected = std::iter::once(started("ada")).chain((1..length).map(noted));
    assert_eq!(events, expected.collect::<Vec<_>>());
}

/// After an announcement has failed, the node still renews its lease.
#[tokio::test]
async fn a_failed_announcement_affects_nothing_else() {
    let server = PostgresServer::shared();
    let url = server.create_database();
    server.execute(&url, "CREATE ROLE mute LOGIN; GRANT CREATE ON SCHEMA public TO mute");
    server.execute(&url, "REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC");
    let url = url.replace("flow@", "mute@");
    let store = tokio::task::spawn_blocking(move || open(&url, 1)).await.unwrap().unwrap();
    let shared = store.shared().unwrap();
    let epoch = shared.join(NodeInfo::default()).await.unwrap();
    for length in 0..3 {
        let event = if length == 0 { started("ada") } else { noted(length) };
        store.append(append(id(1), length, vec![event])).await.unwrap();
        // Longer than changes are gathered.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(shared.beat(epoch).await.unwrap().is_member);
    }
}

fn open(url: &str, key: u8) -> Result<PostgresStore, StoreOpenError> {
    PostgresStore::open(&url.parse().unwrap(), KeyRing::new(Key::from_bytes([key; 32])))
}
