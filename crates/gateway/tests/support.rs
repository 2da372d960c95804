//! A gateway in this process, before servers in this process, and clients of it.

use std::sync::Arc;

use mcp_flow_client::host::DenyAll;
use mcp_flow_client::{Client, Host, Revision, RevisionPolicy};
use mcp_flow_gateway::{Gateway, UpstreamSettings};
use mcp_flow_server::{ConnectionInfo, Principal, Server};
use mcp_flow_stdio::client::{Attached, attach, in_process};
use mcp_flow_stdio::lines;

/// Revisions of both eras: with a handshake, and stateless.
pub(crate) const ERAS: [Revision; 2] = [Revision::V2025_11_25, Revision::V2026_07_28];

/// A server with a gateway.
pub(crate) struct Setup {
    pub(crate) gateway: Gateway,
    pub(crate) server: Server,
}

impl Setup {
    /// Serves these upstreams.
    pub(crate) fn new(upstreams: Vec<UpstreamSettings>) -> Self {
        Self::of(Gateway::new(upstreams).unwrap())
    }

    /// Serves a gateway.
    pub(crate) fn of(gateway: Gateway) -> Self {
        let server = gateway.add_to(Server::builder("gateway", "1.0.0")).build().unwrap();
        gateway.attach(&server);
        Self { gateway, server }
    }

    /// Serves one upstream, named `up`, by a revision.
    pub(crate) fn before(server: &Server, revision: Revision) -> Self {
        Self::new(vec![upstream("up", server, revision)])
    }

    /// Connects a client that can be asked nothing.
    pub(crate) async fn client(&self, revision: Revision) -> Client {
        self.client_with(revision, DenyAll).await
    }

    /// Connects a client with a host.
    pub(crate) async fn client_with(&self, revision: Revision, host: impl Host) -> Client {
        self.client_as("local", revision, host).await
    }

    /// Connects a client with a principal and a host.
    pub(crate) async fn client_as(
        &self,
        principal: &str,
        revision: Revision,
        host: impl Host,
    ) -> Client {
        let builder = Client::builder().host(host);
        let builder = builder.with(|options| options.revision = RevisionPolicy::Only(revision));
        builder.connect(connect_as(&self.server, principal)).await.unwrap()
    }
}

/// Connects to a server in this process, as a principal.
pub(crate) fn connect_as(server: &Server, principal: &str) -> Attached {
    let info =
        ConnectionInfo { principal: Principal::named(principal), ..ConnectionInfo::new("memory") };
    let connection = server.connect(info).unwrap();
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    tokio::spawn(async move {
        let (reader, writer) = tokio::io::split(theirs);
        let _ = lines::drive(&connection, reader, writer, std::future::pending()).await;
        connection.close().await;
    });
    let (reader, writer) = tokio::io::split(ours);
    attach(reader, writer)
}

/// Settings of an upstream in this process.
pub(crate) fn upstream(name: &str, server: &Server, revision: Revision) -> UpstreamSettings {
    let mut settings = UpstreamSettings::new(name, Arc::new(in_process(server)));
    settings.revision = RevisionPolicy::Only(revision);
    // Tests change the tools of the fixture.
    settings.pins = false;
    settings
}

/// All pairs of a client's and an upstream's revision.
pub(crate) fn pairs() -> impl Iterator<Item = (Revision, Revision)> {
    ERAS.into_iter().flat_map(|client| ERAS.into_iter().map(move |upstream| (client, upstream)))
}
