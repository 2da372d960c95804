//! Finding a server by its address, and asking it for a session.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_ok;
use rustls::version::TLS13;
use tokio::net::lookup_host;
use tokio::time::sleep;
use url::Url;
use web_transport_quinn::http::{HeaderValue, header};
use web_transport_quinn::proto::ConnectRequest;
use web_transport_quinn::quinn::crypto::rustls::QuicClientConfig;
use web_transport_quinn::quinn::{ClientConfig, ConnectionError, Endpoint};
use web_transport_quinn::{ALPN, ClientError, Session};

use super::{ConnectError, Settings};
use crate::quic;

/// A session, and what keeps it going.
pub(super) type Dialled = (Session, Endpoint);

/// Asks all addresses of a server for a session, one a moment after the other, since nobody tells
/// where no one listens. The first to answer is the one, even if it refuses.
pub(super) async fn dial(url: &str, settings: &Settings) -> Result<Dialled, ConnectError> {
    let url = Url::parse(url).map_err(|_| ConnectError::Url)?;
    let host = url.host_str().filter(|_| url.scheme() == "https").ok_or(ConnectError::Url)?;
    let name = host.trim_matches(['[', ']']);
    let port = url.port().unwrap_or(443);
    let (config, request) = (config(settings)?, request(url.clone(), settings)?);
    let unknown = |source| ConnectError::Lookup { host: name.to_owned(), source };
    let addresses = lookup_host((name, port)).await.map_err(unknown)?;
    let mut attempts = Vec::new();
    for (place, address) in (0_u32..).zip(addresses) {
        let (config, request) = (config.clone(), request.clone());
        attempts.push(Box::pin(async move {
            sleep(APART * place).await;
            match dial_one(address, name, config, request).await {
                Err(error) if is_silence(&error) => Err(error),
                answer => Ok(answer),
            }
        }));
    }
    if attempts.is_empty() {
        return Err(ConnectError::NoAddress(name.to_owned()));
    }
    let (answer, _) = select_ok(attempts).await?;
    answer
}

fn config(settings: &Settings) -> Result<ClientConfig, ConnectError> {
    let tls = settings.trust.client_config(&[&TLS13], &[ALPN])?;
    let tls = QuicClientConfig::try_from(tls).map_err(|_| ConnectError::Cipher)?;
    let mut config = ClientConfig::new(Arc::new(tls));
    let transport =
        quic::client_transport(settings.idle_time, settings.datagrams, settings.streams);
    config.transport_config(Arc::new(transport));
    Ok(config)
}

fn request(url: Url, settings: &Settings) -> Result<ConnectRequest, ConnectError> {
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
) -> Result<Dialled, ConnectError> {
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

/// Whether nobody is there, so that another address may be the right one.
fn is_silence(error: &ConnectError) -> bool {
    matches!(
        error,
        ConnectError::Socket(_)
            | ConnectError::Server(
                ClientError::QuinnError(_) | ClientError::Connection(ConnectionError::TimedOut)
            )
    )
}

/// How long the next address waits for the one before it.
const APART: Duration = Duration::from_millis(300);
