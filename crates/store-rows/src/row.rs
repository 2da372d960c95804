//! Rows of a journal: a plain header, and sealed events.
//!
//! The header of a row, little-endian: state and format (1 byte: the format in the upper half),
//! number of events up to the end of this row (4), last activity (8), deadline (8), and a number
//! for the store's own use (8); the greatest number means never. All but the last are authenticated
//! by the seal, with the session and the position of the row. In the first row of a session the
//! truncated hash of its owner follows. The sealed content is newline-delimited JSON: in the first
//! row the summary of the session, then the events. The header of the last row of a session is the
//! current one. Deadline in the header is the time at which the session is due. A summary with more
//! than the header can hold, such as a wake-up time, is in later rows, too, in the member `summary` of
//! the first line; the last row has the current one. Such rows have format 2 at least.

use std::borrow::Cow;
use std::collections::BTreeMap;

use mcp_flow_seal::{KeyRing, Seal};
use mcp_flow_session::store::{Append, Listed, StoreError, Summary, decode, encode};
use mcp_flow_session::{JournalEvent, Owner, SessionId, State, Timestamp};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

/// Truncated hash of an owner. Names of owners are not stored in plain text.
pub type OwnerHash = [u8; 16];

/// A sealed row, ready to be written.
#[derive(Debug)]
pub struct JournalRow {
    /// Id of the session.
    pub id: SessionId,
    /// Number of events the journal must have.
    pub expected: u32,
    /// Set if the row replaces all others.
    pub replace: bool,
    /// Hash of the owner of the session.
    pub owner: OwnerHash,
    /// Header of the row.
    pub header: RowHeader,
    /// Content after the header: in the first row the hash of the owner, then sealed events.
    pub body: Vec<u8>,
}

/// Returns the number of the first event of a row.
pub const fn position(expected: u32, replace: bool) -> u32 {
    if replace { 0 } else { expected }
}

/// Header of a row, readable without keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowHeader {
    /// State of the session.
    pub state: State,
    /// Format of the events; see [`JournalEvent::format`].
    pub format: u8,
    /// Number of events up to the end of this row.
    pub length: u32,
    /// Time of the last activity.
    pub touched: u64,
    /// Deadline of the session.
    pub deadline: Option<u64>,
    /// A time for the store's own use: that of the session's entry in an index of deadlines.
    pub indexed: Option<u64>,
}

