//! `serve --record`: a cassette of all messages of a server.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use mcp_flow::{ContentTap, Encoding, MessageSender, MessageTap, Raw};
use mcp_flow_cassette::{RecordedContent, Recorder};
use serde_json::Value;

use crate::exit::{Exit, Failure};

/// Starts a recording in a directory, which is created. The file is named by time and process.
pub(crate) fn start(folder: &Path, masked: &[String]) -> anyhow::Result<Recorder> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let file = folder.join(format!("{seconds}-{}.jsonl", std::process::id()));
    let created = std::fs::create_dir_all(folder)
        .and_then(|()| Recorder::create(&file, "http", "mcp-flow serve", masked));
    Ok(created.map_err(|error| {
        let message = format!("cannot create {}: {error}", file.display());
        Failure::new(Exit::Usage, message)
    })?)
}

/// Ends a recording.
pub(crate) fn finish(recorder: &Recorder) {
    let summary = recorder.finish();
    if let Some(reason) = summary.stopped {
        eprintln!("mcp-flow: recording stopped after {} messages: {reason}", summary.messages);
    }
}

/// Tap that records every message, and the digests of what is sent beside them.
pub(crate) struct RecordingTap(pub(crate) Recorder);

impl MessageTap for RecordingTap {
    fn message(&self, connection: u64, sender: MessageSender, encoding: Encoding, frame: &[u8]) {
        let is_from_client = sender == MessageSender::Client;
        match encoding {
            Encoding::Json => self.0.record_message(is_from_client, connection, frame),
            Encoding::Cbor => {
                let value = Raw::Cbor(frame).decode::<Value>().unwrap_or_default();
                self.0.record_message(is_from_client, connection, value.to_string().as_bytes());
            }
        }
    }

    fn content(&self, _: u64, name: &str) -> Option<Box<dyn ContentTap>> {
        Some(Box::new(RecordingContentTap(self.0.record_content(name))))
    }
}

/// Tap that records a download or stream.
struct RecordingContentTap(RecordedContent);

impl ContentTap for RecordingContentTap {
    fn piece(&mut self, bytes: &[u8]) {
        self.0.push(bytes);
    }
}
