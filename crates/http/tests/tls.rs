//! MCP-071: HTTP over TLS, and renewal of the certificate.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::{Running, initialize, start_with};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mcp_flow_http::{Options, Tls};
use mcp_flow_testkit::http::Connection;
use mcp_flow_testkit_fixture::Fixture;
use rcgen::CertifiedKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

/// WT-067: TLS 1.3 works with HTTP/1.1 and HTTP/2; older versions of TLS are rejected.
#[tokio::test]
async fn tls_1_3_is_required() {
    let folder = Folder::new();
    let certificate = folder.renew();
    let running = serve(folder.tls()).await;
    let refused = connect(running.address, &certificate, &TLS12, "http/1.1").await;
    assert!(refused.is_err(), "TLS 1.2 is too old");
    let stream = connect(running.address, &certificate, &TLS13, "http/1.1").await.unwrap();
    let mut connection = Connection::over(stream);
    connection.write(&initialize("2025-11-25").bytes()).await;
    assert_eq!(connection.response().await.status, 200);
    let stream = connect(running.address, &certificate, &TLS13, "h2").await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let request = hyper::Request::get("https://localhost/readyz");
    let answer = sender.send_request(request.body(String::new()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
    drop((sender, answer));
    connection.await.unwrap().unwrap();
    let other = Folder::new().renew();
    assert!(connect(running.address, &other, &TLS13, "h2").await.is_err(), "not the one trusted");
    running.stop().await;
}

/// The client trusts only the given CA file.
#[tokio::test]
async fn the_client_trusts_only_the_given_ca_file() {
    use mcp_flow_client::{Client, ErrorKind};
    use mcp_flow_http::client::{HttpOptions, Trust, server};

    let (folder, other) = (Folder::new(), Folder::new());
    folder.renew();
    other.renew();
    let running = serve(folder.tls()).await;
    let port = running.address.port();
    for url in [format!("https://localhost:{port}/mcp"), format!("wss://localhost:{port}/ws")] {
        let by = |trust| server(&url, &HttpOptions::new().trust(trust)).unwrap();
        let client = Client::builder().connect(by(Trust::File(folder.certificate())));
        client.await.unwrap().ping().await.unwrap();
        for trust in [Trust::System, Trust::File(other.certificate())] {
            let error = Client::builder().connect(by(trust)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
            assert!(error.to_string().contains("certificate"), "{error}");
        }
    }
    let missing = HttpOptions::new().trust(Trust::File(PathBuf::from("/no/such/file.pem")));
    assert!(server("https://localhost/mcp", &missing).is_err());
}

/// A renewed certificate is loaded while the server runs.
#[tokio::test]
async fn a_renewed_certificate_is_loaded() {
    let folder = Folder::new();
    let old = folder.renew();
    let running = serve(folder.tls()).await;
    connect(running.address, &old, &TLS13, "h2").await.unwrap();
    let new = folder.renew();
    until_served(&running, &new).await;
    assert!(connect(running.address, &old, &TLS13, "h2").await.is_err());
}

/// Unusable files are rejected at start, and the error names the file.
#[test]
fn unusable_files_are_named() {
    let folder = Folder::new();
    let said = || Tls::from_pem(folder.certificate(), folder.key()).unwrap_err().to_string();
    assert!(said().contains("certificate.pem"), "{}", said());
    folder.renew();
    std::fs::write(folder.certificate(), "").unwrap();
    assert!(said().contains("holds no certificate"), "{}", said());
    folder.write_certificate();
    assert!(said().contains("together"), "{}", said());
    std::fs::remove_file(folder.key()).unwrap();
    assert!(said().contains("key.pem"), "{}", said());
}

/// A client that stalls the handshake, or sends nothing after it, is disconnected.
#[tokio::test]
async fn handshakes_time_out() {
    let folder = Folder::new();
    let certificate = folder.renew();
    let soon = Duration::from_millis(50);
    let options = Options { head_timeout: soon, write_timeout: soon, ..Options::default() };
    let server = Fixture::new().server;
    let running =
        start_with(&server, |bound| bound.options(options).tls(folder.tls()).unwrap()).await;
    let mut silent = Connection::open(running.address).await;
    assert_eq!(silent.byte().await, None);
    for protocol in ["h2", "http/1.1"] {
        let stream = connect(running.address, &certificate, &TLS13, protocol).await.unwrap();
        let mut silent = Connection::over(stream);
        while silent.byte().await.is_some() {}
    }
}

async fn serve(tls: Tls) -> Running {
    start_with(&Fixture::new().server, |bound| bound.tls(tls).unwrap()).await
}

/// Waits until a client that trusts only this certificate is served.
async fn until_served(running: &Running, certificate: &CertificateDer<'static>) {
    let served =
        async { while connect(running.address, certificate, &TLS13, "h2").await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(30), served).await.expect("it is taken up");
}

async fn connect(
    address: SocketAddr,
    trusted: &CertificateDer<'static>,
    version: &'static SupportedProtocolVersion,
    protocol: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let stream = TcpStream::connect(address).await?;
    let name = "localhost".try_into().unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Temporary folder with a certificate and key.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("mcp-flow-tls-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn certificate(&self) -> PathBuf {
        self.0.join("certificate.pem")
    }

    fn key(&self) -> PathBuf {
        self.0.join("key.pem")
    }

    /// Writes a new certificate and its key.
    fn renew(&self) -> CertificateDer<'static> {
        let made = self.write_certificate();
        std::fs::write(self.key(), made.signing_key.serialize_pem()).unwrap();
        made.cert.der().clone()
    }

    /// Writes a new certificate without its key.
    fn write_certificate(&self) -> CertifiedKey<rcgen::KeyPair> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(self.certificate(), made.cert.pem()).unwrap();
        made
    }

    fn tls(&self) -> Tls {
        let tls = Tls::from_pem(self.certificate(), self.key()).unwrap();
        tls.check_every(Duration::from_millis(10))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
