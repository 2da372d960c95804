//! Resolves a server's address and establishes a session.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_ok;
use mcp_flow_client::transport::lookup;
use rustls::version::TLS13;
use tokio::time::sleep;
use url::Url;
use web_transport_quinn::http::{HeaderValue, header};
use web_transport_quinn::proto::ConnectRequest;
use web_transport_quinn::quinn::crypto::rustls::QuicClientConfig;
use web_transport_quinn::quinn::{ClientConfig, ConnectionError, Endpoint};
use web_transport_quinn::{ALPN, ClientError, Session};

use super::{ConnectError, ConnectSettings};
use crate::quic;

/// A session, and the endpoint that drives it.
pub(super) type Connected = (Session, Endpoint);

/// Connects to all addresses of a server, each started a moment after the one before, because an
/// unused UDP port does not result. The first server to respond wins, even if it rejects the
/// session.
pub(super) async fn dial(url: &str, settings: &ConnectSettings) -> Result<Connected, ConnectError> {
    let url = Url::parse(url).map_err(|_| ConnectError::Url)?;
    let host = url.host_str().filter(|_| url.scheme() == "https").ok_or(ConnectError::Url)?;
    let name = host.trim_matches(['[', ']']);
    let port = url.port().unwrap_or(443);
    let (config, request) = (config(settings)?, request(url.clone(), settings)?);
    let lookup_error = |source| ConnectError::Lookup { host: name.to_owned(), source };
    let addresses = lookup(name, port).await.map_err(lookup_error)?;
    let mut attempts = Vec::new();
    for (index, address) in (0_u32..).zip(addresses) {
        let (config, request) = (config.clone(), request.clone());
        attempts.push(Box::pin(async move {
            sleep(ATTEMPT_DELAY * index).await;
            match dial_one(address, name, config, request).await {
                Err(error) if is_unreachable(&error) => Err(error),
                result => Ok(result),
            }
        }));
    }
    if attempts.is_empty() {
        return Err(ConnectError::NoAddress(name.to_owned()));
    }
    let (result, _) = select_ok(attempts).await?;
    result
}

fn config(settings: &ConnectSettings) -> Result<ClientConfig, ConnectError> {
    let tls = settings.trust.client_config(&[&TLS13], &[ALPN])?;
    let tls = QuicClientConfig::try_from(tls).map_err(|_| ConnectError::Cipher)?;
    let mut config = ClientConfig::new(Arc::new(tls));
    let transport =
        quic::client_transport(settings.idle_timeout, settings.datagrams, settings.max_streams);
    config.transport_config(Arc::new(transport));
    Ok(config)
}

fn request(url: Url, settings: &ConnectSettings) -> Result<ConnectRequest, ConnectError> {
    let mut request = ConnectRequest::new(url).with_headers(settings.headers.clone());
    let token = settings.token.as_ref().map(|token| format!("Bearer {token}"));
    for (name, value) in [(header::AUTHORIZATION, token), (header::ORIGIN, settings.origin.clone())]
    {
        if let Some(value) = value {
            let value = HeaderValue::from_str(&value).map_err(|_| ConnectError::Header)?;
            request = request.with_header(name, value);
        }
    }
    Ok(request)
}

async fn dial_one(
    address: SocketAddr,
    name: &str,
    config: ClientConfig,
    request: ConnectRequest,
) -> Result<Connected, ConnectError> {
    let any = match address.is_ipv6() {
        true => "[::]:0",
        false => "0.0.0.0:0",
    };
    let any = any.parse().expect("this is an address");
    let endpoint = quic::endpoint(any, None).map_err(ConnectError::Socket)?;
    let connecting = endpoint.connect_with(config, address, name).map_err(ClientError::from)?;
    let connection = connecting.await.map_err(ClientError::from)?;
    Ok((Session::connect(connection, request).await?, endpoint))
}

/// Returns whether no server responded, so that another address may.
fn is_unreachable(error: &ConnectError) -> bool {
    matches!(
        error,
        ConnectError::Socket(_)
            | ConnectError::Server(
                ClientError::QuinnError(_) | ClientError::Connection(ConnectionError::TimedOut)
            )
    )
}

/// Delay between connection attempts.
const ATTEMPT_DELAY: Duration = Duration::from_millis(300);
