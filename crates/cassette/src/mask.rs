//! Removal of secrets from messages.
//!
//! Values are masked by the names of the members that hold them, and by what they look like: URLs with
//! credentials, authorization headers, keys of well-known services. JSON inside of strings is masked
//! as well. Schemas keep their property names, which are no secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::{Captures, Regex};
use serde_json::Value;

/// Text in place of a secret.
pub const MASK: &str = "[masked]";

/// Rules for what is masked.
#[derive(Debug)]
pub struct Masker {
    names: Vec<String>,
    patterns: Patterns,
}

#[derive(Debug)]
struct Patterns {
    url: Regex,
    scheme: Regex,
    header: Regex,
    pair: Regex,
    token: Regex,
    key: Regex,
}

#[derive(Clone, Copy, Default)]
struct Place {
    /// Beneath a member with the name of a secret.
    is_secret: bool,
    /// Within a JSON Schema.
    in_schema: bool,
    /// Within an object of headers or environment variables.
    in_headers: bool,
    depth: usize,
}

impl Masker {
    /// Masks common secrets, and the values of members with these names.
    ///
    /// ```
    /// use mcp_flow_cassette::Masker;
    /// use serde_json::json;
    ///
    /// let masker = Masker::new(&["customer".to_owned()]);
    /// let mut value = json!({"customer": "Ada", "apiKey": "abc", "city": "Paris"});
    /// masker.mask(&mut value);
    /// assert_eq!(value, json!({"customer": "[masked]", "apiKey": "[masked]", "city": "Paris"}));
    /// ```
    pub fn new(names: &[String]) -> Self {
        Self {
            names: names.iter().map(|name| normalize(name)).collect(),
            patterns: Patterns::new(),
        }
    }

    /// Masks a value. Returns whether anything was masked.
    pub fn mask(&self, value: &mut Value) -> bool {
        self.mask_at(value, Place::default())
    }

    /// Masks a text, such as a command line.
    pub fn mask_text(&self, text: &str) -> String {
        self.masked_text(text, Place::default()).unwrap_or_else(|| text.to_owned())
    }

    fn mask_at(&self, value: &mut Value, place: Place) -> bool {
        match value {
            Value::Object(members) => {
                let mut changed = false;
                for (name, value) in members.iter_mut() {
                    let inner = self.enter(name, place);
                    changed |= self.mask_at(value, inner);
                }
                changed
            }
            Value::Array(values) => {
                values.iter_mut().fold(false, |changed, value| self.mask_at(value, place) | changed)
            }
            Value::String(_) | Value::Number(_) if place.is_secret && !place.in_schema => {
                let is_new = value.as_str() != Some(MASK);
                *value = MASK.into();
                is_new
            }
            Value::String(text) => match self.masked_text(text, place) {
                Some(masked) => {
                    *text = masked;
                    true
                }
                None => false,
            },
            _ => false,
        }
    }

    /// The place of a member.
    fn enter(&self, name: &str, place: Place) -> Place {
        let is_secret = place.is_secret || self.is_secret(name);
        let is_schema = ["inputSchema", "outputSchema", "requestedSchema"].contains(&name);
        // The example and default of a secret are secrets too.
        let is_value = ["default", "const", "examples", "example", "enum"].contains(&name);
        let in_schema = (place.in_schema || is_schema) && !(place.is_secret && is_value);
        let in_headers = place.in_headers || ["headers", "env"].contains(&&*normalize(name));
        Place { is_secret, in_schema, in_headers, depth: place.depth }
    }

    /// Returns whether a member with this name holds a secret.
    fn is_secret(&self, name: &str) -> bool {
        let name = normalize(name);
        if self.names.contains(&name) {
            return true;
        }
        WHOLE.contains(&&*name)
            || PARTS.iter().any(|part| name.contains(part))
            || (name.ends_with("token") && !NOT_SECRET.contains(&&*name))
    }

