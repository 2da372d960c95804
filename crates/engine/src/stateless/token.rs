//! The token: Base64 of a JSON object `{sessionId, state, signature}` (INT-128 to INT-132).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_flow_seal::KeyRing;
use mcp_flow_session::{Event, Session, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// A session on its way to the client or back.
pub(super) struct Token {
    pub(super) id: SessionId,
    pub(super) journal: Vec<Event>,
}

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadToken {
    /// It is no token.
    #[error("this is not a token of a session")]
    Malformed,
    /// It was changed, or signed by someone else.
    #[error("the signature of the token is wrong")]
    Forged,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Envelope {
    session_id: SessionId,
    /// Exactly the bytes that were signed.
    state: Box<RawValue>,
    signature: String,
}

/// What is signed, beside the id. Owner and deadline are told twice, for who looks at a token; the
/// journal decides.
#[derive(Deserialize, Serialize)]
struct State {
    owner: String,
    turn: usize,
    expires: Option<u64>,
    journal: Vec<Event>,
}

impl Token {
    pub(super) fn seal(self, keys: &KeyRing) -> String {
        let session = Session::replay(&self.journal).ok().flatten();
        let state = State {
            owner: session
                .as_ref()
                .map_or_else(String::new, |session| session.started.owner.name().to_owned()),
            turn: session.as_ref().map_or(0, |session| session.history.len()),
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

    /// Opens a token. Nothing in it is looked at before its signature is found to be right.
    pub(super) fn open(text: &str, keys: &KeyRing) -> Result<Self, BadToken> {
        if text.len() > LONGEST {
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
    // An id has one length, so that the two cannot run into each other.
    [id.to_string().as_bytes(), state.get().as_bytes()].concat()
}

const PURPOSE: &str = "session token";

/// The most a token may have. Messages have limits of their own.
const LONGEST: usize = 4 * 1024 * 1024;
