//! A server that is reached by WebTransport, as the client above wants it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_flow_client::authorizer::{MOST_REPETITIONS, Refusal};
use mcp_flow_client::transport::{Connector, Inbox, Transport, TransportError};
use mcp_flow_proto::Encoding;
use web_transport_quinn::http::{HeaderValue, StatusCode, header};
use web_transport_quinn::{ClientError, proto};

use super::carry::WebTransport;
use super::{Client, ConnectError, Events, Settings, connect};

/// A server that is reached by WebTransport, as often as it takes.
#[derive(Clone, Debug)]
pub struct WebTransportServer {
    url: String,
    settings: Settings,
    encodings: Vec<Encoding>,
}

/// Reaches the server at `https://HOST:PORT/mcp-flow`.
///
/// ```no_run
/// use mcp_flow_client::Client;
/// use mcp_flow_webtransport::client::{Settings, Trust, server};
/// use tokio::io::AsyncReadExt;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let settings = Settings::new(Trust::hash("3ad1…")?);
/// let server = server("https://localhost:4433/mcp-flow", settings);
/// let client = Client::builder().connect(server).await?;
/// let result = client.call_tool("read_file", serde_json::json!({"path": "/big.log"})).raw().await?;
/// // A result too large for a message names a stream, which is read at the reader's own pace.
/// let mut reader = client.open(&result["content"][0]).await?.into_reader();
/// let mut beginning = [0; 80];
/// reader.read_exact(&mut beginning).await?;
/// # Ok(())
/// # }
/// ```
pub fn server(url: impl Into<String>, settings: Settings) -> WebTransportServer {
    WebTransportServer {
        url: url.into(),
        settings,
        encodings: vec![Encoding::Cbor, Encoding::Json],
    }
}

impl WebTransportServer {
    /// Offers these encodings, the one liked best first. Defaults to CBOR, then JSON, as in seed 001.
    ///
    /// Encodings are agreed on in the handshake, so a client that likes another than JSON best speaks
    /// a revision that has one, unless it is told which to speak (C-61).
    ///
    /// ```
    /// use mcp_flow_proto::Encoding;
    /// use mcp_flow_webtransport::client::{Settings, Trust, server};
    ///
    /// let server = server("https://localhost:4433/mcp-flow", Settings::new(Trust::System));
    /// let server = server.encodings(&[Encoding::Json]);
    /// ```
    #[must_use]
    pub fn encodings(mut self, encodings: &[Encoding]) -> Self {
        self.encodings = encodings.to_vec();
        self
    }

    /// Connects, with the credential of the server where there is one.
    async fn reach(&self, mut settings: Settings) -> Result<(Client, Events), TransportError> {
        let is_given =
            settings.token.is_some() || settings.headers.contains_key(header::AUTHORIZATION);
        let authorizer =
            settings.authorizer.take().filter(|known| !is_given && known.is_for(&self.url));
        let Some(authorizer) = authorizer else {
            return connect(&self.url, settings).await.map_err(explain);
        };
        let mut repetitions = 0;
        loop {
            let shown = authorizer.credential().await?;
            let mut attempt = settings.clone();
            if let Some(credential) = &shown {
                let value = HeaderValue::from_str(credential.header());
                let mut value = value.map_err(|_| explain(ConnectError::Header))?;
                value.set_sensitive(true);
                attempt.headers.insert(header::AUTHORIZATION, value);
            }
            let error = match connect(&self.url, attempt).await {
                Ok(connected) => return Ok(connected),
                Err(error) => explain(error),
            };
            let is_refused = matches!(error, TransportError::Unauthorized { .. });
            if repetitions == MOST_REPETITIONS || !is_refused {
                return Err(error);
            }
            repetitions += 1;
            // The library hands out the status alone.
            let refusal = Refusal { shown, status: 401, challenges: Vec::new() };
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
            settings.frame = inbox.frame_limit();
            settings.signed = inbox.take_signed();
            let (client, events) = Box::pin(self.reach(settings)).await?;
            let transport = WebTransport::begin(client, events, inbox, &self.encodings);
            Ok(Arc::new(transport) as Arc<dyn Transport>)
        })
    }

    fn origin(&self) -> Option<String> {
        Some(self.url.clone())
    }
}

/// What a failure to connect means to the client above.
fn explain(error: ConnectError) -> TransportError {
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
                what += "; a certificate the server made itself is believed by its hash";
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
