//! Excerpts of messages for logs: bounded, on one line, without secrets.

use std::borrow::Cow;

use crate::text::prefix_bytes;
use crate::{Encoding, Raw};

/// Returns the beginning of a message for a log. Values whose key suggests a secret are replaced, and in
/// texts the credentials of URLs and headers, and pairs such as `token=…`.
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
    let mut out = String::with_capacity(shown.len());
    write_without_secrets(&mut out, shown);
    if shown.len() < text.len() || (encoding == Encoding::Json && message.len() > MAX_LENGTH) {
        out.push('…');
    }
    out
}

/// Copies JSON text without secrets. The text may be truncated or not be JSON.
fn write_without_secrets(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        if letter != '"' {
            let (text, after) = rest.split_at(rest.find('"').unwrap_or(rest.len()));
            write_text(out, text);
            rest = after;
            continue;
        }
        let (string, after) = rest.split_at(string_length(rest));
        write_text(out, string);
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

/// Copies a text without the secrets that it shows by its form.
fn write_text(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let secret = match letter {
            ':' => credentials_of_url(rest),
            letter if letter.is_ascii_alphanumeric() => credential_of_header(rest).or(pair(rest)),
            _ => None,
        };
        if let Some((shown, length)) = secret {
            rest[..shown].chars().for_each(|letter| write_visible(out, letter));
            out.push_str("(hidden)");
            rest = &rest[length..];
            continue;
        }
        // A word is looked at once, from its beginning.
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        let word = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
        let (shown, after) = rest.split_at(word.max(letter.len_utf8()));
        shown.chars().for_each(|letter| write_visible(out, letter));
        rest = after;
    }
}

/// Finds `://user:password@`: the length up to the credentials, and up to the sign behind them.
fn credentials_of_url(text: &str) -> Option<(usize, usize)> {
    let authority = text.strip_prefix("://")?;
    let is_end = |letter: char| " /?#\"'\\<>".contains(letter) || letter.is_control();
    let authority = &authority[..authority.find(is_end).unwrap_or(authority.len())];
    Some((3, 3 + authority.rfind('@')?))
}

/// Finds `Bearer` or `Basic` and a credential: the length up to it, and with it.
fn credential_of_header(text: &str) -> Option<(usize, usize)> {
    let scheme = ["bearer ", "basic "].into_iter().find(|scheme| {
        text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })?;
    let is_token = |letter: char| letter.is_ascii_alphanumeric() || "._~+/=-".contains(letter);
    let rest = &text[scheme.len()..];
    let length = rest.find(|letter| !is_token(letter)).unwrap_or(rest.len());
    (length >= 8).then_some((scheme.len(), scheme.len() + length))
}

/// Finds a name that suggests a secret, as in `token=…` or JSON within a string: the length up to its
/// value, and with it.
fn pair(text: &str) -> Option<(usize, usize)> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    let name = text.find(|letter| !is_name(letter))?;
    let rest = text[name..].trim_start_matches(['\\', '"', '\'']);
    let rest = rest.trim_start_matches(' ').strip_prefix(['=', ':'])?;
    let value = rest.trim_start_matches([' ', '\\', '"', '\'']);
    // The value of a header may have several words.
    let name_of_header = text[..name].to_ascii_lowercase();
    let is_header = ["authorization", "cookie"].iter().any(|part| name_of_header.contains(part));
    let ends = if is_header { "\\\"'" } else { " ,;&\\\"'<>{}[]" };
    let is_end = |letter: char| ends.contains(letter) || letter.is_control();
    let length = value.find(is_end).unwrap_or(value.len());
    let shown = text.len() - value.len();
    (length > 0 && is_secret(&text[..name])).then_some((shown, shown + length))
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

const SECRETS: [&str; 9] = [
    "cookie",
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
            (r#"{"token":"x","b":1}"#, r#"{"token":"(hidden)","b":1}"#),
            (r#"{"sessionToken" : "a\"b,}" , "b":1}"#, r#"{"sessionToken":"(hidden)", "b":1}"#),
            (r#"{"_meta":{"progressToken":7}}"#, r#"{"_meta":{"progressToken":7}}"#),
            (r#"{"API-Key":{"a":["}"]},"b":1}"#, r#"{"API-Key":"(hidden)","b":1}"#),
            (r#"{"client_secret":12}"#, r#"{"client_secret":"(hidden)"}"#),
            (r#"{"p\u0061ssword":"x"}"#, r#"{"p\u0061ssword":"(hidden)"}"#),
            (r#"{"password":"never ends"#, r#"{"password":"(hidden)""#),
            (r#"["password","x"]"#, r#"["password","x"]"#),
            (r#"{"u":"see http://me:x@host/a@b"}"#, r#"{"u":"see http://(hidden)@host/a@b"}"#),
            (
                r#"{"u":"https://host/?a=1&token=x&b=2"}"#,
                r#"{"u":"https://host/?a=1&token=(hidden)&b=2"}"#,
            ),
            (r#"{"h":"Authorization: Bearer abcdefgh1"}"#, r#"{"h":"Authorization: (hidden)"}"#),
            (r#"["bearer abcdefgh1 x","basic facts"]"#, r#"["bearer (hidden) x","basic facts"]"#),
            (
                r#"{"t":"{\"password\":\"x\",\"n\":1}"}"#,
                r#"{"t":"{\"password\":\"(hidden)\",\"n\":1}"}"#,
            ),
            ("api_key=x and more", "api_key=(hidden) and more"),
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
        let long = format!("\"{}\"", "é".repeat(MAX_LENGTH));
        let shown = excerpt(long.as_bytes(), Encoding::Json);
        assert!(shown.ends_with('…') && shown.len() <= MAX_LENGTH + 8, "{}", shown.len());
    }
}
