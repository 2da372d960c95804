//! Removal of secrets from texts: credentials of URLs, headers, parameters, options, keys of well-known
//! services, and JSON or base64 that contains any of these.

use std::borrow::Cow;
use std::ops::Range;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::keys::known_key;
use super::value::{Extent, block_length, opening_quote, run};
use super::{is_count_name, is_secret_parameter, is_working_directory};
use crate::text::prefix_bytes;

/// Replaces the secrets in a text by `mask`. `is_secret` says which names are those of secrets; see
/// [`is_secret_name`](super::is_secret_name).
///
/// ```
/// use mcp_flow_proto::secrets::{is_secret_name, mask_secrets};
///
/// let masked = mask_secrets("GET https://host/?token=hunter2&page=1", "***", &is_secret_name);
/// assert_eq!(masked, "GET https://host/?token=***&page=1");
/// ```
pub fn mask_secrets<'a>(
    text: &'a str,
    mask: &str,
    is_secret: &dyn Fn(&str) -> bool,
) -> Cow<'a, str> {
    mask_and_collect(text, mask, is_secret, &mut |_| {})
}

/// Replaces the secrets in a text by `mask`, and hands each of them to `removed`.
pub fn mask_and_collect<'a>(
    text: &'a str,
    mask: &str,
    is_secret: &dyn Fn(&str) -> bool,
    removed: &mut dyn FnMut(&str),
) -> Cow<'a, str> {
    Scanner { text, mask, is_secret, depth: 0, token_end: 0 }.run(removed)
}

struct Scanner<'text, 'rules> {
    text: &'text str,
    mask: &'rules str,
    is_secret: &'rules dyn Fn(&str) -> bool,
    /// Levels of base64 around the text.
    depth: usize,
    /// End of what was looked at as base64, so that it is decoded once.
    token_end: usize,
}

/// A secret, and what replaces it.
struct Secret {
    range: Range<usize>,
    /// The mask is put into these quotes, so that JSON remains JSON.
    quote: String,
}

impl Secret {
    fn at(range: Range<usize>) -> Self {
        Self { range, quote: String::new() }
    }
}

