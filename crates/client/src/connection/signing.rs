//! Message signing with a key shared with the server (MCP-073).
//!
//! Outgoing messages are signed before the transport sends them; incoming messages are verified
//! before they are decoded. [`mcp_flow_seal::envelope`] defines the format.

use std::sync::Arc;
use std::time::SystemTime;

use mcp_flow_seal::KeyRing;
use mcp_flow_seal::envelope::{ClientChannel, EnvelopeError, MessageKeys};

use crate::transport::TransportError;

/// Keys for signing messages. Cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_flow_client::Error> {
/// use mcp_flow_client::seal::{Key, KeyRing};
/// use mcp_flow_client::{Client, Signing};
///
/// let ring = KeyRing::new(Key::from_bytes([7; 32]));
/// # let server = mcp_flow_server::Server::builder("signed", "1.0.0");
/// # let server = server.signing(mcp_flow_server::Signing::new(&ring)).build().unwrap();
/// # let connector = mcp_flow_stdio::client::in_process(&server);
/// let client = Client::builder().with(|options| options.signing = Some(Signing::new(&ring)));
/// client.connect(connector).await?.ping().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Signing {
    keys: MessageKeys,
}

impl Signing {
    /// Signs with the first key of the ring and verifies with all of them.
    pub fn new(ring: &KeyRing) -> Self {
        Self { keys: MessageKeys::new(ring) }
    }

    /// Creates the signing state of one connection.
    pub(crate) fn begin(&self) -> Result<SignedChannel, TransportError> {
        let (mut channel, mut sender) = ([0; 16], [0; 8]);
        let filled = getrandom::fill(&mut channel).and_then(|()| getrandom::fill(&mut sender));
        filled.map_err(|error| {
            let what = format!("the system's random number generator failed: {error}");
            TransportError::Unreachable { what, source: None }
        })?;
        Ok(SignedChannel(Arc::new(ClientChannel::new(self.keys.clone(), channel, sender))))
    }
}

/// Signing state of one connection. Cheap to clone.
///
/// Only transports that inspect or change messages need it; the others carry signed messages.
#[derive(Clone, Debug)]
pub struct SignedChannel(Arc<ClientChannel>);

impl SignedChannel {
    /// Signs a message. Messages must be sent in the order in which they are signed.
    pub fn wrap(&self, message: Vec<u8>) -> Vec<u8> {
        self.0.wrap(now(), message)
    }

    /// Signs a message and sends it before another can be signed.
    pub(crate) fn send(&self, message: Vec<u8>, hand_on: impl FnOnce(Vec<u8>)) {
        self.0.send(now(), message, hand_on);
    }

    /// Verifies a message from the server and returns its content.
    pub fn open<'a>(&self, frame: &'a [u8]) -> Result<&'a [u8], TransportError> {
        self.0.open(frame).map_err(|refused| explain(refused, frame))
    }

    /// Like [`open`](Self::open); `None` for a message without a signature.
    pub(crate) fn open_if_signed<'a>(
        &self,
        frame: &'a [u8],
    ) -> Option<Result<&'a [u8], TransportError>> {
        match self.0.open(frame) {
            Err(EnvelopeError::Unsigned) => None,
            opened => Some(opened.map_err(|refused| explain(refused, frame))),
        }
    }

    pub(crate) fn allow_reordering(&self) {
        self.0.allow_any_order();
    }
}

pub(crate) fn explain(refused: EnvelopeError, frame: &[u8]) -> TransportError {
    TransportError::InvalidSignature(match refused {
        EnvelopeError::Unsigned => {
            let said = String::from_utf8_lossy(&frame[..frame.len().min(1600)]);
            let said = crate::sanitize::shorten(&said, 400);
            format!(
                "the server's message is not signed. Configure the server to sign with the same \
                 key. It sent: {said}"
            )
        }
        EnvelopeError::UnknownKey => {
            "the server signs with an unknown key; configure both ends with the same key".to_owned()
        }
        refused => format!("a message from the server has no valid signature: {refused}"),
    })
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
