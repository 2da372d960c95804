//! Content beside the messages, of which a recording keeps the length and the digest.

use ring::digest::{Context, SHA256};

use crate::recorder::Recorder;
use crate::tap::hex;

/// Content that is being sent. Recorded when it is dropped, if there was any.
pub struct RecordedContent {
    recorder: Recorder,
    name: String,
    bytes: u64,
    digest: Context,
}

impl RecordedContent {
    pub(crate) fn new(recorder: Recorder, name: String) -> Self {
        Self { recorder, name, bytes: 0, digest: Context::new(&SHA256) }
    }

    /// Adds the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        self.digest.update(piece);
    }
}

impl Drop for RecordedContent {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let (name, digest) = (std::mem::take(&mut self.name), self.digest.clone().finish());
            self.recorder.record_download(name, self.bytes, hex(digest.as_ref()));
        }
    }
}