impl<'text> Scanner<'text, '_> {
    fn run(mut self, removed: &mut dyn FnMut(&str)) -> Cow<'text, str> {
        let (mut out, mut copied, mut at) = (String::new(), 0, 0);
        while at < self.text.len() {
            match self.find(at) {
                Ok(Secret { range, quote }) => {
                    removed(&self.text[range.clone()]);
                    out.push_str(&self.text[copied..range.start]);
                    out.extend([quote.as_str(), self.mask, quote.as_str()]);
                    copied = range.end;
                    at = range.end.max(at + 1);
                }
                Err(skipped) => at += skipped.max(1),
            }
        }
        if copied == 0 {
            return Cow::Borrowed(self.text);
        }
        out.push_str(&self.text[copied..]);
        Cow::Owned(out)
    }

    /// Finds the secret that begins with what is at a position, or the number of bytes to skip.
    fn find(&mut self, at: usize) -> Result<Secret, usize> {
        let bytes = self.text.as_bytes();
        let rest = bytes.get(at..).unwrap_or_default();
        let found = match rest {
            [b':', b'/', b'/', ..] => self.credentials_of_url(at),
            [b'/', ..] => self.link(at),
            [b'-', ..] => self.private_key(at).or_else(|| self.option(at)),
            [b'%', ..] => return Err(if percent_encoded(rest).is_some() { 3 } else { 1 }),
            [b'\\', b'n' | b'r' | b't', ..] => return Err(2),
            [b'\\', b'u', ..] => return self.word(at),
            [byte, ..] if byte.is_ascii_alphanumeric() || *byte == b'_' => return self.word(at),
            [byte, ..] if !byte.is_ascii() => {
                return Err(run(&self.text[at..], |byte| !byte.is_ascii()));
            }
            _ => None,
        };
        found.ok_or(1)
    }

    fn word(&mut self, at: usize) -> Result<Secret, usize> {
        let length = name_length(&self.text[at..]);
        let found = self.credential_of_scheme(at).or_else(|| self.pair(at, length));
        found.or_else(|| self.token(at)).ok_or(length)
    }

    /// `://user:password@`.
    fn credentials_of_url(&self, at: usize) -> Option<Secret> {
        let start = at + 3;
        let rest = prefix_bytes(&self.text[start..], MAX_CREDENTIALS);
        let until = |ends: &str| {
            let is_end = |letter: char| ends.contains(letter) || letter.is_control();
            &rest[..rest.find(is_end).unwrap_or(rest.len())]
        };
        let authority = until(" /?#\"'\\<>`");
        let end = match authority.rfind('@') {
            Some(end) => end,
            None => {
                // Some write passwords with slashes in them; behind a colon there is a port otherwise.
                let (_, port) = authority.rsplit_once(':')?;
                let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
                let is_address = authority.starts_with('[');
                until(" \"'\\<>`").rfind('@').filter(|_| !is_port && !is_address)?
            }
        };
        (end > 0 && &rest[..end] != self.mask).then(|| Secret::at(start..start + end))
    }

    /// The end of a link to a session: `/link/`, and 64 digits, half of them those of the session.
    fn link(&self, at: usize) -> Option<Secret> {
        let digits = self.text[at..].strip_prefix("/link/")?;
        let digits = run(digits, |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let (start, half) = (at + "/link/".len(), 32);
        (digits == 2 * half).then(|| Secret::at(start + half..start + digits))
    }

    fn private_key(&self, at: usize) -> Option<Secret> {
        let rest = self.text[at..].strip_prefix("-----BEGIN ")?;
        let (kind, _) = rest.split_once("-----")?;
        kind.ends_with("PRIVATE KEY").then_some(())?;
        let end = format!("-----END {kind}-----");
        let length = self.text[at..].find(&end).map(|found| found + end.len());
        Some(Secret::at(at..length.map_or(self.text.len(), |length| at + length)))
    }

    /// The value of an option of a command line: `--password x`, `"--password", "x"`, `-u user:password`.
    fn option(&self, at: usize) -> Option<Secret> {
        let before = self.text[..at].bytes().next_back();
        if !before.is_none_or(|byte| b" \t\n\r\"'`,=([{".contains(&byte)) {
            return None;
        }
        let dashes = run(&self.text[at..], |byte| byte == b'-');
        let start = at + dashes;
        let name = &self.text[start..start + name_length(&self.text[start..])];
        let mut rest = &self.text[start + name.len()..];
        if let Some(quote) = opening_quote(rest) {
            rest = rest[quote.len()..].trim_start_matches([' ', '\t']).strip_prefix(',')?;
        } else if !rest.starts_with([' ', '\t']) {
            return None;
        }
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        if rest.starts_with(['{', '[']) {
            return None;
        }
        let extent = Extent::of(rest, " \t\"'`,<>{}[]\\");
        let value = &rest[extent.range.clone()];
        let is_wanted = match is_login_option(name) {
            true => is_login(value),
            false => dashes <= 2 && (self.is_secret)(name) && !is_number_of_tokens(name, value),
        };
        let shift = self.text.len() - rest.len();
        let range = shift + extent.range.start..shift + extent.range.end;
        let is_option = value.starts_with("--");
        (is_wanted && !is_option && self.is_value(value)).then(|| Secret::at(range))
    }

    /// `Bearer` or `Basic` and a credential rather than a word.
    fn credential_of_scheme(&self, at: usize) -> Option<Secret> {
        let rest = &self.text[at..];
        let scheme = ["bearer", "basic"].into_iter().find(|scheme| {
            rest.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        })?;
        let spaces = run(&rest[scheme.len()..], |byte| matches!(byte, b' ' | b'\t'));
        let start = at + scheme.len() + spaces;
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"._~+/=-".contains(&byte);
        let value = &self.text[start..start + run(&self.text[start..], is_token)];
        let is_credential = spaces > 0
            && match scheme {
                "basic" => is_encoded_login(value),
                _ => {
                    value.len() >= 20
                        || (value.len() >= 4 && value.contains(|c: char| c.is_ascii_digit()))
                }
            };
        is_credential.then(|| Secret::at(start..start + value.len()))
    }

    /// A name and its value: `token=…`, `Cookie: …`, `"password": "…"`, `<password>…`.
    fn pair(&self, at: usize, length: usize) -> Option<Secret> {
        let name = unescape(&self.text[at..at + length]);
        let rest = &self.text[at + length..];
        let before = self.text[..at].bytes().next_back();
        let (quote, behind, is_encoded) = separator(rest, before)?;
        let value = behind.trim_start_matches([' ', '\t']);
        let is_parameter =
            !rest.starts_with(':') && is_secret_parameter(&name) && self.is_parameter(at, value);
        if !(is_parameter || (self.is_secret)(&name) || self.is_key(at, &name)) {
            return None;
        }
        let shift = self.text.len() - value.len();
        let lower = name.to_ascii_lowercase();
        let is_header = ["authorization", "cookie"].iter().any(|part| lower.contains(part));
        if is_header && opening_quote(value).is_none() && !value.starts_with(['{', '[']) {
            let end = header_length(value, before);
            let is_value = self.is_value(&value[..end]);
            return is_value.then(|| Secret::at(shift..shift + end));
        }
        if let Some(length) = block_length(value).filter(|_| rest.starts_with(':')) {
            return Some(Secret::at(shift..shift + length));
        }
        let mut extent = Extent::of(value, " ,;&\"'`<>{}[]\\");
        if is_encoded {
            let encoded = &value[extent.range.clone()];
            let ends = encoded.find("%26").or_else(|| encoded.find("%22"));
            extent.range.end = ends.map_or(extent.range.end, |end| extent.range.start + end);
        }
        let text = &value[extent.range.clone()];
        let is_plain = is_number_of_tokens(&name, text) || is_working_directory(&name, text);
        if !self.is_value(text) || is_plain {
            return None;
        }
        // What was no string in JSON becomes one.
        let quote = if extent.is_bare { quote.unwrap_or_default() } else { String::new() };
        Some(Secret { range: shift + extent.range.start..shift + extent.range.end, quote })
    }

    fn is_value(&self, text: &str) -> bool {
        let text = text.trim();
        !text.is_empty()
            && !text.starts_with(self.mask)
            && !["null", "true", "false"].contains(&text)
    }

    /// Returns whether the name at a position is that of a parameter in a URL or form.
    fn is_parameter(&self, at: usize, value: &str) -> bool {
        let before = &self.text[..at];
        before.ends_with(['?', '&', '#', ';'])
            || ["%3F", "%3f", "%26"].iter().any(|sign| before.ends_with(sign))
            || (before.trim_end_matches(['"', '\'']).is_empty() && value.contains('&'))
    }

    /// `API key`, in words.
    fn is_key(&self, at: usize, name: &str) -> bool {
        let before = self.text[..at].trim_end_matches(' ').as_bytes();
        let kinds = ["api", "access", "secret", "private", "signing", "encryption"];
        name.eq_ignore_ascii_case("key")
            && before.len() < at
            && kinds.iter().any(|kind| {
                let end = &before[before.len().saturating_sub(kind.len())..];
                end.eq_ignore_ascii_case(kind.as_bytes())
            })
    }

    /// A key of a well-known service, a JWT, or base64 of a text with a secret.
    fn token(&mut self, at: usize) -> Option<Secret> {
        let rest = &self.text[at..];
        let length = run(rest, |byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        if let Some(known) = known_key(rest, length) {
            return Some(Secret::at(at..at + known));
        }
        if at < self.token_end {
            return None;
        }
        let length = run(rest, |byte| byte.is_ascii_alphanumeric() || b"_-+/".contains(&byte));
        let padding = run(&rest[length..], |byte| byte == b'=').min(2);
        self.token_end = at + length;
        if self.depth >= MAX_DEPTH || !(MIN_BASE64..=MAX_BASE64).contains(&length) {
            return None;
        }
        let decoded = decode_base64_text(&rest[..length + padding])?;
        if is_plain_login(&decoded) {
            return Some(Secret::at(at..at + length + padding));
        }
        let inner = Scanner {
            text: &decoded,
            mask: self.mask,
            is_secret: self.is_secret,
            depth: self.depth + 1,
            token_end: 0,
        };
        matches!(inner.run(&mut |_| {}), Cow::Owned(_))
            .then(|| Secret::at(at..at + length + padding))
    }
}

/// Returns whether a text is `user:password` in base64.
pub fn is_encoded_login(text: &str) -> bool {
    decode_base64_text(text.trim()).is_some_and(|decoded| is_login(&decoded))
}

fn is_login(text: &str) -> bool {
    text.split_once(':').is_some_and(|(user, password)| {
        !(password.starts_with("//") || user.is_empty() && password.is_empty())
    })
}

/// Returns whether a text that says nothing else is `user:password`.
fn is_plain_login(text: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._@+-\\".contains(&byte);
    text.split_once(':').is_some_and(|(user, password)| {
        let is_time = text.bytes().all(|byte| byte.is_ascii_digit() || b".-:T".contains(&byte));
        !user.is_empty()
            && user.bytes().all(is_name)
            && !password.is_empty()
            && !password.starts_with("//")
            && !password.contains(char::is_whitespace)
            && !is_time
    })
}

/// Returns whether the option of a well-known command takes `user:password`.
fn is_login_option(name: &str) -> bool {
    ["u", "U", "user", "proxy-user"].contains(&name)
}

fn is_number_of_tokens(name: &str, value: &str) -> bool {
    is_count_name(name) && value.bytes().all(|byte| byte.is_ascii_digit() || b"._".contains(&byte))
}

/// Decodes base64, padded or not, if it is a text on lines.
pub fn decode_base64_text(text: &str) -> Option<String> {
    if text.len() < 4 || text.len() > MAX_BASE64 {
        return None;
    }
    let is_for_urls = text.contains(['-', '_']);
    let alphabet = if is_for_urls { &alphabet::URL_SAFE } else { &alphabet::STANDARD };
    let lenient = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let decoded = GeneralPurpose::new(alphabet, lenient).decode(text).ok()?;
    let decoded = String::from_utf8(decoded).ok()?;
    let is_odd = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\r' | '\t');
    (!decoded.contains(is_odd)).then_some(decoded)
}

/// Length of a name, in which characters may be escaped as in JSON.
fn name_length(text: &str) -> usize {
    let mut length = 0;
    loop {
        let rest = &text[length..];
        length += run(rest, |byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
        let rest = &text[length..];
        let escapes = run(rest, |byte| byte == b'\\');
        let is_escaped = escapes > 0
            && rest[escapes..].starts_with('u')
            && rest.get(escapes + 1..escapes + 5).is_some_and(is_hexadecimal);
        if !is_escaped {
            return length;
        }
        length += escapes + 5;
    }
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A name without the escapes of JSON.
fn unescape(name: &str) -> Cow<'_, str> {
    if !name.contains('\\') {
        return Cow::Borrowed(name);
    }
    let mut parts = name.split('\\').filter(|part| !part.is_empty());
    let mut plain = String::new();
    if !name.starts_with('\\') {
        plain.push_str(parts.next().unwrap_or_default());
    }
    for part in parts {
        let code = part.get(1..5).and_then(|code| u32::from_str_radix(code, 16).ok());
        plain.extend(code.and_then(char::from_u32));
        plain.push_str(part.get(5..).unwrap_or_default());
    }
    Cow::Owned(plain)
}

/// Finds what separates a name from its value: the quote behind the name, what follows, and whether it is
/// percent-encoded.
fn separator(rest: &str, before: Option<u8>) -> Option<(Option<String>, &str, bool)> {
    if before == Some(b'<')
        && let Some(value) = rest.strip_prefix('>')
    {
        return Some((None, value, false));
    }
    let quote = opening_quote(rest);
    let mut rest = &rest[quote.map_or(0, str::len)..];
    rest = rest.strip_prefix(']').or_else(|| rest.strip_prefix("%5D")).unwrap_or(rest);
    rest = rest.trim_start_matches([' ', '\t']);
    if let Some(value) = rest.strip_prefix('%') {
        let code = percent_encoded(rest.as_bytes())?;
        return matches!(code, b'=' | b':').then(|| (None, &value[2..], true));
    }
    let signs = run(rest, |byte| matches!(byte, b'=' | b':'));
    // A path of a programming language, or a URL.
    if signs == 0 || rest.starts_with("::") || rest.starts_with("://") {
        return None;
    }
    let value = &rest[signs..];
    let value =
        if rest[..signs].ends_with('=') { value.strip_prefix('>').unwrap_or(value) } else { value };
    Some((quote.map(str::to_owned), value, false))
}

/// The byte that a text begins with, percent-encoded.
fn percent_encoded(text: &[u8]) -> Option<u8> {
    let code = std::str::from_utf8(text.get(1..3)?).ok()?;
    is_hexadecimal(code).then(|| u8::from_str_radix(code, 16).ok())?
}

/// Length of the value of a header, which may have several words. `before` is the character before its
/// name.
fn header_length(value: &str, before: Option<u8>) -> usize {
    let bytes = value.as_bytes();
    let ends = |(at, byte): (usize, &u8)| match byte {
        b'"' | b'\'' if before == Some(*byte) => true,
        // A quote within the value is followed by more of it.
        b'"' | b'\'' => bytes.get(at + 1).is_none_or(|next| b" ,)}]\r\n".contains(next)),
        other => *other == b'\\' || other.is_ascii_control(),
    };
    bytes.iter().enumerate().position(|(at, byte)| ends((at, byte))).unwrap_or(bytes.len())
}

/// Longest credentials in a URL, in bytes.
const MAX_CREDENTIALS: usize = 1024;

/// Limit on base64 within base64.
const MAX_DEPTH: usize = 2;

/// Shortest base64 that is decoded: a name, a sign and a value.
const MIN_BASE64: usize = 12;

/// Longest base64 that is decoded, in bytes.
const MAX_BASE64: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::mask_secrets;
    use crate::secrets::is_secret_name;

    const LINK: &str =
        "at https://h/link/0123456789abcdef0123456789abcdeffedcba9876543210fedcba9876543210.";

    fn mask(text: &str) -> String {
        mask_secrets(text, "***", &is_secret_name).into_owned()
    }

    #[test]
    fn only_secrets_are_replaced() {
        for (text, masked) in [
            ("https://h/?token=x&page=1", "https://h/?token=***&page=1"),
            ("ws://me:p@ss@h/x@y", "ws://***@h/x@y"),
            (LINK, "at https://h/link/0123456789abcdef0123456789abcdef***."),
            ("https://h/link/0123456789abcdef", "https://h/link/0123456789abcdef"),
            ("a --password 'b c' --port 80", "a --password '***' --port 80"),
            (r#"say {\"pass\":{\"a\":[1]},\"n\":1}"#, r#"say {\"pass\":\"***\",\"n\":1}"#),
            (r#"{"pwd": "a\"b", "n": 1}, x"#, r#"{"pwd": "***", "n": 1}, x"#),
            ("Cookie: a=b; c=d\nHost: x", "Cookie: ***\nHost: x"),
            ("tokens: 12, tokens: ab", "tokens: 12, tokens: ***"),
            ("no secrets: here", "no secrets: ***"),
            ("password: [x", "password: ***"),
            ("a: 1\npassword: |2-\n  x\n\n  y\nb: 2", "a: 1\npassword: ***\nb: 2"),
            ("?pw=x&PWD=/home/ada&PWD=x", "?pw=***&PWD=/home/ada&PWD=***"),
        ] {
            assert_eq!(mask(text), masked);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_masked(text in "(token|pwd|-u|--otp|://|Bearer |Cookie|\\\\u0061|%3D|[ -~é\n]){0,30}") {
            mask(&text);
        }
    }

    /// Every form, unfinished and repeated: what takes a square of the time never ends here.
    #[test]
    fn hostile_texts_are_masked() {
        for part in [
            "a://b:c/",
            "/link/0",
            "-u {",
            "-u \"",
            "a/b+",
            "tokens:\\\"1",
            "\\",
            "API key",
            "-----BEGIN ",
            "pwd:|\n ",
        ] {
            let text = part.repeat(200_000 / part.len());
            assert_eq!(mask(&text).is_empty(), text.is_empty());
        }
    }
}
