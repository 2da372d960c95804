//! Servers that cannot be used, and connections that are cut.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_session::store::{Append, Fence, NodeInfo, Record, RecordChange};
use mcp_flow_session::{Epoch, SessionId, Store, StoreError};
use mcp_flow_store_postgres::{PostgresStore, StoreOpenError};
use mcp_flow_testkit::postgres::PostgresServer;
use mcp_flow_testkit::tcp_relay::TcpRelay;
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_store::{append, id, noted, started};
use tokio_postgres::NoTls;

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

/// While commits take longer than a lease, nodes still join, renew their leases, claim sessions and
/// send messages, and durable writes succeed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_commits_delay_no_heartbeat() {
    let url = PostgresServer::shared().create_database();
    let store = open_async(&url).await;
    // Runs at the commit of each durable transaction, while it has its locks.
    let mut slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                    IF current_setting('synchronous_commit') <> 'off' THEN PERFORM pg_sleep(2); \
                    END IF; RETURN NULL; END $$;"
        .to_owned();
    for table in ["session", "node", "message", "record"] {
        slow += &format!(
            "CREATE CONSTRAINT TRIGGER slow AFTER INSERT OR UPDATE OR DELETE ON mcp_flow_{table} \
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow();"
        );
    }
    PostgresServer::shared().execute(&url, &slow);
    let shared = store.shared().unwrap();
    let epoch = shared.join(NodeInfo::default()).await.unwrap();
    let record = Record { holder: epoch, value: b"value".to_vec() };
    let (key, lifetime) = ("key".to_owned(), Duration::from_secs(60));
    let change = RecordChange { key, from: None, record: Some(record), lifetime };
    let write = async {
        store.append(append(id(1), 0, vec![started("ada")])).await.unwrap();
        assert!(shared.change_record(change).await.unwrap());
        store.erase(id(1)).await.unwrap();
    };
    let meanwhile = async {
        loop {
            assert!(shared.beat(epoch).await.unwrap().is_member);
            assert_eq!(shared.nodes().await.unwrap().len(), 1);
            assert_eq!(shared.claim(epoch, 10, Vec::new()).await.unwrap(), []);
            shared.post(Some(epoch), b"hello".to_vec()).await.unwrap();
        }
    };
    tokio::select! {
        () = write => {}
        never = meanwhile => never,
    }
    shared.leave(epoch).await.unwrap();
}

/// A transaction that locks one node's row does not keep others from taking over sessions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_node_stops_no_other() {
    let url = PostgresServer::shared().create_database();
    let store = open_async(&url).await;
    let shared = store.shared().unwrap();
    let mut epochs = Vec::new();
    for number in 1..=3 {
        let epoch = shared.join(NodeInfo::default()).await.unwrap();
        let fence = Fence { by: epoch, holder: Some(epoch), steal: false };
        let begin = append(id(number), 0, vec![started("ada")]);
        store.append(Append { fence, ..begin }).await.unwrap();
        epochs.push(epoch);
    }
    let (mut locker, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let expire =
        "UPDATE mcp_flow_node SET until = clock_timestamp() - interval '1 hour' WHERE epoch < 3";
    locker.batch_execute(expire).await.unwrap();
    let transaction = locker.transaction().await.unwrap();
    let lock = "SELECT FROM mcp_flow_node WHERE epoch = 1 FOR UPDATE";
    transaction.batch_execute(lock).await.unwrap();
    assert_eq!(claim_any(&store, epochs[2]).await, [id(2)]);
    transaction.rollback().await.unwrap();
    assert_eq!(claim_any(&store, epochs[2]).await, [id(1)]);
}

/// A crash of the server may lose renewals of leases, so afterwards nobody is expired before all
/// live nodes had the time to renew theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_do_not_expire_right_after_a_crash_of_the_server() {
    let server = PostgresServer::start();
    let url = server.create_database();
    let store = open_async(&url).await;
    let shared = store.shared().unwrap();
    let (gone, alive) = (
        shared.join(NodeInfo::default()).await.unwrap(),
        shared.join(NodeInfo::default()).await.unwrap(),
    );
    let fence = Fence { by: gone, holder: Some(gone), steal: false };
    store.append(Append { fence, ..append(id(1), 0, vec![started("ada")]) }).await.unwrap();
    server.restart();
    server.execute(&url, "UPDATE mcp_flow_node SET until = clock_timestamp() WHERE epoch = 1");
    assert_eq!(claim_any(&store, alive).await, [id(1)]);
    server.execute(
        &url,
        "DO $$ BEGIN ASSERT (SELECT min(clock_timestamp() - backend_start) > interval '1500 ms' \
         FROM pg_stat_activity WHERE query LIKE '%SET holder = $1%' AND pid <> pg_backend_pid()); \
         END $$",
    );
}

/// Claims sessions until there are some.
async fn claim_any(store: &PostgresStore, by: Epoch) -> Vec<SessionId> {
    let shared = store.shared().unwrap();
    within("a lease to expire", async {
        loop {
            match shared.claim(by, 10, Vec::new()).await {
                Ok(claimed) if claimed.is_empty() => {}
                // The connection was lost with the server.
                Err(StoreError::Unavailable(reason)) if reason.contains("closed") => {}
                claimed => return claimed.unwrap(),
            }
            assert!(shared.beat(by).await.is_ok_and(|beat| beat.is_member));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}

async fn open_async(url: &str) -> PostgresStore {
    let url = url.to_owned();
    tokio::task::spawn_blocking(move || open(&url, 1)).await.unwrap().unwrap()
}

fn open(url: &str, key: u8) -> Result<PostgresStore, StoreOpenError> {
    PostgresStore::open(&url.parse().unwrap(), KeyRing::new(Key::from_bytes([key; 32])))
}
