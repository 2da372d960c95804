//! URI templates (the simple forms of RFC 6570): matching and values.

use percent_encoding::percent_decode_str;

/// A template such as `users:/{id}/files/{+path}`.
#[derive(Debug)]
pub(super) struct UriTemplate {
    pieces: Vec<Piece>,
}

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Variable {
        name: String,
        /// Set if its value may contain delimiters of a URI.
        reserved: bool,
    },
}

impl UriTemplate {
    /// Parses a template; the error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut rest = text;
        while let Some((literal, expression)) = rest.split_once('{') {
            if literal.contains('}') {
                return Err(UNBALANCED.to_owned());
            }
            let (expression, after) = expression.split_once('}').ok_or(UNBALANCED)?;
            if !literal.is_empty() {
                pieces.push(Piece::Literal(literal.to_owned()));
            } else if let Some(Piece::Variable { name, .. }) = pieces.last() {
                return Err(format!("nothing tells where {name} ends and {expression} begins"));
            }
            pieces.push(variable(expression, &pieces)?);
            rest = after;
        }
        if rest.contains('}') {
            return Err(UNBALANCED.to_owned());
        }
        if pieces.is_empty() {
            return Err("it has no variable; make it a resource".to_owned());
        }
        if pieces.len() > MAX_PIECES {
            return Err(format!("it has more than {} variables", MAX_PIECES / 2));
        }
        if !rest.is_empty() {
            pieces.push(Piece::Literal(rest.to_owned()));
        }
        Ok(Self { pieces })
    }

    /// The names of its variables, in order.
    pub(super) fn names(&self) -> Vec<&str> {
        let names = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Variable { name, .. } => Some(name.as_str()),
            Piece::Literal(_) => None,
        });
        names.collect()
    }

    /// The decoded values of the variables in a URI; `None` if it does not match.
    ///
    /// If several matches are possible, earlier variables take as much as they can. Matching
    /// takes time linear in the length of the URI.
    pub(super) fn values(&self, uri: &str) -> Option<Vec<(&str, String)>> {
        let bytes = uri.as_bytes();
        // The positions where each piece can begin, given the pieces before it.
        let mut starts = vec![vec![false; bytes.len() + 1]];
        starts[0][0] = true;
        for piece in &self.pieces {
            let ends = piece.ends(bytes, starts.last()?);
            starts.push(ends);
        }
        let mut end = bytes.len();
        if !starts.last()?[end] {
            return None;
        }
        let mut values = Vec::new();
        for (piece, starts) in self.pieces.iter().zip(&starts).rev() {
            match piece {
                Piece::Literal(literal) => end -= literal.len(),
                Piece::Variable { name, .. } => {
                    // The nearest start: nothing after it is excluded from the variable, or the end
                    // could not have been reached.
                    let start = (0..end).rev().find(|start| starts[*start])?;
                    values.push((name.as_str(), decode(uri.get(start..end)?)?));
                    end = start;
                }
            }
        }
        values.reverse();
        Some(values)
    }
}

impl Piece {
    /// The positions where the piece can end, given those where it can begin.
    fn ends(&self, uri: &[u8], starts: &[bool]) -> Vec<bool> {
        let mut ends = vec![false; uri.len() + 1];
        match self {
            Self::Literal(literal) => {
                for start in 0..=uri.len() {
                    if starts[start] && uri[start..].starts_with(literal.as_bytes()) {
                        ends[start + literal.len()] = true;
                    }
                }
            }
            Self::Variable { reserved, .. } => {
                let mut open = false;
                for (position, byte) in uri.iter().enumerate() {
                    open |= starts[position];
                    open &= *reserved || !b"/?#".contains(byte);
                    ends[position + 1] = open;
                }
            }
        }
        ends
    }
}

fn variable(expression: &str, before: &[Piece]) -> Result<Piece, String> {
    let reserved = expression.starts_with('+');
    let name = expression.strip_prefix('+').unwrap_or(expression);
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(format!("{{{expression}}} is neither {{name}} nor {{+name}}"));
    }
    let is_known =
        |piece: &Piece| matches!(piece, Piece::Variable { name: known, .. } if known == name);
    if before.iter().any(is_known) {
        return Err(format!("{name} is there twice"));
    }
    Ok(Piece::Variable { name: name.to_owned(), reserved })
}

fn decode(value: &str) -> Option<String> {
    percent_decode_str(value).decode_utf8().ok().map(Into::into)
}

const UNBALANCED: &str = "its braces do not match";

/// Bounds the cost of matching.
const MAX_PIECES: usize = 32;

#[cfg(test)]
mod tests {
    use super::UriTemplate;

    /// MCP-080: a URI that matches yields the values of the variables.
    #[test]
    fn uris_are_matched_and_their_values_decoded() {
        check("x:/{a}", "x:/1", Some(&["1"]));
        check("x:/{a}", "x:/a%20b%2Fc", Some(&["a b/c"]));
        check("x:/{a}", "x:/", None);
        check("x:/{a}", "x:/1/2", None);
        check("x:/{a}", "x:/1?q", None);
        check("x:/{a}", "y:/1", None);
        check("x:/{a}", "x:/%ff", None);
        check("x:/{+a}", "x:/1/2?q#f", Some(&["1/2?q#f"]));
        check("x:/{a}/files/{+b}", "x:/1/files/b/c", Some(&["1", "b/c"]));
        check("x:/{a}.{b}", "x:/1.2.3", Some(&["1.2", "3"]));
        check("x:/{a}-{b}-end", "x:/1-2-3-end", Some(&["1-2", "3"]));
        check("x:/{a}/end", "x:/1/end", Some(&["1"]));
        check("x:/{a}/end", "x:/1/end/end", None);
        check("x:/{a}", "x:/é", Some(&["é"]));
    }

    /// Backtracking would take exponential time on this input.
    #[test]
    fn matching_does_not_backtrack() {
        let template: String = (0..10).map(|number| format!("{{v{number}}}a")).collect();
        let template = UriTemplate::parse(&format!("x:/{template}b")).unwrap();
        assert!(template.values(&format!("x:/{}", "a".repeat(4000))).is_none());
    }

    fn check(template: &str, uri: &str, expected: Option<&[&str]>) {
        let template = UriTemplate::parse(template).unwrap();
        let values = template.values(uri);
        let values = values.map(|values| values.into_iter().map(|(_, value)| value).collect());
        let expected: Option<Vec<String>> =
            expected.map(|values| values.iter().map(|value| (*value).to_owned()).collect());
        assert_eq!(values, expected, "{template:?} {uri}");
    }
}
