//! Secrets in messages: the names of members that hold them, and their forms within texts.

mod keys;
mod text;
mod value;

pub use text::{decode_base64_text, is_encoded_login, mask_and_collect, mask_secrets};

/// Text in place of a secret, in logs and recordings.
pub const MASK: &str = "[masked]";

/// Returns whether a member, variable, header or option with this name holds a secret.
///
/// ```
/// use mcp_flow_proto::secrets::is_secret_name;
///
/// assert!(is_secret_name("DB_PASSWORD") && is_secret_name("X-Api-Key") && is_secret_name("accessToken"));
/// assert!(!is_secret_name("progressToken") && !is_secret_name("city"));
/// ```
pub fn is_secret_name(name: &str) -> bool {
    let last = name.rsplit(['.', ' ']).next().unwrap_or(name);
    // Sessions of flows are named so, and told apart by it.
    if last == "sessionId" {
        return false;
    }
    let word = last_word(last);
    let (name, last) = (normalize_name(name), normalize_name(last));
    if WHOLE.contains(&&*last) || WHOLE.contains(&&*name) || is_count_name(&name) {
        return true;
    }
    PARTS.iter().any(|part| name.contains(part))
        || LAST_WORDS.iter().any(|known| word.eq_ignore_ascii_case(known))
        || (last.ends_with("token") && !NOT_SECRET.iter().any(|known| last.ends_with(known)))
}

/// Returns whether a variable with the name of a password is that of the working directory, by its value.
pub fn is_working_directory(name: &str, value: &str) -> bool {
    name == "PWD" && value.starts_with('/')
}

/// The last word of a name in snake, kebab or camel case.
fn last_word(name: &str) -> &str {
    let part = name.rsplit(['_', '-']).next().unwrap_or(name);
    let is_lower = part.ends_with(|letter: char| letter.is_ascii_lowercase());
    let capital = part.rfind(|letter: char| letter.is_ascii_uppercase()).filter(|_| is_lower);
    part.get(capital.unwrap_or_default()..).unwrap_or(part)
}

/// Returns whether values of this name are secrets only if they are texts: `tokens` may be their number.
pub fn is_count_name(name: &str) -> bool {
    normalize_name(name).ends_with("tokens")
}

/// Returns whether a parameter of a URL or form holds a secret, although its name means less elsewhere.
fn is_secret_parameter(name: &str) -> bool {
    PARAMETERS.contains(&&*normalize_name(name))
}

/// Returns a name without case and separators, to compare it with others.
pub fn normalize_name(name: &str) -> String {
    name.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect()
}

/// Parts of the names of secrets.
const PARTS: [&str; 31] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "apikey",
    "accesskey",
    "accountkey",
    "masterkey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "subscriptionkey",
    "authkey",
    "appkey",
    "sshkey",
    "hmackey",
    "sharedkey",
    "storagekey",
    "userpass",
    "dbpass",
    "csrf",
    "xsrf",
    "sessid",
    "authorization",
    "credential",
    "cookie",
    "connectionstring",
    "xamzsignature",
    "codeverifier",
    "clientassertion",
];

/// Whole names of secrets.
const WHOLE: [&str; 13] = [
    "auth",
    "xauth",
    "pwd",
    "pass",
    "jwt",
    "bearer",
    "otp",
    "totp",
    "pat",
    "sig",
    "mcpsessionid",
    "sessionid",
    "devicecode",
];

/// Last words of the names of secrets.
const LAST_WORDS: [&str; 4] = ["pass", "pwd", "pw", "creds"];

/// Names of parameters that hold secrets in URLs and forms.
const PARAMETERS: [&str; 6] = ["code", "key", "signature", "xgoogsignature", "hmac", "assertion"];

/// Names that end as those of secrets do.
const NOT_SECRET: [&str; 6] = [
    "progresstoken",
    "pagetoken",
    "nextpagetoken",
    "continuationtoken",
    "cancellationtoken",
    "nexttoken",
];
