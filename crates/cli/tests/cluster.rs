//! Several nodes on one store, killed, paused and cut off at random.

mod transport_sessions;

use std::path::{Path, PathBuf};

use mcp_flow_testkit::cluster::Cluster;
use mcp_flow_testkit::postgres::PostgresServer;
use mcp_flow_testkit::tcp_relay::TcpRelay;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// Three processes on one SQLite file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_share_a_file_survive_kills_and_pauses() {
    let folder = tempfile::tempdir().unwrap();
    let stores = vec!["sqlite:journal.db".to_owned(); 3];
    survive(folder.path(), stores, Vec::new()).await;
}

/// Three nodes on one PostgreSQL server, each through a relay of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_share_a_database_survive_kills_pauses_and_partitions() {
    let folder = tempfile::tempdir().unwrap();
    let server = PostgresServer::shared();
    let url = server.create_database();
    let (mut stores, mut relays) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let relay = TcpRelay::start(server.socket()).await;
        stores.push(PostgresServer::through(&url, relay.address()));
        relays.push(relay);
    }
    survive(folder.path(), stores, relays).await;
}

async fn survive(folder: &Path, stores: Vec<String>, relays: Vec<TcpRelay>) {
    let (program, folder) = (PathBuf::from(PROGRAM), folder.to_owned());
    let faults = Cluster::faults_or(8);
    Cluster { program, folder, stores, relays, faults }.survive().await;
}
