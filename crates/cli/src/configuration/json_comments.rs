//! JSON as editors keep it: with comments and trailing commas.

/// Replaces comments and trailing commas by spaces, so that all positions stay the same.
pub(super) fn blank_comments(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let (mut at, mut comma) = (0, None);
    while let Some(&byte) = bytes.get(at) {
        let end = match (byte, bytes.get(at + 1)) {
            (b'"', _) => at + string_length(&bytes[at..]),
            (b'/', Some(b'/')) => at + line_length(&bytes[at..]),
            (b'/', Some(b'*')) => match find(&bytes[at + 2..], b"*/") {
                Some(length) => at + 2 + length + 2,
                // It is not closed, and reported where it begins.
                None => break,
            },
            _ => at + 1,
        };
        match byte {
            b'/' if end > at + 1 => blank(&mut bytes[at..end]),
            b',' => comma = Some(at),
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    bytes[comma] = b' ';
                }
            }
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => comma = None,
        }
        at = end;
    }
    // Whole characters were replaced.
    String::from_utf8(bytes).unwrap_or_default()
}

fn string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn line_length(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len())
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// Keeps the ends of lines, so that their numbers stay the same.
fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

#[cfg(test)]
mod tests {
    use super::blank_comments;

    #[test]
    fn comments_and_trailing_commas_become_spaces() {
        for (text, expected) in [
            ("// é\n{\"a\": 1}", "     \n{\"a\": 1}"),
            ("{\"a\": 1, /* b\n*/ }", "{\"a\": 1      \n   }"),
            ("[1, 2 , // x\n]", "[1, 2       \n]"),
            (
                "{\"a\": \"http://h\", \"b\": \"\\\"// ,}\"}",
                "{\"a\": \"http://h\", \"b\": \"\\\"// ,}\"}",
            ),
            ("[\"a\\\\\", // x", "[\"a\\\\\",     "),
            ("[1,,]", "[1, ]"),
            ("{} /* not closed", "{} /* not closed"),
            ("\"not closed // x", "\"not closed // x"),
            ("\"\\", "\"\\"),
        ] {
            assert_eq!(blank_comments(text), expected, "{text:?}");
            assert_eq!(blank_comments(text).len(), text.len());
        }
    }
}
