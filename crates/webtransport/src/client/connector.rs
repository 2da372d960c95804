//! Connector for servers reached by WebTransport.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_flow_client::authorizer::{CredentialRefusal, MAX_REPETITIONS};
use mcp_flow_client::transport::{Connector, Inbox, Transport, TransportError};
use mcp_flow_proto::Encoding;
use web_transport_quinn::http::{HeaderValue, StatusCode, header};
use web_transport_quinn::{ClientError, RecvStream, proto};

use super::transport::WebTransport;
use super::{ConnectError, ConnectSettings, TransportClient, establish};

/// A connector for a WebTransport server.
#[derive(Clone, Debug)]
pub struct WebTransportServer {
    url: String,
    settings: ConnectSettings,
    encodings: Vec<Encoding>,
}

/// Creates a connector for the server at `https://HOST:PORT/mcp-flow`.
///
/// ```no_run
/// use mcp_flow_client::Client;
/// use mcp_flow_webtransport::client::{ConnectSettings, Trust, server};
/// use tokio::io::AsyncReadExt;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let settings = ConnectSettings::new(Trust::fingerprint("3ad1…")?);
/// let server = server("https://localhost:4433/mcp-flow", settings);
/// let client = Client::builder().connect(server).await?;
/// let result = client.call_tool("read_file", serde_json::json!({"path": "/big.log"})).raw().await?;
/// // A result too large for a message names a stream, which is read at the reader's own pace.
/// let mut reader = client.open_content(&result["content"][0]).await?.into_reader();
/// let mut beginning = [0; 80];
/// reader.read_exact(&mut beginning).await?;
/// # Ok(())
/// # }
/// ```
pub fn server(url: impl Into<String>, settings: ConnectSettings) -> WebTransportServer {
    WebTransportServer {
        url: url.into(),
        settings,
        encodings: vec![Encoding::Cbor, Encoding::Json],
    }
}

impl WebTransportServer {
    /// Sets the encodings to offer in order of preference. Defaults to CBOR, then JSON, as in seed
    /// 001.
    ///
    /// The encoding is negotiated in the handshake. A client that prefers an encoding other than
    /// JSON therefore uses a handshake revision, unless a revision is set explicitly (C-61).
    ///
    /// ```
    /// use mcp_flow_proto::Encoding;
    /// use mcp_flow_webtransport::client::{ConnectSettings, Trust, server};
    ///
    /// let server = server("https://localhost:4433/mcp-flow", ConnectSettings::new(Trust::System));
    /// let server = server.encodings(&[Encoding::Json]);
    /// ```
    #[must_use]
    pub fn encodings(mut self, encodings: &[Encoding]) -> Self {
        self.encodings = encodings.to_vec();
        self
    }

    /// Connects with the credential of the authorizer, if there is one.
    async fn connect_authorized(
        &self,
        mut settings: ConnectSettings,
    ) -> Result<(TransportClient, RecvStream), TransportError> {
        let has_credential =
            settings.token.is_some() || settings.headers.contains_key(header::AUTHORIZATION);
        let authorizer =
            settings.authorizer.take().filter(|known| !has_credential && known.is_for(&self.url));
        let Some(authorizer) = authorizer else {
            return establish(&self.url, &settings).await.map_err(transport_error);
        };
        let mut repetitions = 0;
        loop {
            let shown = authorizer.credential().await?;
            let mut attempt = settings.clone();
            if let Some(credential) = &shown {
                let value = HeaderValue::from_str(credential.header());
                let mut value = value.map_err(|_| transport_error(ConnectError::Header))?;
                value.set_sensitive(true);
                attempt.headers.insert(header::AUTHORIZATION, value);
                if let Some(proof) = credential.sign_proof("CONNECT", &self.url)? {
                    let value = HeaderValue::from_str(&proof);
                    let value = value.map_err(|_| transport_error(ConnectError::Header))?;
                    attempt.headers.insert("dpop", value);
                }
            }
            let error = match establish(&self.url, &attempt).await {
                Ok(connected) => return Ok(connected),
                Err(error) => transport_error(error),
            };
            let is_refused = matches!(error, TransportError::Unauthorized { .. });
            if repetitions == MAX_REPETITIONS || !is_refused {
                return Err(error);
            }
            repetitions += 1;
            // The library exposes only the status.
            let refusal = CredentialRefusal { shown, status: 401, challenges: Vec::new() };
            if !authorizer.refused(refusal).await? {
                return Err(error);
            }
        }
    }
}

impl Connector for WebTransportServer {
    fn target(&self) -> &str {
        &self.url
    }

    fn connect(&self, inbox: Inbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        Box::pin(async move {
            let mut inbox = inbox;
            let mut settings = self.settings.clone();
            settings.max_frame = inbox.frame_limit();
            settings.signed = inbox.take_signing();
            let (client, control) = Box::pin(self.connect_authorized(settings)).await?;
            let transport = WebTransport::spawn(client, control, inbox, &self.encodings);
            Ok(Arc::new(transport) as Arc<dyn Transport>)
        })
    }

    fn origin(&self) -> Option<String> {
        Some(self.url.clone())
    }
}

/// Maps a connection failure to a transport error.
fn transport_error(error: ConnectError) -> TransportError {
    let status = match &error {
        ConnectError::Server(ClientError::HttpError(error)) => status_of(error),
        _ => None,
    };
    let mut what = error.to_string();
    match status.map(|status| status.as_u16()) {
        Some(401) => TransportError::Unauthorized { what, challenge: None },
        Some(404) => TransportError::Unsuitable(what),
        Some(status) => TransportError::Refused { what, status, retry_after: None },
        None => {
            if what.contains("invalid peer certificate") {
                what += "; trust a self-signed certificate by its fingerprint";
            }
            TransportError::Unreachable { what, source: None }
        }
    }
}

fn status_of(error: &web_transport_quinn::ConnectError) -> Option<StatusCode> {
    match error {
        web_transport_quinn::ConnectError::ErrorStatus(status) => Some(*status),
        web_transport_quinn::ConnectError::ProtoError(proto::ConnectError::WrongStatus(status)) => {
            *status
        }
        _ => None,
    }
}
