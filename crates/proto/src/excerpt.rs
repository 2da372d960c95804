//! Excerpts of messages for logs: bounded, on one line, without secrets.

use std::borrow::Cow;

use crate::secrets::{MASK, is_secret_name, mask_secrets, normalize_name};
use crate::text::prefix_bytes;
use crate::{Encoding, Raw};

/// Returns the beginning of a message for a log. Values whose key suggests a secret are replaced, answers to
/// questions of flows, and in texts the credentials of URLs and headers, and pairs such as `token=…`.
///
/// ```
/// use mcp_flow_proto::{Encoding, excerpt};
///
/// let message = br#"{"method":"login","params":{"user":"ada","password":"hunter2"}}"#;
/// let shown = r#"{"method":"login","params":{"user":"ada","password":"[masked]"}}"#;
/// assert_eq!(excerpt(message, Encoding::Json), shown);
/// ```
pub fn excerpt(message: &[u8], encoding: Encoding) -> String {
    let text = match encoding {
        Encoding::Json => String::from_utf8_lossy(&message[..message.len().min(MAX_LENGTH)]),
        Encoding::Cbor if message.len() > MAX_DECODED_LENGTH => {
            return format!("({} bytes of CBOR)", message.len());
        }
        Encoding::Cbor => {
            let value = Raw::Cbor(message).decode::<serde_json::Value>();
            Cow::Owned(value.map_or_else(|error| error.to_string(), |value| value.to_string()))
        }
    };
    let shown = prefix_bytes(&text, MAX_LENGTH);
    // The answer to a question of a flow does not say what was asked: it may be a password.
    let is_answer = shown.contains(RESPOND);
    let is_hidden = |name: &str| is_hidden(name) || is_answer && name == "value";
    let mut out = String::with_capacity(shown.len());
    for letter in mask_secrets(shown, MASK, &is_hidden).chars() {
        match letter {
            '"' | '\'' | '\\' => out.push(letter),
            other => out.extend(other.escape_debug()),
        }
    }
    if shown.len() < text.len() || (encoding == Encoding::Json && message.len() > MAX_LENGTH) {
        out.push('…');
    }
    out
}

/// Returns whether a name suggests a secret, or a state that only its server can read.
fn is_hidden(name: &str) -> bool {
    is_secret_name(name) || normalize_name(name) == "requeststate"
}

/// Method that answers a question of a flow.
const RESPOND: &str = "\"interaction.respond\"";

/// Maximum length of an excerpt in bytes.
const MAX_LENGTH: usize = 4096;

/// Maximum length of a CBOR message that is decoded for an excerpt.
const MAX_DECODED_LENGTH: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::{MAX_LENGTH, excerpt};
    use crate::Encoding;

    #[test]
    fn secrets_are_left_out() {
        for (message, shown) in [
            (r#"{"a":"token"}"#, r#"{"a":"token"}"#),
            (r#"{"token":"x","b":1}"#, r#"{"token":"[masked]","b":1}"#),
            (r#"{"sessionToken" : "a\"b,}" , "b":1}"#, r#"{"sessionToken" : "[masked]" , "b":1}"#),
            (r#"{"_meta":{"progressToken":7}}"#, r#"{"_meta":{"progressToken":7}}"#),
            (r#"{"API-Key":{"a":["}"]},"b":1}"#, r#"{"API-Key":"[masked]","b":1}"#),
            (r#"{"client_secret":12}"#, r#"{"client_secret":"[masked]"}"#),
            (r#"{"p\u0061ssword":"x"}"#, r#"{"p\u0061ssword":"[masked]"}"#),
            (r#"{"password":"never ends"#, r#"{"password":"[masked]"#),
            (r#"["password","x"]"#, r#"["password","x"]"#),
            (r#"{"u":"see http://me:x@host/a@b"}"#, r#"{"u":"see http://[masked]@host/a@b"}"#),
            (
                r#"{"u":"https://host/?a=1&token=x&b=2"}"#,
                r#"{"u":"https://host/?a=1&token=[masked]&b=2"}"#,
            ),
            (r#"{"h":"Authorization: Bearer abcdefgh1"}"#, r#"{"h":"Authorization: [masked]"}"#),
            (r#"["bearer abcdefgh1 x","basic facts"]"#, r#"["bearer [masked] x","basic facts"]"#),
            (
                r#"{"t":"{\"password\":\"x\",\"n\":1}"}"#,
                r#"{"t":"{\"password\":\"[masked]\",\"n\":1}"}"#,
            ),
            (
                r#"{"method":"interaction.respond","params":{"response":{"value":"x","turnId":1}}}"#,
                r#"{"method":"interaction.respond","params":{"response":{"value":"[masked]","turnId":1}}}"#,
            ),
            (
                r#"{"response":{"value":"x","turnId":1}}"#,
                r#"{"response":{"value":"x","turnId":1}}"#,
            ),
            ("api_key=x and more", "api_key=[masked] and more"),
            ("no\njson\u{1b}[2J", "no\\njson\\u{1b}[2J"),
            ("", ""),
        ] {
            assert_eq!(excerpt(message.as_bytes(), Encoding::Json), shown, "{message}");
        }
        let cbor = Encoding::Cbor.encode(&serde_json::json!({"password": "x"})).unwrap();
        assert_eq!(excerpt(&cbor, Encoding::Cbor), r#"{"password":"[masked]"}"#);
        assert!(!excerpt(b"\xff\xff", Encoding::Cbor).is_empty());
    }

    #[test]
    fn long_messages_are_truncated() {
        let long = format!("\"{}\"", "é".repeat(MAX_LENGTH));
        let shown = excerpt(long.as_bytes(), Encoding::Json);
        assert!(shown.ends_with('…') && shown.len() <= MAX_LENGTH + 8, "{}", shown.len());
    }
}
