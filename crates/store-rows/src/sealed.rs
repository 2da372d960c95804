//! Sealed values beside journals: messages between nodes, and records.

use mcp_flow_seal::{KeyRing, Seal};
use mcp_flow_session::StoreError;

/// Seals a message between nodes.
pub fn seal_message(keys: &KeyRing, message: &[u8]) -> Result<Vec<u8>, StoreError> {
    Ok(keys.seal_bytes(MESSAGE, None, message, random()?))
}

/// Opens a message of another node. None if it was sealed with other keys, which is logged.
pub fn open_message(keys: &KeyRing, sealed: &[u8]) -> Option<Vec<u8>> {
    let opened = keys.open_bytes(MESSAGE, 0, sealed).ok();
    if opened.is_none() {
        tracing::warn!("a message of another node cannot be decrypted");
    }
    opened
}

/// Seals the value of a record.
pub fn seal_record(keys: &KeyRing, key: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
    Ok(keys.seal_bytes(record(key), None, value, random()?))
}

/// Opens the value of a record. None if it was sealed with other keys, which is logged.
pub fn open_record(keys: &KeyRing, key: &str, sealed: &[u8]) -> Option<Vec<u8>> {
    let opened = keys.open_bytes(record(key), 0, sealed).ok();
    if opened.is_none() {
        tracing::warn!("a record of another node cannot be decrypted");
    }
    opened
}

fn random() -> Result<[u8; 24], StoreError> {
    let mut random = [0; 24];
    getrandom::fill(&mut random)
        .map_err(|error| StoreError::Backend(Box::new(std::io::Error::other(error.to_string()))))?;
    Ok(random)
}

const MESSAGE: Seal<'static> = Seal { purpose: "node message", bound_to: b"" };

fn record(key: &str) -> Seal<'_> {
    Seal { purpose: "node record", bound_to: key.as_bytes() }
}
