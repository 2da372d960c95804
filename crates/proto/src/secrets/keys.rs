//! Keys of well-known services, by how they begin.

use super::value::run;

/// Length of the key of a well-known service, or of a JWT, that a word of a length begins with.
pub(super) fn known_key(text: &str, length: usize) -> Option<usize> {
    let is_known = |(prefix, least): &(&str, usize)| {
        length >= prefix.len() + least && text.as_bytes().starts_with(prefix.as_bytes())
    };
    let is_random = |(prefix, least): &(&str, usize)| {
        is_known(&(*prefix, *least)) && {
            let rest = text.as_bytes().get(prefix.len()..length).unwrap_or_default();
            rest.iter().any(u8::is_ascii_uppercase) && rest.iter().any(u8::is_ascii_digit)
        }
    };
    let is_temporary = length == TEMPORARY.len() + 16 && text.starts_with(TEMPORARY);
    if is_temporary || KEYS.iter().any(is_known) || RANDOM_KEYS.iter().any(is_random) {
        return Some(length);
    }
    dotted_key(text, length)
}

/// Length of a key whose parts are separated by dots.
fn dotted_key(text: &str, length: usize) -> Option<usize> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let first = &text[..length];
    let least = match first {
        "SG" => 12,
        "ya29" => 20,
        _ if length >= 11 && first.starts_with("eyJ") => 8,
        _ => return None,
    };
    let second = text[length..].strip_prefix('.')?;
    let middle = run(second, is_part);
    if middle < least {
        return None;
    }
    let rest = &second[middle..];
    match rest.strip_prefix('.') {
        Some(third) => {
            Some(length + 1 + middle + 1 + run(third, |byte| is_part(byte) || byte == b'.'))
        }
        None => (first == "ya29").then_some(length + 1 + middle),
    }
}

/// Beginnings of keys, with the least number of characters that follow.
const KEYS: [(&str, usize); 25] = [
    ("sk-", 16),
    ("sk_live_", 10),
    ("sk_test_", 10),
    ("rk_live_", 10),
    ("rk_test_", 10),
    ("whsec_", 16),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxa-", 10),
    ("xoxs-", 10),
    ("xapp-", 16),
    ("shpat_", 16),
    ("shpss_", 16),
    ("shpca_", 16),
    ("GOCSPX-", 16),
    ("dop_v1_", 16),
    ("AKIA", 16),
    ("AIza", 30),
];

/// Beginnings of keys and of other words: keys have capitals and digits.
const RANDOM_KEYS: [(&str, usize); 3] = [("npm_", 30), ("hf_", 30), ("pypi-", 16)];

/// Beginning of a temporary key, which has 16 further characters.
const TEMPORARY: &str = "ASIA";

#[cfg(test)]
mod tests {
    use crate::secrets::mask_secrets;

    /// Keys of well-known services are recognized by their beginning.
    #[test]
    fn keys_of_services_are_replaced() {
        let random = "Zq9vX7kw3Lm8Pt2Rd6Yh1Nc5Bf4Gj0Ws9";
        for key in [
            format!("sk_test_{random}"),
            format!("rk_test_{random}"),
            format!("whsec_{random}"),
            format!("npm_{random}"),
            format!("hf_{random}"),
            format!("pypi-{random}"),
            format!("SG.{random}.{random}"),
            "ASIAABCDEFGHIJKLMNOP".to_owned(),
            format!("ya29.{random}"),
            format!("xapp-1-{random}"),
            format!("shpat_{random}"),
            format!("GOCSPX-{random}"),
            format!("dop_v1_{random}"),
        ] {
            let masked = mask_secrets(&format!("it is {key}, yes"), "***", &|_| false).into_owned();
            assert_eq!(masked, "it is ***, yes");
        }
        for plain in
            ["npm_config_registry_of_my_company_one", "pypi-publish-action-for-everyone", "SG.x"]
        {
            assert_eq!(mask_secrets(plain, "***", &|_| false), plain);
        }
    }
}
