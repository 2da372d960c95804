//! MCP-020, MCP-050: the scenario suite over newline-delimited streams, with the same handlers as
//! the memory transport.

use mcp_flow_server::{ConnectionInfo, Server};
use mcp_flow_testkit::{Peer, lines};

mcp_flow_testkit_scenarios::suite!(|server| async move { connect(&server) });

/// Connects over an in-memory pipe with a small buffer, so that messages arrive in pieces.
fn connect(server: &Server) -> Peer {
    let (ours, theirs) = tokio::io::duplex(100);
    let connection = server.connect(ConnectionInfo::new("stdio")).unwrap();
    tokio::spawn(async move {
        let (reader, writer) = tokio::io::split(theirs);
        let never = std::future::pending();
        mcp_flow_stdio::lines::drive(&connection, reader, writer, never).await.unwrap();
    });
    let (reader, writer) = tokio::io::split(ours);
    lines::connect(reader, writer, ())
}
