//! How QUIC is set up, at either end.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use web_transport_quinn::quinn::{
    Endpoint, EndpointConfig, IdleTimeout, MtuDiscoveryConfig, ServerConfig, TokioRuntime,
    TransportConfig, VarInt,
};

/// What the server's end of a connection may take and hold.
pub(crate) fn server_transport(idle_time: Duration, datagrams: bool) -> TransportConfig {
    let mut transport = common_transport(idle_time, datagrams);
    transport
        // CONNECT and the control stream, and a few that will be refused.
        .max_concurrent_bidi_streams(VarInt::from_u32(8))
        // HTTP/3 has three of its own; the rest will be refused.
        .max_concurrent_uni_streams(VarInt::from_u32(16))
        .stream_receive_window(VarInt::from_u32(512 * 1024))
        .receive_window(VarInt::from_u32(1024 * 1024));
    transport
}

/// What the client's end of a connection may take and hold: so many execution streams.
#[cfg(feature = "client")]
pub(crate) fn client_transport(
    idle_time: Duration,
    datagrams: bool,
    streams: u32,
) -> TransportConfig {
    let mut transport = common_transport(idle_time, datagrams);
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(4))
        // HTTP/3 has three of its own.
        .max_concurrent_uni_streams(VarInt::from_u32(streams.saturating_add(3)))
        // No limit on all together: streams that nobody reads must not hold up messages.
        .stream_receive_window(VarInt::from_u32(1024 * 1024));
    transport
}

fn common_transport(idle_time: Duration, datagrams: bool) -> TransportConfig {
    let mut transport = TransportConfig::default();
    let mut discovery = MtuDiscoveryConfig::default();
    // Ten of them fit into one batch of 64 KB, which is what the kernel takes at once.
    discovery.upper_bound(6500);
    transport
        .mtu_discovery_config(Some(discovery))
        .max_idle_timeout(IdleTimeout::try_from(idle_time).ok())
        .keep_alive_interval(Some(idle_time / 3))
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
        // The other family has a socket of its own where it is wanted.
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // The kernel gives as much of this as it is set up to.
    let _ = socket.set_recv_buffer_size(BUFFER);
    let _ = socket.set_send_buffer_size(BUFFER);
    socket.bind(&address.into())?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// What the kernel keeps while we are busy.
const BUFFER: usize = 1024 * 1024;
