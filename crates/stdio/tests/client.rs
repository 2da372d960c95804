//! MCP-032: the client suite over TCP, Unix sockets and in process.

use std::sync::Arc;

use mcp_flow_client::transport::Connector;
use mcp_flow_server::Server;
use mcp_flow_stdio::client::{in_process, tcp, unix};
use mcp_flow_stdio::listen;

mod in_one_process {
    use super::{Arc, Connector, in_process};

    mcp_flow_testkit_scenarios::client_suite!(|served| async move {
        Arc::new(in_process(&served)) as Arc<dyn Connector>
    });
}

mod over_tcp {
    mcp_flow_testkit_scenarios::client_suite!(super::over_tcp);
}

mod over_unix {
    mcp_flow_testkit_scenarios::client_suite!(super::over_unix);
}

async fn over_tcp(served: Server) -> Arc<dyn Connector> {
    let bound = listen::tcp("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = bound.address().unwrap();
    tokio::spawn(async move { bound.serve(&served, std::future::pending()).await });
    Arc::new(tcp(address))
}

async fn over_unix(served: Server) -> Arc<dyn Connector> {
    let folder = tempfile::tempdir().unwrap().keep();
    let path = folder.join("server.sock");
    let bound = listen::unix(&path).await.unwrap();
    tokio::spawn(async move { bound.serve(&served, std::future::pending()).await });
    Arc::new(unix(path))
}