    fn masked_text(&self, text: &str, place: Place) -> Option<String> {
        let start = text.trim_start();
        if place.depth < MAX_DEPTH
            && start.starts_with(['{', '['])
            && let Ok(mut inner) = serde_json::from_str::<Value>(start)
        {
            let deeper = Place { depth: place.depth + 1, ..Place::default() };
            return self.mask_at(&mut inner, deeper).then(|| inner.to_string());
        }
        if place.in_headers && is_encoded_login(text) {
            return Some(MASK.to_owned());
        }
        if !may_hold_secret(text) {
            return None;
        }
        let Patterns { url, scheme, header, pair, token, key } = &self.patterns;
        let masked = url.replace_all(text, format!("${{1}}{MASK}@"));
        let masked = header.replace_all(&masked, format!("${{1}}{MASK}"));
        let masked = scheme.replace_all(&masked, |found: &Captures<'_>| mask_credential(found));
        let masked = token.replace_all(&masked, MASK);
        let masked = key.replace_all(&masked, MASK);
        let masked = pair.replace_all(&masked, |found: &Captures<'_>| {
            let (name, sign, value) = (&found[1], &found[2], &found[3]);
            match self.is_secret(name) && value != MASK {
                true => format!("{name}{sign}{MASK}"),
                false => found[0].to_owned(),
            }
        });
        (masked != text).then(|| masked.into_owned())
    }
}

/// Returns false for texts in which no pattern can find anything, as most texts are. It is much cheaper
/// than the patterns.
fn may_hold_secret(text: &str) -> bool {
    // Every pattern needs one of these: a pair or URL a colon or an equals sign, a credential a space
    // before it, a token or key at least 14 characters.
    let has_sign = text.bytes().any(|byte| matches!(byte, b':' | b'='));
    let is_long = |part: &str| part.len() >= 14;
    has_sign
        || text.split_ascii_whitespace().any(is_long)
        || (text.contains(' ') && {
            let lower = text.to_ascii_lowercase();
            ["bearer", "basic"].iter().any(|scheme| lower.contains(scheme))
        })
}

/// Masks what follows `Bearer` and `Basic`, if it is a credential rather than a word.
fn mask_credential(found: &Captures<'_>) -> String {
    let (name, value) = (&found[1], &found[2]);
    let is_credential = match name.eq_ignore_ascii_case("basic") {
        true => is_encoded_login(value),
        false => value.len() >= 20 || value.contains(|letter: char| letter.is_ascii_digit()),
    };
    if is_credential { format!("{name} {MASK}") } else { found[0].to_owned() }
}

/// Returns whether a text is `user:password` in base64.
fn is_encoded_login(text: &str) -> bool {
    let text = text.trim();
    if text.len() < 4 || text.len() > 4096 {
        return false;
    }
    let decoded = STANDARD.decode(text.as_bytes()).ok();
    decoded.is_some_and(|bytes| {
        bytes.contains(&b':') && bytes.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ')
    })
}

/// Compares names without regard to case and separators.
fn normalize(name: &str) -> String {
    name.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect()
}

impl Patterns {
    #[expect(clippy::expect_used, reason = "the patterns are constant, and tests compile them")]
    fn new() -> Self {
        let compile = |pattern: &str| Regex::new(pattern).expect("the pattern is valid");
        let word = |word: &str| -> String {
            let both = |letter: char| {
                format!("[{}{}]", letter.to_ascii_uppercase(), letter.to_ascii_lowercase())
            };
            word.chars()
                .map(|letter| if letter == '-' { "-".to_owned() } else { both(letter) })
                .collect()
        };
        let headers = [
            word("proxy-authorization"),
            word("authorization"),
            word("set-cookie"),
            word("cookie"),
        ];
        Self {
            url: compile(r#"([A-Za-z][A-Za-z0-9+.-]*://)[^ \t\r\n/@"'?#<>]+@"#),
            scheme: compile(&format!(
                "({}|{})[ \\t]+([A-Za-z0-9._~+/=-]{{4,}})",
                word("bearer"),
                word("basic")
            )),
            header: compile(&format!(
                "((?:{})\"?[ \\t]*:[ \\t]*\"?)[^\\r\\n\"]+",
                headers.join("|")
            )),
            pair: compile(
                r#"([A-Za-z0-9_.-]+)("?[ \t]*(?:=|:)[ \t]*["']?)([^ \t\r\n"',;&<>{}\[]+)"#,
            ),
            token: compile(concat!(
                r"(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}",
                r"|glpat-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[0-9A-Z]{16}",
                r"|AIza[0-9A-Za-z_-]{30,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)",
            )),
            key: compile(
                r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*-----END [A-Z ]*PRIVATE KEY-----",
            ),
        }
    }
}

/// Parts of the names of secrets.
const PARTS: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "accesskey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "authorization",
    "credential",
    "cookie",
    "connectionstring",
    "bearertoken",
];

