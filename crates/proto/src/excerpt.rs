//! Excerpts of messages for logs: bounded, on one line, without secrets.

use std::borrow::Cow;

use crate::text::prefix_bytes;
use crate::{Encoding, Raw};

/// Returns the beginning of a message for a log. Values whose key suggests a secret are replaced;
/// secrets in other texts are not detected.
///
/// ```
/// use mcp_flow_proto::{Encoding, excerpt};
///
/// let message = br#"{"method":"login","params":{"user":"ada","password":"hunter2"}}"#;
/// let shown = r#"{"method":"login","params":{"user":"ada","password":"(hidden)"}}"#;
/// assert_eq!(excerpt(message, Encoding::Json), shown);
/// ```
pub fn excerpt(message: &[u8], encoding: Encoding) -> String {
    let text = match encoding {
        Encoding::Json => String::from_utf8_lossy(&message[..message.len().min(LONGEST)]),
        Encoding::Cbor if message.len() > LONGEST_DECODED => {
            return format!("({} bytes of CBOR)", message.len());
        }
        Encoding::Cbor => {
            let value = Raw::Cbor(message).decode::<serde_json::Value>();
            Cow::Owned(value.map_or_else(|error| error.to_string(), |value| value.to_string()))
        }
    };
    let shown = prefix_bytes(&text, LONGEST);
    let mut out = String::with_capacity(shown.len());
    write_without_secrets(&mut out, shown);
    if shown.len() < text.len() || (encoding == Encoding::Json && message.len() > LONGEST) {
        out.push('…');
    }
    out
}

/// Copies JSON text without secrets. The text may be truncated or not be JSON.
fn write_without_secrets(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        if letter != '"' {
            write_visible(out, letter);
            rest = &rest[letter.len_utf8()..];
            continue;
        }
        let (string, after) = rest.split_at(string_length(rest));
        string.chars().for_each(|letter| write_visible(out, letter));
        rest = after;
        let value = after.trim_start().strip_prefix(':').map(str::trim_start);
        if let Some(value) = value
            && is_secret(string.trim_matches('"'))
        {
            out.push_str(":\"(hidden)\"");
            rest = &value[value_length(value)..];
        }
    }
}

/// Returns the length of the leading string, with its quotes.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, letter)| {
        let ends = *letter == '"' && !escaped;
        escaped = *letter == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// Returns the length of the leading value.
fn value_length(text: &str) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(letter) = text[at..].chars().next() {
        match letter {
            '"' => at += string_length(&text[at..]),
            ',' | '}' | ']' if depth == 0 => return at,
            _ => at += letter.len_utf8(),
        }
        match letter {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => {}
        }
    }
    at
}

/// Returns whether a key suggests that its value is a secret.
fn is_secret(key: &str) -> bool {
    // An escaped key may be any name.
    if key.contains('\\') {
        return true;
    }
    let key: String = key.chars().filter(|letter| !matches!(letter, '_' | '-')).collect();
    let key = key.to_ascii_lowercase();
    let is_token = key.ends_with("token") && key != "progresstoken";
    is_token || key == "requeststate" || SECRETS.iter().any(|secret| key.contains(secret))
}

fn write_visible(out: &mut String, letter: char) {
    match letter {
        '"' | '\'' | '\\' => out.push(letter),
        other => out.extend(other.escape_debug()),
    }
}

const SECRETS: [&str; 8] = [
    "secret",
    "password",
    "passwd",
    "passphrase",
    "authorization",
    "credential",
    "apikey",
    "privatekey",
];

/// Maximum length of an excerpt in bytes.
const LONGEST: usize = 4096;

/// Maximum length of a CBOR message that is decoded for an excerpt.
const LONGEST_DECODED: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::{LONGEST, excerpt};
    use crate::Encoding;

    #[test]
    fn secrets_are_left_out() {
        for (message, shown) in [
            (r#"{"a":"token"}"#, r#"{"a":"token"}"#),
            (r#"{"token":"x","b":1}"#, r#"{"token":"(hidden)","b":1}"#),
            (r#"{"sessionToken" : "a\"b,}" , "b":1}"#, r#"{"sessionToken":"(hidden)", "b":1}"#),
            (r#"{"_meta":{"progressToken":7}}"#, r#"{"_meta":{"progressToken":7}}"#),
            (r#"{"API-Key":{"a":["}"]},"b":1}"#, r#"{"API-Key":"(hidden)","b":1}"#),
            (r#"{"client_secret":12}"#, r#"{"client_secret":"(hidden)"}"#),
            (r#"{"p\u0061ssword":"x"}"#, r#"{"p\u0061ssword":"(hidden)"}"#),
            (r#"{"password":"never ends"#, r#"{"password":"(hidden)""#),
            (r#"["password","x"]"#, r#"["password","x"]"#),
            ("no\njson\u{1b}[2J", "no\\njson\\u{1b}[2J"),
            ("", ""),
        ] {
            assert_eq!(excerpt(message.as_bytes(), Encoding::Json), shown, "{message}");
        }
        let cbor = Encoding::Cbor.encode(&serde_json::json!({"password": "x"})).unwrap();
        assert_eq!(excerpt(&cbor, Encoding::Cbor), r#"{"password":"(hidden)"}"#);
        assert!(!excerpt(b"\xff\xff", Encoding::Cbor).is_empty());
    }

    #[test]
    fn long_messages_are_truncated() {
        let long = format!("\"{}\"", "é".repeat(LONGEST));
        let shown = excerpt(long.as_bytes(), Encoding::Json);
        assert!(shown.ends_with('…') && shown.len() <= LONGEST + 8, "{}", shown.len());
    }
}