impl JournalRow {
    /// Seals the events of an append.
    pub fn seal(append: &Append, keys: &KeyRing) -> Result<Self, StoreError> {
        let too_long = |_| StoreError::Damaged(append.id);
        let expected = u32::try_from(append.length).map_err(too_long)?;
        let position = position(expected, append.replace);
        let count = u32::try_from(append.events.len()).map_err(too_long)?;
        let summary = &append.summary;
        let header = RowHeader {
            state: summary.state,
            format: format(append),
            length: position.saturating_add(count),
            touched: summary.touched.as_millis(),
            deadline: summary.due().map(Timestamp::as_millis),
            indexed: None,
        };
        let mut content = Vec::new();
        let written = if position == 0 {
            serde_json::to_writer(&mut content, summary)
        } else if has_details(summary) {
            serde_json::to_writer(&mut content, &SummaryLine { summary: Cow::Borrowed(summary) })
        } else {
            Ok(())
        };
        written.map_err(|error| StoreError::Backend(Box::new(error)))?;
        if !content.is_empty() {
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

    /// Returns the number of the first event of the row.
    pub const fn position(&self) -> u32 {
        position(self.expected, self.replace)
    }
}

/// Decrypts the rows of a session, given in order with their positions, and checks that none is
/// missing.
pub fn read_events(
    id: SessionId,
    rows: impl IntoIterator<Item = (u32, Vec<u8>)>,
    keys: &KeyRing,
) -> Result<Vec<JournalEvent>, StoreError> {
    let mut events = Vec::new();
    for (position, value) in rows {
        // A missing or replayed row breaks the sequence.
        if usize::try_from(position) != Ok(events.len()) {
            return Err(StoreError::Damaged(id));
        }
        let (header, opened) = open(id, position, &value, keys)?;
        events.extend(opened.events);
        if usize::try_from(header.length) != Ok(events.len()) {
            return Err(StoreError::Damaged(id));
        }
    }
    Ok(events)
}

/// Decrypts the summary of a session: that in its last row, or else that in its first row, updated
/// by the header of the last. `last` is the last row with its position.
pub fn read_summary(
    id: SessionId,
    first: &[u8],
    (position, last): (u32, &[u8]),
    keys: &KeyRing,
) -> Result<Listed, StoreError> {
    let damaged = || StoreError::Damaged(id);
    let (header, _) = RowHeader::split(last).ok_or_else(damaged)?;
    // Only rows of this format can have a summary, and most need not be decrypted.
    if position == 0 || header.format >= DETAILS_FORMAT {
        let (_, opened) = open(id, position, last, keys)?;
        if let Some(summary) = opened.summary {
            return Ok(Listed { id, summary });
        }
    }
    let (_, opened) = open(id, 0, first, keys)?;
    let created = opened.summary.ok_or_else(damaged)?;
    let last = header;
    let summary = Summary {
        state: last.state,
        touched: Timestamp::from_millis(last.touched),
        deadline: last.deadline.map(Timestamp::from_millis),
        wakes: None,
        is_asleep: false,
        stuck: None,
        labels: BTreeMap::new(),
        ..created
    };
    Ok(Listed { id, summary })
}

/// Decrypted content of a row.
struct Opened {
    /// In the first row of a session, and in later ones of sessions with details.
    summary: Option<Summary>,
    events: Vec<JournalEvent>,
}

/// Decrypts a row.
fn open(
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
    if header.format > JournalEvent::FORMAT {
        return Err(StoreError::Newer(id));
    }
    // The seal is authentic, so whoever wrote this has the keys and knows more than this version.
    let newer = || StoreError::Newer(id);
    let (summary, events) = if position == 0 {
        let end = content.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
        let summary = serde_json::from_slice(&content[..end]).map_err(|_| newer())?;
        (Some(summary), &content[end..])
    } else if header.format >= DETAILS_FORMAT && content.starts_with(SUMMARY_LINE) {
        let end = content.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
        let line: SummaryLine<'_> = serde_json::from_slice(&content[..end]).map_err(|_| newer())?;
        (Some(line.summary.into_owned()), &content[end..])
    } else {
        (None, content.as_slice())
    };
    let events = decode(events).map_err(|_| newer())?;
    Ok((header, Opened { summary, events }))
}

/// Summary in a row other than the first.
#[derive(Deserialize, Serialize)]
struct SummaryLine<'a> {
    summary: Cow<'a, Summary>,
}

/// Returns the format of a row.
fn format(append: &Append) -> u8 {
    let events = append.events.iter().map(JournalEvent::format).max().unwrap_or(0);
    if has_details(&append.summary) { events.max(DETAILS_FORMAT) } else { events }
}

/// Returns whether a summary has more than a header can hold.
fn has_details(summary: &Summary) -> bool {
    summary.wakes.is_some()
        || summary.is_asleep
        || summary.stuck.is_some()
        || !summary.labels.is_empty()
}

impl RowHeader {
    /// Bytes of a header.
    pub const LENGTH: usize = 29;

    /// Splits a row into header and content.
    pub fn split(value: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = value.split_first_chunk::<{ Self::LENGTH }>()?;
        let number =
            |at: usize| -> Option<u64> { Some(u64::from_le_bytes(*header[at..].first_chunk()?)) };
        let optional = |number: u64| (number != NEVER).then_some(number);
        let header = Self {
            state: *State::ALL.get(usize::from(header[0] & 0x0f))?,
            format: header[0] >> 4,
            length: u32::from_le_bytes(*header[1..].first_chunk()?),
            touched: number(5)?,
            deadline: optional(number(13)?),
            indexed: optional(number(21)?),
        };
        Some((header, rest))
    }