/// Whole names of secrets.
const WHOLE: [&str; 9] =
    ["auth", "xauth", "pwd", "pass", "jwt", "bearer", "otp", "pat", "mcpsessionid"];

/// Names that end as those of secrets do.
const NOT_SECRET: [&str; 6] = [
    "progresstoken",
    "pagetoken",
    "nextpagetoken",
    "continuationtoken",
    "cancellationtoken",
    "nexttoken",
];

/// Limit on JSON within JSON.
const MAX_DEPTH: usize = 4;

#[cfg(test)]
mod tests {
    use super::Masker;
    use serde_json::json;

    #[test]
    fn secrets_are_masked_wherever_they_are() {
        let masker = Masker::new(&["customer_name".to_owned()]);
        let secret = "hunter2hunter2hunter2";
        let nested = json!({"outer": {"password": secret}}).to_string();
        let doubly = json!({"text": nested}).to_string();
        for value in [
            json!({"password": secret}),
            json!({"Api-Key": secret, "x": 1}),
            json!({"credentials": {"user": secret, "list": [secret]}}),
            json!({"customerName": secret}),
            json!({"access_token": secret}),
            json!(format!("https://me:{secret}@example.com/path")),
            json!(format!("https://{secret}@example.com")),
            json!(format!("https://example.com/?a=1&token={secret}&b=2")),
            json!(format!("Authorization: Token {secret}")),
            json!(format!("curl -H 'Authorization: Bearer {secret}' x")),
            json!(format!("Bearer {secret}")),
            json!({"text": nested}),
            json!({"text": doubly}),
            json!(format!("GITHUB_TOKEN={secret}\nHOME=/root")),
            json!(format!("db_password: {secret}")),
            json!({"inputSchema": {"properties": {"password": {"default": secret}}}}),
        ] {
            let mut masked = value.clone();
            assert!(masker.mask(&mut masked), "{value}");
            assert!(!masked.to_string().contains("hunter2"), "{masked}");
            assert!(!masker.mask(&mut masked.clone()), "masked once: {masked}");
        }
        // user:hunter2
        for value in
            [json!("Basic dXNlcjpodW50ZXIy"), json!({"headers": {"X-Login": "dXNlcjpodW50ZXIy"}})]
        {
            let mut masked = value.clone();
            assert!(masker.mask(&mut masked) && !masked.to_string().contains("dXNlcj"), "{masked}");
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        let masker = Masker::new(&[]);
        for value in [
            json!({"_meta": {"progressToken": 3}, "maxTokens": 100, "nextPageToken": "abc"}),
            json!({"inputSchema": {"properties": {"password": {"type": "string"}, "token": {"type": "string"}}}}),
            json!("Basic information about bearer authentication"),
            json!("https://example.com/path?q=1#x and a@b.example"),
            json!({"text": "{\"a\": 1}", "uri": "file:///tmp/x", "isSecret": false}),
            json!("time: 12:30, ratio: 3"),
        ] {
            let mut masked = value.clone();
            assert!(!masker.mask(&mut masked), "{masked}");
            assert_eq!(masked, value);
        }
    }
}
