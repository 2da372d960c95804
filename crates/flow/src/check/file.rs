//! Files: carried as `{name, mimeType, data}` in base64, or named as `{uri}` (INT-126, C-14).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{Violation, limits, text};
use crate::prompt::Rules;

pub(super) fn check(rules: &Rules, answer: &Value) -> Result<(), Violation> {
    let Value::Object(file) = answer else { return Err(shape()) };
    if file.contains_key("uri") {
        return uri(file);
    }
    let (Some(name), Some(data)) = (string(file, "name"), string(file, "data")) else {
        return Err(shape());
    };
    if file.len() > 3 || (file.len() == 3 && !file.contains_key("mimeType")) {
        return Err(shape());
    }
    if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(is_unsafe) {
        return Err(Violation::new("the name of the file cannot be used")
            .suggest("Use a name without folders and control characters"));
    }
    let kind = match file.get("mimeType") {
        None => "application/octet-stream",
        Some(Value::String(kind)) => kind,
        Some(_) => return Err(shape()),
    };
    if !rules.mime_types.is_empty() && !rules.mime_types.iter().any(|taken| covers(taken, kind)) {
        return Err(Violation::new("this kind of file is not taken")
            .suggest(format!("Use one of {}", rules.mime_types.join(", "))));
    }
    let most = rules.max_size.unwrap_or(limits::FILE);
    // Judged by its encoded length first, so that nothing of any size is decoded.
    if data.len() as u64 / 4 > most.div_ceil(3) {
        return Err(too_large(most));
    }
    let Ok(bytes) = STANDARD.decode(data) else {
        return Err(Violation::new("the data of the file is not base64"));
    };
    if bytes.len() as u64 > most { Err(too_large(most)) } else { Ok(()) }
}

fn uri(file: &Map<String, Value>) -> Result<(), Violation> {
    let known = file.keys().all(|key| ["uri", "name", "mimeType"].contains(&key.as_str()));
    let Some(uri) = string(file, "uri") else { return Err(shape()) };
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    let named = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|rest| rest.is_ascii_alphanumeric() || "+-.".contains(rest));
    let plain = uri.len() <= LONGEST_URI && !uri.chars().any(|c| c.is_control() || c == ' ');
    if known && named && plain {
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

const LONGEST_NAME: usize = 255;
const LONGEST_URI: usize = 8 * 1024;
