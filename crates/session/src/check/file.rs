//! File answers: inline as `{name, mimeType, data}` in base64, or by `{uri}` (INT-126, C-14).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{InvalidAnswer, limits, text};
use crate::prompt::AnswerRules;

pub(super) fn check(rules: &AnswerRules, answer: &Value) -> Result<(), InvalidAnswer> {
    let Value::Object(file) = answer else { return Err(shape()) };
    let is_uri = file.contains_key("uri");
    let source = if is_uri { "uri" } else { "data" };
    let Some(content) = string(file, source) else { return Err(shape()) };
    if file.keys().any(|key| !["name", "mimeType", source].contains(&key.as_str())) {
        return Err(shape());
    }
    match file.get("name") {
        None if is_uri => {}
        Some(Value::String(name)) => check_name(name)?,
        _ => return Err(shape()),
    }
    match file.get("mimeType") {
        // The type of a file elsewhere is unknown until it is fetched.
        None if is_uri => {}
        None => check_kind(rules, "application/octet-stream")?,
        Some(Value::String(kind)) => check_kind(rules, kind)?,
        Some(_) => return Err(shape()),
    }
    if is_uri { check_uri(rules, content) } else { check_data(rules, content) }
}

fn check_name(name: &str) -> Result<(), InvalidAnswer> {
    let is_folder = matches!(name, "" | "." | "..");
    if is_folder || name.len() > NAME_LIMIT || name.chars().any(is_unsafe) {
        return Err(InvalidAnswer::new("the file name is invalid")
            .suggest("Use a name without folders and control characters"));
    }
    Ok(())
}

fn check_kind(rules: &AnswerRules, kind: &str) -> Result<(), InvalidAnswer> {
    if !rules.mime_types.is_empty()
        && !rules.mime_types.iter().any(|taken| matches_type(taken, kind))
    {
        return Err(InvalidAnswer::new("this file type is not allowed")
            .suggest(format!("Use one of {}", rules.mime_types.join(", "))));
    }
    Ok(())
}

fn check_data(rules: &AnswerRules, data: &str) -> Result<(), InvalidAnswer> {
    let most = rules.max_size.unwrap_or(limits::FILE);
    // Checked by the encoded length first, so that nothing too large is decoded.
    if data.len() as u64 / 4 > most.div_ceil(3) {
        return Err(too_large(most));
    }
    let Ok(bytes) = STANDARD.decode(data) else {
        return Err(InvalidAnswer::new("the data of the file is not base64"));
    };
    if bytes.is_empty() && rules.required == Some(true) {
        return Err(InvalidAnswer::new("the file is empty").suggest("Send a file with content"));
    }
    if bytes.len() as u64 > most { Err(too_large(most)) } else { Ok(()) }
}

/// Allows web addresses only, unless the question names schemes: a flow may fetch the URI or show
/// it as a link.
fn check_uri(rules: &AnswerRules, uri: &str) -> Result<(), InvalidAnswer> {
    let (scheme, rest) = uri.split_once(':').unwrap_or(("", ""));
    let is_scheme = |taken: &str| taken.eq_ignore_ascii_case(scheme);
    let is_web = WEB.iter().any(|taken| is_scheme(taken));
    let (is_taken, taken) = match rules.uri_schemes.as_slice() {
        [] => (is_web, WEB.join(" or ")),
        named => (named.iter().any(|taken| is_scheme(taken)), named.join(" or ")),
    };
    if !is_taken {
        return Err(InvalidAnswer::new("this URI scheme is not allowed")
            .suggest(format!("Use {taken}, or send the file itself as {{name, mimeType, data}}")));
    }
    let has_host = rest.strip_prefix("//").is_some_and(|rest| !rest.starts_with(['/', '?', '#']));
    let is_plain = !rest.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\');
    let is_complete = if is_web { has_host && rest.len() > 2 } else { !rest.is_empty() };
    if uri.len() <= URI_LIMIT && is_plain && is_complete {
        return Ok(());
    }
    Err(InvalidAnswer::new("the URI of the file is invalid").suggest("Use an absolute URI"))
}

/// Returns whether a MIME type matches an allowed one, such as `image/*`.
fn matches_type(taken: &str, kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match taken.strip_suffix("/*") {
        Some(family) => kind
            .split_once('/')
            .is_some_and(|(of, name)| of.eq_ignore_ascii_case(family) && !name.is_empty()),
        None => taken.eq_ignore_ascii_case(kind),
    }
}

fn string<'a>(file: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    file.get(key)?.as_str()
}

fn shape() -> InvalidAnswer {
    InvalidAnswer::new("the answer must be a file")
        .suggest("Use {name, mimeType, data} with data in base64, or {uri}")
}

fn too_large(most: u64) -> InvalidAnswer {
    InvalidAnswer::new(format!("the file may have at most {most} bytes"))
}

fn is_unsafe(character: char) -> bool {
    matches!(character, '/' | '\\' | '\0') || text::is_forbidden(character) || character == '\n'
}

/// Schemes that are allowed if the question names none.
const WEB: [&str; 2] = ["https", "http"];

const NAME_LIMIT: usize = 255;
const URI_LIMIT: usize = 8 * 1024;
