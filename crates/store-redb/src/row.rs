//! Rows of a journal: a plain header, and sealed events.

use mcp_flow_seal::{KeyRing, Seal};
use mcp_flow_session::store::{Append, StoreError, Summary, decode, encode};
use mcp_flow_session::{JournalEvent, Owner, SessionId, State, Timestamp};
use ring::digest::{SHA256, digest};

use crate::tables::OwnerHash;

/// A sealed row, ready to be written.
pub(crate) struct Row {
    pub(crate) id: SessionId,
    /// Number of events the journal must have.
    pub(crate) expected: u32,
    /// Set if the row replaces all others.
    pub(crate) replace: bool,
    pub(crate) owner: OwnerHash,
    pub(crate) header: RowHeader,
    /// Content after the header: in the first row the hash of the owner, then sealed events.
    pub(crate) body: Vec<u8>,
}

/// Returns the number of the first event of a row.
pub(crate) const fn position(expected: u32, replace: bool) -> u32 {
    if replace { 0 } else { expected }
}

/// Header of a row, readable without keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowHeader {
    pub(crate) state: State,
    /// Number of events up to the end of this row.
    pub(crate) length: u32,
    pub(crate) touched: u64,
    pub(crate) deadline: Option<u64>,
    /// Time of the session's entry in `deadlines`.
    pub(crate) indexed: Option<u64>,
}

impl Row {
    pub(crate) fn seal(append: &Append, keys: &KeyRing) -> Result<Self, StoreError> {
        let too_long = |_| StoreError::Damaged(append.id);
        let expected = u32::try_from(append.length).map_err(too_long)?;
        let position = position(expected, append.replace);
        let count = u32::try_from(append.events.len()).map_err(too_long)?;
        let summary = &append.summary;
        let header = RowHeader {
            state: summary.state,
            length: position.saturating_add(count),
            touched: summary.touched.as_millis(),
            deadline: summary.deadline.map(Timestamp::as_millis),
            indexed: None,
        };
        let mut content = Vec::new();
        if position == 0 {
            serde_json::to_writer(&mut content, summary)
                .map_err(|error| StoreError::Backend(Box::new(error)))?;
            content.push(b'\n');
        }
        content.extend(encode(&append.events));
        let mut random = [0; 24];
        getrandom::fill(&mut random).map_err(|error| {
            StoreError::Backend(Box::new(std::io::Error::other(error.to_string())))
        })?;
        let bound = bound_to(append.id, position, &header);
        let seal = Seal { purpose: PURPOSE, bound_to: &bound };
        let mut body = keys.seal_bytes(seal, None, &content, random);
        let owner = hash(&summary.owner);
        if position == 0 {
            body.splice(0..0, owner);
        }
        Ok(Self { id: append.id, expected, replace: append.replace, owner, header, body })
    }
}

/// Decrypted content of a row.
pub(crate) struct Opened {
    /// Only in the first row of a session.
    pub(crate) summary: Option<Summary>,
    pub(crate) events: Vec<JournalEvent>,
}

/// Decrypts a row.
pub(crate) fn open(
    id: SessionId,
    position: u32,
    value: &[u8],
    keys: &KeyRing,
) -> Result<(RowHeader, Opened), StoreError> {
    let damaged = || StoreError::Damaged(id);
    let (header, body) = RowHeader::split(value).ok_or_else(damaged)?;
    let sealed = match position {
        0 => body.get(size_of::<OwnerHash>()..).ok_or_else(damaged)?,
        _ => body,
    };
    let bound = bound_to(id, position, &header);
    let seal = Seal { purpose: PURPOSE, bound_to: &bound };
    let content = keys.open_bytes(seal, 0, sealed).map_err(|_| damaged())?;
    let (summary, events) = if position == 0 {
        let end = content.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
        let summary = serde_json::from_slice(&content[..end]).map_err(|_| damaged())?;
        (Some(summary), &content[end..])
    } else {
        (None, content.as_slice())
    };
    let events = decode(events).map_err(|_| damaged())?;
    Ok((header, Opened { summary, events }))
}

impl RowHeader {
    pub(crate) const LENGTH: usize = 29;

    /// Splits a row into header and content.
    pub(crate) fn split(value: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = value.split_first_chunk::<{ Self::LENGTH }>()?;
        let number =
            |at: usize| -> Option<u64> { Some(u64::from_le_bytes(*header[at..].first_chunk()?)) };
        let optional = |number: u64| (number != NEVER).then_some(number);
        let header = Self {
            state: *State::ALL.get(usize::from(header[0]))?,
            length: u32::from_le_bytes(*header[1..].first_chunk()?),
            touched: number(5)?,
            deadline: optional(number(13)?),
            indexed: optional(number(21)?),
        };
        Some((header, rest))
    }

    /// Joins the header and content of a row.
    pub(crate) fn join(&self, body: &[u8]) -> Vec<u8> {
        let mut value = Vec::with_capacity(Self::LENGTH + body.len());
        value.extend_from_slice(&self.bound());
        value.extend_from_slice(&self.indexed.unwrap_or(NEVER).to_le_bytes());
        value.extend_from_slice(body);
        value
    }

    /// Bytes that the seal authenticates.
    fn bound(&self) -> [u8; Self::LENGTH - 8] {
        let state = State::ALL.iter().position(|state| *state == self.state);
        let mut bytes = [0; Self::LENGTH - 8];
        bytes[0] = state.and_then(|state| u8::try_from(state).ok()).unwrap_or(u8::MAX);
        bytes[1..5].copy_from_slice(&self.length.to_le_bytes());
        bytes[5..13].copy_from_slice(&self.touched.to_le_bytes());
        bytes[13..21].copy_from_slice(&self.deadline.unwrap_or(NEVER).to_le_bytes());
        bytes
    }
}

/// Returns the hash of the owner in the first row of a session.
pub(crate) fn owner(first: &[u8]) -> Option<OwnerHash> {
    RowHeader::split(first)?.1.first_chunk().copied()
}

/// Truncated hash of an owner.
pub(crate) fn hash(owner: &Owner) -> OwnerHash {
    let digest = digest(&SHA256, owner.name().as_bytes());
    let mut hash = OwnerHash::default();
    hash.copy_from_slice(&digest.as_ref()[..16]);
    hash
}

fn bound_to(id: SessionId, position: u32, header: &RowHeader) -> Vec<u8> {
    let mut bound = id.bits().to_le_bytes().to_vec();
    bound.extend_from_slice(&position.to_le_bytes());
    bound.extend_from_slice(&header.bound());
    bound
}

const PURPOSE: &str = "journal row";
const NEVER: u64 = u64::MAX;
