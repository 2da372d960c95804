//! Signed messages: with a key shared with the server, nothing is changed on its way unseen
//! (MCP-073).
//!
//! What leaves is put into an envelope before a transport takes it, and what arrives is opened
//! before anybody looks inside; see [`mcp_flow_seal::envelope`].

use std::sync::Arc;
use std::time::SystemTime;

use mcp_flow_seal::KeyRing;
use mcp_flow_seal::envelope::{Caller, MessageKeys, Refused};

use crate::transport::TransportError;

/// The keys a client signs with. Cheap to clone.
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
    /// The first key of the ring signs; what any of them has signed is believed.
    pub fn new(ring: &KeyRing) -> Self {
        Self { keys: MessageKeys::new(ring) }
    }

    /// One connection's end.
    pub(crate) fn begin(&self) -> Result<SignedChannel, TransportError> {
        let (mut channel, mut sender) = ([0; 16], [0; 8]);
        let filled = getrandom::fill(&mut channel).and_then(|()| getrandom::fill(&mut sender));
        filled.map_err(|error| {
            let what = format!("no random numbers are to be had for signing: {error}");
            TransportError::Unreachable { what, source: None }
        })?;
        Ok(SignedChannel(Arc::new(Caller::new(self.keys.clone(), channel, sender))))
    }
}

/// The client's end of a connection whose messages are signed. Cheap to clone.
///
/// Transports need it only if they look into messages or change them themselves; the others carry
/// what is signed already.
#[derive(Clone, Debug)]
pub struct SignedChannel(Arc<Caller>);

impl SignedChannel {
    /// Signs a message. Messages must leave in the order in which they are signed.
    pub fn wrap(&self, message: Vec<u8>) -> Vec<u8> {
        self.0.wrap(now(), message)
    }

    /// Signs a message and hands it on before another can be signed.
    pub(crate) fn send(&self, message: Vec<u8>, hand_on: impl FnOnce(Vec<u8>)) {
        self.0.send(now(), message, hand_on);
    }

    /// Opens a message of the server.
    pub fn open<'a>(&self, frame: &'a [u8]) -> Result<&'a [u8], TransportError> {
        self.0.open(frame).map_err(|refused| explain(refused, frame))
    }

    /// As [`open`](Self::open); `None` for what is not signed at all.
    pub(crate) fn open_if_signed<'a>(
        &self,
        frame: &'a [u8],
    ) -> Option<Result<&'a [u8], TransportError>> {
        match self.0.open(frame) {
            Err(Refused::Unsigned) => None,
            opened => Some(opened.map_err(|refused| explain(refused, frame))),
        }
    }

    pub(crate) fn allow_any_order(&self) {
        self.0.allow_any_order();
    }
}

pub(crate) fn explain(refused: Refused, frame: &[u8]) -> TransportError {
    TransportError::Untrusted(match refused {
        Refused::Unsigned => {
            let said = String::from_utf8_lossy(&frame[..frame.len().min(1600)]);
            let said = crate::neutral::shorten(&said, 400);
            format!(
                "the server's answer is not signed, so it is not believed. Does the server sign, \
                 with the same key? It says: {said}"
            )
        }
        Refused::UnknownKey => {
            "the server signs with a key this client does not have; give both the same".to_owned()
        }
        refused => format!("a message of the server is not believed: {refused}"),
    })
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
