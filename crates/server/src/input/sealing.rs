//! The server's sealing keys.

use std::sync::Arc;

use mcp_flow_proto::RpcError;
use mcp_flow_seal::{Key, KeyRing, Seal};
use parking_lot::RwLock;

use crate::server::{Server, ServerBuilder};

/// The sealing keys of a server: those configured, or an ephemeral one generated when first needed.
#[derive(Debug, Default)]
pub(crate) struct Sealing(RwLock<Option<Arc<KeyRing>>>);

impl Sealing {
    pub(crate) fn set(&self, keys: KeyRing) {
        *self.0.write() = Some(Arc::new(keys));
    }

    fn keys(&self) -> Result<Arc<KeyRing>, getrandom::Error> {
        if let Some(keys) = &*self.0.read() {
            return Ok(keys.clone());
        }
        let own = Arc::new(KeyRing::new(Key::from_bytes(random()?)));
        let mut keys = self.0.write();
        Ok(keys.get_or_insert(own).clone())
    }
}

impl ServerBuilder {
    /// Sets the keys that seal state carried by clients.
    ///
    /// Without them the server generates a key: its seals open nowhere else, and not after a
    /// restart. Servers behind one load balancer share their keys.
    ///
    /// ```
    /// use mcp_flow_seal::{Key, KeyRing};
    /// use mcp_flow_server::Server;
    ///
    /// let keys: KeyRing = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE".parse().unwrap();
    /// let server = Server::builder("shared", "1.0.0").sealing_keys(keys).build().unwrap();
    /// ```
    pub fn sealing_keys(self, keys: KeyRing) -> Self {
        self.sealing().set(keys);
        self
    }
}

impl Server {
    /// Replaces the keys while the server runs, for example by a ring with a new key in front.
    pub fn set_sealing_keys(&self, keys: KeyRing) {
        self.sealing().set(keys);
    }

    /// The keys; an error only if the random number generator fails.
    pub fn sealing_keys(&self) -> Result<Arc<KeyRing>, getrandom::Error> {
        self.sealing().keys()
    }

    /// Seals content as text with a fresh nonce.
    pub(crate) fn seal(
        &self,
        seal: Seal<'_>,
        expires: Option<u64>,
        content: &[u8],
    ) -> Result<String, RpcError> {
        let sealed = || Ok(self.sealing_keys()?.seal(seal, expires, content, random()?));
        sealed().map_err(|error: getrandom::Error| {
            tracing::error!(%error, "the system's random number generator failed");
            RpcError::internal()
        })
    }
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}
