//! Links to downloads of a server, led through the relay to it.
//!
//! Servers build links by the host that a request names, and clients follow only those to the host that
//! they know. A relay that has to name the server's host replaces it in the links.

use bytes::Bytes;

/// Replaces the beginning of links in a body that passes in pieces.
#[derive(Debug)]
pub(crate) struct LinkRewriter {
    from: Vec<u8>,
    to: Vec<u8>,
    /// Bytes that may be the beginning of a link, until more is known.
    held: Vec<u8>,
}

impl LinkRewriter {
    pub(crate) fn new(from: String, to: String) -> Self {
        Self { from: from.into_bytes(), to: to.into_bytes(), held: Vec::new() }
    }

    /// Takes the next piece, and returns what can be passed on.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Bytes {
        let mut rest = std::mem::take(&mut self.held);
        rest.extend_from_slice(piece);
        let mut out = Vec::with_capacity(rest.len());
        let mut copied = 0;
        let length = self.from.len();
        while let Some(found) = rest[copied..].windows(length).position(|part| part == self.from) {
            out.extend_from_slice(&rest[copied..copied + found]);
            out.extend_from_slice(&self.to);
            copied += found + length;
        }
        // Only what may become a link is held back: the end of an event never is.
        let tail = &rest[copied..];
        let is_begun = |size: &usize| tail.ends_with(&self.from[..*size]);
        let held = (1..length.min(tail.len() + 1)).rev().find(is_begun).unwrap_or_default();
        out.extend_from_slice(&tail[..tail.len() - held]);
        self.held = tail[tail.len() - held..].to_vec();
        out.into()
    }

    /// Returns whether something is held back.
    pub(crate) fn holds_back(&self) -> bool {
        !self.held.is_empty()
    }

    /// Takes what is held back at the end of the body.
    pub(crate) fn finish(&mut self) -> Option<Bytes> {
        let held = std::mem::take(&mut self.held);
        (!held.is_empty()).then(|| held.into())
    }
}

#[cfg(test)]
mod tests {
    use super::LinkRewriter;

    #[test]
    fn links_are_rewritten_however_they_arrive() {
        let text =
            "see https://h/download/a, https://h/downloads, https://h/download/b https://h/do";
        let expected =
            "see http://l:9/download/a, https://h/downloads, http://l:9/download/b https://h/do";
        for size in [1, 2, 7, text.len()] {
            let (from, to) = ("https://h/download/", "http://l:9/download/");
            let mut rewriter = LinkRewriter::new(from.to_owned(), to.to_owned());
            let mut out = Vec::new();
            text.as_bytes().chunks(size).for_each(|piece| out.extend(rewriter.push(piece)));
            assert!(rewriter.holds_back());
            out.extend(rewriter.finish().unwrap());
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{size}");
            assert!(rewriter.push(b"data: {}\n\n") == "data: {}\n\n" && !rewriter.holds_back());
        }
    }
}
