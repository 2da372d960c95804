//! Session tokens: Base64 of a JSON object `{sessionId, state, signature}` (INT-128 to INT-132).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_flow_seal::KeyRing;
use mcp_flow_session::{JournalEvent, Session, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// A session inside a token.
pub(super) struct Token {
    pub(super) id: SessionId,
    pub(super) journal: Vec<JournalEvent>,
}

/// Reason a token is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadToken {
    /// It is not a token.
    #[error("this is not a session token")]
    Malformed,
    /// It was modified, or signed with another key.
    #[error("the signature of the token is invalid")]
    Forged,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Envelope {
    session_id: SessionId,
    /// The exact bytes that were signed.
    state: Box<RawValue>,
    signature: String,
}

/// State that is signed together with the id. Owner, turn and deadline are informative: the journal
/// is authoritative.
#[derive(Deserialize, Serialize)]
struct State {
    owner: String,
    turn: u32,
    expires: Option<u64>,
    journal: Vec<JournalEvent>,
}

impl Token {
    pub(super) fn seal(self, keys: &KeyRing) -> String {
        let session = Session::replay(&self.journal).ok().flatten();
        let state = State {
            owner: session
                .as_ref()
                .map_or_else(String::new, |session| session.started.owner.name().to_owned()),
            turn: session.as_ref().map_or(0, Session::turn),
            expires: session.and_then(|session| session.deadline()).map(Timestamp::as_millis),
            journal: self.journal,
        };
        let state = to_raw_value(&state).expect("a journal can be written as JSON");
        let signature = keys.sign(PURPOSE, &signed(self.id, &state));
        let signature = STANDARD.encode(signature);
        let envelope = Envelope { session_id: self.id, state, signature };
        let text = serde_json::to_vec(&envelope).expect("an envelope can be written as JSON");
        STANDARD.encode(text)
    }

    /// Opens a token. Its state is parsed only after its signature was verified.
    pub(super) fn open(text: &str, keys: &KeyRing) -> Result<Self, BadToken> {
        if text.len() > MAX_LENGTH {
            return Err(BadToken::Malformed);
        }
        let text = STANDARD.decode(text).map_err(|_| BadToken::Malformed)?;
        let envelope: Envelope = serde_json::from_slice(&text).map_err(|_| BadToken::Malformed)?;
        let signature = STANDARD.decode(&envelope.signature).map_err(|_| BadToken::Malformed)?;
        keys.verify(PURPOSE, &signed(envelope.session_id, &envelope.state), &signature)
            .map_err(|_| BadToken::Forged)?;
        let state: State =
            serde_json::from_str(envelope.state.get()).map_err(|_| BadToken::Malformed)?;
        Ok(Self { id: envelope.session_id, journal: state.journal })
    }
}

fn signed(id: SessionId, state: &RawValue) -> Vec<u8> {
    // Ids have a fixed length, so the concatenation is unambiguous.
    [id.to_string().as_bytes(), state.get().as_bytes()].concat()
}

const PURPOSE: &str = "session token";

/// Most bytes of a token. Messages have their own limits.
const MAX_LENGTH: usize = 4 * 1024 * 1024;