    /// Joins the header and content of a row.
    pub fn join(&self, body: &[u8]) -> Vec<u8> {
        let mut value = Vec::with_capacity(Self::LENGTH + body.len());
        value.extend_from_slice(&self.bound());
        value.extend_from_slice(&self.indexed.unwrap_or(NEVER).to_le_bytes());
        value.extend_from_slice(body);
        value
    }

    /// Bytes that the seal authenticates.
    fn bound(&self) -> [u8; Self::LENGTH - 8] {
        let mut bytes = [0; Self::LENGTH - 8];
        bytes[0] = state_number(self.state) | self.format << 4;
        bytes[1..5].copy_from_slice(&self.length.to_le_bytes());
        bytes[5..13].copy_from_slice(&self.touched.to_le_bytes());
        bytes[13..21].copy_from_slice(&self.deadline.unwrap_or(NEVER).to_le_bytes());
        bytes
    }
}

/// Returns the number of a state in stores.
pub fn state_number(state: State) -> u8 {
    let number = State::ALL.iter().position(|known| *known == state);
    number.and_then(|number| u8::try_from(number).ok()).unwrap_or(0x0f)
}

/// Returns the hash of the owner in the first row of a session.
pub fn owner(first: &[u8]) -> Option<OwnerHash> {
    RowHeader::split(first)?.1.first_chunk().copied()
}

/// Truncated hash of an owner.
pub fn hash(owner: &Owner) -> OwnerHash {
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

/// Format of rows with details of the summary.
const DETAILS_FORMAT: u8 = 2;

/// Beginning of a [`SummaryLine`].
const SUMMARY_LINE: &[u8] = b"{\"summary\":";

const PURPOSE: &str = "journal row";
const NEVER: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use mcp_flow_seal::{Key, KeyRing, Seal};
    use mcp_flow_session::store::StoreError;
    use mcp_flow_session::{SessionId, State};

    use super::{PURPOSE, RowHeader, bound_to, read_events};

    /// Rows of a newer version are reported as such, not as damaged, so that nothing erases them.
    #[test]
    fn rows_of_a_newer_version_are_recognised() {
        let known = "{\"began\":{\"at\":1}}";
        let unknown = "{\"levitated\":{\"at\":1}}";
        let keys = KeyRing::new(Key::from_bytes([1; 32]));
        let id = SessionId::from_random(7);
        for (event, format, expected) in [
            (known, 0, "Ok(1)"),
            (known, 9, "Newer"),
            (unknown, 9, "Newer"),
            // One that forgot to raise the number.
            (unknown, 0, "Newer"),
        ] {
            let header = RowHeader {
                state: State::Active,
                format,
                length: 1,
                touched: 2,
                deadline: None,
                indexed: None,
            };
            let bound = bound_to(id, 0, &header);
            let seal = Seal { purpose: PURPOSE, bound_to: &bound };
            let summary = "{\"flow\":\"sample\",\"owner\":\"ada\",\"state\":\"active\",\
                           \"created\":1,\"touched\":2,\"deadline\":null}";
            let content = format!("{summary}\n{event}\n");
            let mut body = vec![0; 16];
            body.extend(keys.seal_bytes(seal, None, content.as_bytes(), [3; 24]));
            let value = header.join(&body);
            let read = |value: Vec<u8>| match read_events(id, [(0, value)], &keys) {
                Ok(events) => format!("Ok({})", events.len()),
                Err(StoreError::Newer(_)) => "Newer".to_owned(),
                Err(StoreError::Damaged(_)) => "Damaged".to_owned(),
                Err(other) => format!("{other:?}"),
            };
            assert_eq!(read(value.clone()), expected, "{event} in format {format}");
            // The header is authenticated: one that was modified is damaged.
            let mut modified = value;
            modified[0] ^= 0x10;
            assert_eq!(read(modified), "Damaged");
        }
    }
}
