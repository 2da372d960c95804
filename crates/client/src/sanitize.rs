//! Sanitizes untrusted text for display.
//!
//! Text from a server may contain terminal escape sequences, control characters, invisible
//! characters and bidirectional overrides, which can make a terminal or a user see something else
//! than is there (PAT-023, PAT-033). Sanitize all text before showing it.

use std::borrow::Cow;

use mcp_flow_proto::text::prefix;

/// Sanitizes text: keeps line feeds and tabs, and replaces control and invisible characters with
/// visible ones.
///
/// ```
/// use mcp_flow_client::sanitize::text;
///
/// assert_eq!(text("two\nlines"), "two\nlines");
/// assert_eq!(text("red: \u{1b}[31m"), "red: \u{241b}[31m");
/// assert_eq!(text("user\u{202e}gpj.exe"), "user\u{fffd}gpj.exe");
/// ```
pub fn text(untrusted: &str) -> Cow<'_, str> {
    if untrusted.chars().all(|character| shown(character) == character) {
        return Cow::Borrowed(untrusted);
    }
    Cow::Owned(untrusted.replace("\r\n", "\n").chars().map(shown).collect())
}

/// Sanitizes text for one line: line feeds and tabs become spaces.
///
/// ```
/// assert_eq!(mcp_flow_client::sanitize::line("a\nb\tc"), "a b c");
/// ```
pub fn line(untrusted: &str) -> Cow<'_, str> {
    match text(untrusted) {
        shown if shown.contains(['\n', '\t']) => Cow::Owned(shown.replace(['\n', '\t'], " ")),
        shown => shown,
    }
}

/// Sanitizes text for one line of at most `most` characters. A longer text ends with `…`.
///
/// ```
/// assert_eq!(mcp_flow_client::sanitize::shorten("abcdef", 4), "abc…");
/// assert_eq!(mcp_flow_client::sanitize::shorten("abcd", 4), "abcd");
/// ```
pub fn shorten(untrusted: &str, most: usize) -> String {
    // Only the part that is shown is sanitized; the rest may be megabytes.
    match prefix(untrusted, most) {
        whole if whole.len() == untrusted.len() => line(whole).into_owned(),
        _ => format!("{}…", line(prefix(untrusted, most.saturating_sub(1)))),
    }
}

/// Maps a character to the one that is shown.
fn shown(character: char) -> char {
    match character {
        '\n' | '\t' => character,
        // The Unicode block Control Pictures.
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(character)).unwrap_or(REPLACEMENT),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}' => REPLACEMENT,
        // Bidirectional marks, joiners and invisible characters.
        '\u{ad}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'
        | '\u{200e}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        // Private use characters depend on the font; tag characters are invisible.
        | '\u{e000}'..='\u{f8ff}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}'
        | '\u{f0000}'..='\u{10ffff}' => REPLACEMENT,
        _ => character,
    }
}

const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

#[cfg(test)]
mod tests {
    use super::{line, shorten, text};

    /// PAT-023, PAT-033: escape sequences and invisible characters are replaced.
    #[test]
    fn control_and_invisible_characters_are_replaced() {
        for (untrusted, shown) in [
            ("plain ünïcödé 漢字 🙂", "plain ünïcödé 漢字 🙂"),
            ("a\r\nb", "a\nb"),
            ("over\rwrite", "over␍write"),
            ("\u{1b}]0;title\u{7}", "␛]0;title␇"),
            ("\u{9b}31m", "\u{fffd}31m"),
            ("back\u{8}space\u{7f}", "back␈space␡"),
            ("\u{2066}bidi\u{2069}", "\u{fffd}bidi\u{fffd}"),
            ("tag\u{e0041}", "tag\u{fffd}"),
            ("zero\u{200b}width", "zero\u{fffd}width"),
        ] {
            assert_eq!(text(untrusted), shown, "{untrusted:?}");
        }
        assert_eq!(line("a\nb"), "a b");
    }

    #[test]
    fn no_control_character_survives() {
        for character in (0..0x11_0000).filter_map(char::from_u32) {
            let shown = text(character.encode_utf8(&mut [0; 4])).into_owned();
            let is_harmless = |shown: char| !shown.is_control() || ['\n', '\t'].contains(&shown);
            assert!(shown.chars().all(is_harmless), "{character:?}");
        }
    }

    #[test]
    fn long_texts_are_truncated_at_character_boundaries() {
        assert_eq!(shorten(&"é".repeat(10), 3), "éé…");
        assert_eq!(shorten("", 3), "");
        assert_eq!(shorten("abc", 0), "…");
    }
}
