//! Splits bytes into lines, in as few reads as the pipe allows.
//!
//! Shared by the driver and the bare server, so that neither is slower at this than the other.

use std::io::{self, Read};

/// Splits the input into lines without copying them.
pub(crate) struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
    /// Length of the incomplete line at the start of the buffer.
    filled: usize,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, buffer: vec![0; PIPE_CAPACITY], filled: 0 }
    }

    /// Reads once and passes on each complete line, without its newline.
    ///
    /// Returns false at the end of the input.
    pub(crate) fn read_batch<E: From<io::Error>>(
        &mut self,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        let read = self.source.read(&mut self.buffer[self.filled..])?;
        let end = self.filled + read;
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', &self.buffer[self.filled..end]) {
            let newline = self.filled + newline;
            each(&self.buffer[start..newline])?;
            start = newline + 1;
        }
        self.buffer.copy_within(start..end, 0);
        self.filled = end - start;
        if self.filled == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        Ok(read > 0)
    }
}

/// Default capacity of a Linux pipe: a single read never returns more.
const PIPE_CAPACITY: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_do_not_depend_on_how_bytes_arrive() {
        check(&["{}\n"], &["{}"]);
        check(&["{", "}", "\n"], &["{}"]);
        check(&["{}\n[", "]\n"], &["{}", "[]"]);
        check(&["{}\n["], &["{}"]);
    }

    #[test]
    fn a_line_may_be_longer_than_a_pipe() {
        let long = "x".repeat(3 * PIPE_CAPACITY);
        check(&[&long, "\n{}\n"], &[&long, "{}"]);
    }

    fn check(chunks: &[&str], expected: &[&str]) {
        let mut lines = Lines::new(Chunks(chunks.iter().map(|chunk| chunk.as_bytes()).collect()));
        let mut found = Vec::new();
        while lines
            .read_batch(|line| {
                found.push(String::from_utf8(line.to_vec()).unwrap());
                io::Result::Ok(())
            })
            .unwrap()
        {}
        assert_eq!(found, expected);
    }

    struct Chunks<'a>(std::collections::VecDeque<&'a [u8]>);

    impl Read for Chunks<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(chunk) = self.0.front_mut() else { return Ok(0) };
            let read = chunk.read(buffer)?;
            if chunk.is_empty() {
                self.0.pop_front();
            }
            Ok(read)
        }
    }
}
