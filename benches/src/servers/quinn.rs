//! A minimal file server over QUIC: quinn and nothing else.
//!
//! It echoes each frame on the first stream, unless the frame asks for the file, which is then sent
//! on a separate stream. Its pings and its bulk data therefore share a connection, as those of MCP
//! Flow do.

use std::{
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use bytes::{Bytes, BytesMut};
use tokio::{fs::File, io::AsyncReadExt};
use tokio_rustls::rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use web_transport_quinn::quinn::{
    self, Connection, Endpoint, EndpointConfig, IdleTimeout, MtuDiscoveryConfig, SendStream,
    TransportConfig, VarInt, crypto::rustls::QuicServerConfig,
};

use super::Runtime;

/// The subcommand that starts it.
pub(crate) const COMMAND: &str = "serve-quinn";

/// The ALPN protocol name; there is no HTTP/3 here.
pub(crate) const ALPN: &[u8] = b"benches";

/// The frame that asks for the file.
pub(crate) const SEND_FILE: &[u8] = b"file";

/// The file to send, and the certificate to use.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Settings {
    file: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

pub(crate) fn serve(settings: Settings) -> anyhow::Result<()> {
    Runtime::MultiThread.build()?.block_on(listen(settings))
}

async fn listen(settings: Settings) -> anyhow::Result<()> {
    let certificate = CertificateDer::from_pem_file(&settings.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&settings.key)?;
    let mut tls =
        ServerConfig::builder_with_protocol_versions(&[&tokio_rustls::rustls::version::TLS13])
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(Arc::new(server_transport()));
    let endpoint = endpoint(Some(config))?;
    announce(endpoint.local_addr()?)?;
    let file: Arc<Path> = settings.file.into();
    while let Some(incoming) = endpoint.accept().await {
        let file = file.clone();
        tokio::spawn(async move {
            // A client that disconnects is not an error.
            let _ = attend(incoming.await?, file).await;
            anyhow::Ok(())
        });
    }
    Ok(())
}

async fn attend(connection: Connection, file: Arc<Path>) -> anyhow::Result<()> {
    let (mut replies, mut requests) = connection.accept_bi().await?;
    let datagrams = connection.clone();
    tokio::spawn(async move { while datagrams.read_datagram().await.is_ok() {} });
    let mut received = BytesMut::new();
    while let Some(chunk) = requests.read_chunk(READ, true).await? {
        received.extend_from_slice(&chunk.bytes);
        let mut reply = BytesMut::new();
        while let Some(frame) = take_frame(&mut received) {
            let body = &frame[4..];
            if body == SEND_FILE {
                let (stream, file) = (connection.open_uni().await?, file.clone());
                tokio::spawn(send_file(stream, file));
            } else {
                reply.extend_from_slice(&frame);
            }
        }
        replies.write_chunk(reply.freeze()).await?;
    }
    Ok(())
}

async fn send_file(mut stream: SendStream, path: Arc<Path>) -> anyhow::Result<()> {
    stream.write_all(&[0; 8]).await?;
    let mut file = File::open(path).await?;
    file.set_max_buf_size(PIECE);
    loop {
        let mut piece = BytesMut::with_capacity(PIECE);
        if file.read_buf(&mut piece).await? == 0 {
            break;
        }
        stream.write_chunk(piece.freeze()).await?;
    }
    Ok(stream.finish()?)
}

/// Removes the first length-prefixed frame from the received bytes, if it is complete.
pub(crate) fn take_frame(received: &mut BytesMut) -> Option<Bytes> {
    let (length, _) = received.split_first_chunk::<4>()?;
    let whole = 4 + u32::from_be_bytes(*length) as usize;
    (received.len() >= whole).then(|| received.split_to(whole).freeze())
}

/// Returns the transport configuration of the server, the same as MCP Flow's, so that it makes no
/// difference.
fn server_transport() -> TransportConfig {
    let mut transport = common_transport();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(8))
        .max_concurrent_uni_streams(VarInt::from_u32(16))
        .stream_receive_window(VarInt::from_u32(512 * 1024))
        .receive_window(VarInt::from_u32(1024 * 1024));
    transport
}

/// Returns the transport configuration of the client, for either server.
pub(crate) fn client_transport() -> TransportConfig {
    let mut transport = common_transport();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(4))
        .max_concurrent_uni_streams(VarInt::from_u32(64))
        .stream_receive_window(VarInt::from_u32(1024 * 1024));
    transport
}

fn common_transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(6500);
    transport
        .mtu_discovery_config(Some(discovery))
        .max_idle_timeout(IdleTimeout::try_from(IDLE_TIME).ok())
        .keep_alive_interval(Some(IDLE_TIME / 3))
        .send_window(8 * 1024 * 1024)
        .datagram_receive_buffer_size(Some(64 * 1024))
        .datagram_send_buffer_size(64 * 1024);
    transport
}

/// Opens a socket on a free port with the buffer sizes of MCP Flow.
pub(crate) fn endpoint(server: Option<quinn::ServerConfig>) -> anyhow::Result<Endpoint> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    for set in [
        rustix::net::sockopt::set_socket_recv_buffer_size,
        rustix::net::sockopt::set_socket_send_buffer_size,
    ] {
        set(&socket, SOCKET_BUFFER).context("the kernel refuses a larger buffer")?;
    }
    let runtime = quinn::default_runtime().context("this is run by tokio")?;
    Ok(Endpoint::new(EndpointConfig::default(), server, socket, runtime)?)
}

#[expect(clippy::disallowed_methods, reason = "the parent process waits for this line")]
fn announce(address: SocketAddr) -> io::Result<()> {
    writeln!(io::stdout(), r#"{{"mcp":"http://{address}/mcp"}}"#)
}

/// The file read size of MCP Flow.
const PIECE: usize = 256 * 1024;
const READ: usize = 64 * 1024;
const IDLE_TIME: Duration = Duration::from_secs(30);
const SOCKET_BUFFER: usize = 1 << 20;
