//! Files: carried as `{name, mimeType, data}` in base64, or named as `{uri}` (INT-126, C-14).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{Violation, limits, text};
use crate::prompt::Rules;

pub(super) fn check(rules: &Rules, answer: &Value) -> Result<(), Violation> {
    let Value::Object(file) = answer else { return Err(shape()) };
    let is_named = file.contains_key("uri");
    let source = if is_named { "uri" } else { "data" };
    let Some(content) = string(file, source) else { return Err(shape()) };
    if file.keys().any(|key| !["name", "mimeType", source].contains(&key.as_str())) {
        return Err(shape());
    }
    match file.get("name") {
        None if is_named => {}
        Some(Value::String(name)) => check_name(name)?,
        _ => return Err(shape()),
    }
    match file.get("mimeType") {
        // Of which kind a file elsewhere is, only fetching it would tell.
        None if is_named => {}
        None => check_kind(rules, "application/octet-stream")?,
        Some(Value::String(kind)) => check_kind(rules, kind)?,
        Some(_) => return Err(shape()),
    }
    if is_named { check_uri(rules, content) } else { check_data(rules, content) }
}

fn check_name(name: &str) -> Result<(), Violation> {
    let is_folder = matches!(name, "" | "." | "..");
    if is_folder || name.len() > LONGEST_NAME || name.chars().any(is_unsafe) {
        return Err(Violation::new("the name of the file cannot be used")
            .suggest("Use a name without folders and control characters"));
    }
    Ok(())
}

fn check_kind(rules: &Rules, kind: &str) -> Result<(), Violation> {
    if !rules.mime_types.is_empty() && !rules.mime_types.iter().any(|taken| covers(taken, kind)) {
        return Err(Violation::new("this kind of file is not taken")
            .suggest(format!("Use one of {}", rules.mime_types.join(", "))));
    }
    Ok(())
}

fn check_data(rules: &Rules, data: &str) -> Result<(), Violation> {
    let most = rules.max_size.unwrap_or(limits::FILE);
    // Judged by its encoded length first, so that nothing of any size is decoded.
    if data.len() as u64 / 4 > most.div_ceil(3) {
        return Err(too_large(most));
    }
    let Ok(bytes) = STANDARD.decode(data) else {
        return Err(Violation::new("the data of the file is not base64"));
    };
    if bytes.is_empty() && rules.required == Some(true) {
        return Err(Violation::new("the file is empty").suggest("Send a file with content"));
    }
    if bytes.len() as u64 > most { Err(too_large(most)) } else { Ok(()) }
}

/// Whoever is given an address may open it or show it as a link, so only schemes that lead to a
/// document elsewhere are taken, and no others unless the question names them.
fn check_uri(rules: &Rules, uri: &str) -> Result<(), Violation> {
    let (scheme, rest) = uri.split_once(':').unwrap_or(("", ""));
    let is_scheme = |taken: &str| taken.eq_ignore_ascii_case(scheme);
    let is_web = WEB.iter().any(|taken| is_scheme(taken));
    let (is_taken, taken) = match rules.uri_schemes.as_slice() {
        [] => (is_web, WEB.join(" or ")),
        named => (named.iter().any(|taken| is_scheme(taken)), named.join(" or ")),
    };
    if !is_taken {
        return Err(Violation::new("the scheme of this address is not taken")
            .suggest(format!("Use {taken}, or send the file itself as {{name, mimeType, data}}")));
    }
    let has_host = rest.strip_prefix("//").is_some_and(|rest| !rest.starts_with(['/', '?', '#']));
    let is_plain = !rest.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\');
    let is_complete = if is_web { has_host && rest.len() > 2 } else { !rest.is_empty() };
    if uri.len() <= LONGEST_URI && is_plain && is_complete {
        return Ok(());
    }
    Err(Violation::new("the address of the file cannot be used").suggest("Use an absolute URI"))
}

/// Whether `taken` is this kind of file, or its family.
fn covers(taken: &str, kind: &str) -> bool {
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

fn shape() -> Violation {
    Violation::new("a file is needed")
        .suggest("Use {name, mimeType, data} with data in base64, or {uri}")
}

fn too_large(most: u64) -> Violation {
    Violation::new(format!("the file may have at most {most} bytes"))
}

fn is_unsafe(character: char) -> bool {
    matches!(character, '/' | '\\' | '\0') || text::is_forbidden(character) || character == '\n'
}

/// The schemes that are taken where the question names none.
const WEB: [&str; 2] = ["https", "http"];

const LONGEST_NAME: usize = 255;
const LONGEST_URI: usize = 8 * 1024;
