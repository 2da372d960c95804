//! QUIC configuration of client and server.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use web_transport_quinn::quinn::{
    Endpoint, EndpointConfig, IdleTimeout, MtuDiscoveryConfig, ServerConfig, TokioRuntime,
    TransportConfig, VarInt,
};

/// Returns the transport limits of the server.
pub(crate) fn server_transport(idle_timeout: Duration, datagrams: bool) -> TransportConfig {
    let mut transport = common_transport(idle_timeout, datagrams);
    transport
        // CONNECT and the control stream, and a few that will be rejected.
        .max_concurrent_bidi_streams(VarInt::from_u32(8))
        // HTTP/3 has three of its own; the rest will be rejected.
        .max_concurrent_uni_streams(VarInt::from_u32(16))
        .stream_receive_window(VarInt::from_u32(512 * 1024))
        .receive_window(VarInt::from_u32(1024 * 1024));
    transport
}

/// Returns the transport limits of the client, with a maximum of execution streams.
#[cfg(feature = "client")]
pub(crate) fn client_transport(
    idle_timeout: Duration,
    datagrams: bool,
    streams: u32,
) -> TransportConfig {
    let mut transport = common_transport(idle_timeout, datagrams);
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(4))
        // HTTP/3 has three of its own.
        .max_concurrent_uni_streams(VarInt::from_u32(streams.saturating_add(3)))
        // No limit on the connection: unread streams must not block messages.
        .stream_receive_window(VarInt::from_u32(1024 * 1024));
    transport
}

fn common_transport(idle_timeout: Duration, datagrams: bool) -> TransportConfig {
    let mut transport = TransportConfig::default();
    let mut discovery = MtuDiscoveryConfig::default();
    // Ten packets of this size fit into one 64 KB send batch of the kernel.
    discovery.upper_bound(6500);
    transport
        .mtu_discovery_config(Some(discovery))
        .max_idle_timeout(IdleTimeout::try_from(idle_timeout).ok())
        .keep_alive_interval(Some(idle_timeout / 3))
        .send_window(8 * 1024 * 1024)
        .datagram_receive_buffer_size(datagrams.then_some(64 * 1024))
        .datagram_send_buffer_size(64 * 1024);
    transport
}

/// Opens an endpoint on an address.
pub(crate) fn endpoint(address: SocketAddr, server: Option<ServerConfig>) -> io::Result<Endpoint> {
    let socket = socket(address)?;
    Endpoint::new(EndpointConfig::default(), server, socket, Arc::new(TokioRuntime))
}

fn socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        // The other address family has a socket of its own where needed.
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // The kernel may grant less.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    socket.bind(&address.into())?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Socket buffer size, for bursts while the process is busy.
const SOCKET_BUFFER: usize = 1024 * 1024;
