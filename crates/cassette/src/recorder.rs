//! Writes a cassette beside the traffic.
//!
//! Relays hand over pieces and go on; a thread parses, masks and writes them. What waits is bounded by
//! bytes: a disk that is slower than the traffic slows it down, and one that is full ends the recording,
//! not the traffic.

use std::collections::VecDeque;
use std::fs::{File, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::answers::MessageMasker;
use crate::content::RecordedContent;
use crate::format::{Cassette, CassetteHeader, Reference, Side, VERSION};
use crate::large::id_of;
use crate::mask::Masker;
use crate::tap::{Collector, HEAD, MAX_MESSAGE, Piece, TAIL, is_kept, sha256};

/// Writes a cassette. A handle; clones write to the same file.
#[derive(Clone, Debug)]
pub struct Recorder {
    jobs: mpsc::UnboundedSender<Job>,
    permits: Arc<Semaphore>,
    begun: Instant,
    thread: Arc<Mutex<Option<JoinHandle<RecordingSummary>>>>,
    /// Messages that were left out since the last one that was recorded.
    lost: Arc<AtomicU64>,
    /// True if there was no room for the first line, so that nothing is recorded.
    is_stopped: bool,
}

/// Result of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingSummary {
    /// Messages written.
    pub messages: u64,
    /// The reason recording ended before the traffic did.
    pub stopped: Option<String>,
}

#[derive(Debug)]
enum Job {
    Piece { at: f64, from: Side, connection: u64, exchange: Option<u64>, piece: Piece, held: Hold },
    Download { at: f64, path: String, bytes: u64, sha256: String },
    Lost { at: f64, messages: u64 },
    End { at: f64 },
}

/// Bytes of the queue that a piece holds until it is written; `None` for the last piece of a body.
type Hold = Option<OwnedSemaphorePermit>;

/// A file to record to, locked against other recorders. What it holds is kept until recording begins.
#[derive(Debug)]
pub struct RecordingFile {
    file: Option<File>,
    path: PathBuf,
    /// True if there was no file before.
    is_new: bool,
}

impl RecordingFile {
    /// Opens or creates a file. A recording that is there already will be replaced, as when a host starts
    /// its server again; any other file is left alone, and so is one that another recorder writes to.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        options.read(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let (file, is_new) = match options.clone().create_new(true).open(path) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                (options.open(path)?, false)
            }
            Err(error) => return Err(error),
        };
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            let problem = "another program is recording to it; stop it, or name another file";
            return Err(io::Error::new(io::ErrorKind::WouldBlock, problem));
        }
        if file.metadata()?.len() > 0 && !Cassette::is_header(&file) {
            let problem = "the file there is no recording; name another";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, problem));
        }
        Ok(Self { file: Some(file), path: path.to_owned(), is_new })
    }

    /// Starts the thread that writes the file.
    pub fn begin(
        mut self,
        transport: &str,
        target: &str,
        masked: &[String],
    ) -> io::Result<Recorder> {
        let Some(mut file) = self.file.take() else { return Err(io::ErrorKind::NotFound.into()) };
        let begin = || {
            if file.metadata()?.len() > 0 {
                file.set_len(0)?;
            }
            file.rewind()?;
            Recorder::begin(file, transport, target, masked)
        };
        let begun = begin();
        // Without its first line a file is no recording.
        let is_empty = begun.as_ref().map_or(true, |recorder| recorder.is_stopped);
        if is_empty && self.is_new {
            let _ = std::fs::remove_file(&self.path);
        }
        begun
    }
}

impl Drop for RecordingFile {
    /// Removes what was created for a recording that did not begin.
    fn drop(&mut self) {
        let Some(file) = &self.file else { return };
        if self.is_new {
            let _ = std::fs::remove_file(&self.path);
        }
        let _ = file.unlock();
    }
}

impl Recorder {
    /// Opens a file and begins to record to it. See [`RecordingFile`].
    pub fn create(
        path: &Path,
        transport: &str,
        target: &str,
        masked: &[String],
    ) -> io::Result<Self> {
        RecordingFile::open(path)?.begin(transport, target, masked)
    }

    fn begin(file: File, transport: &str, target: &str, masked: &[String]) -> io::Result<Self> {
        let masker = Masker::new(masked);
        let header = CassetteHeader {
            cassette: VERSION,
            recorder: concat!("mcp-flow ", env!("CARGO_PKG_VERSION")).to_owned(),
            recorded: jiff::Timestamp::now().to_string(),
            transport: transport.to_owned(),
            target: masker.mask_text(target),
            masked: masked.to_vec(),
        };
        let mut tape = TapeFile { file, pending: Vec::new(), written: 0, ends: VecDeque::new() };
        let mut summary = RecordingSummary::default();
        if let Err(error) = tape.write(&serde_json::to_value(&header)?).and_then(|()| tape.flush())
        {
            if !is_without_room(&error) {
                return Err(error);
            }
            tracing::warn!(%error, "nothing is recorded; calls continue");
            stop(&mut tape, &mut summary, &error);
        }
        let is_stopped = summary.stopped.is_some();
        let (jobs, waiting) = mpsc::unbounded_channel();
        let thread = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || write_all(tape, waiting, MessageMasker::new(masker), summary))?;
        Ok(Self {
            jobs,
            permits: Arc::new(Semaphore::new(QUEUE_UNITS)),
            begun: Instant::now(),
            thread: Arc::new(Mutex::new(Some(thread))),
            lost: Arc::default(),
            is_stopped,
        })
    }

    /// Records a piece of traffic.
    pub(crate) async fn record(
        &self,
        from: Side,
        connection: u64,
        exchange: Option<u64>,
        piece: Piece,
    ) {
        self.record_at(self.now(), from, connection, exchange, piece).await;
    }

    /// Records a piece of traffic that was complete at a time.
    pub(crate) async fn record_at(
        &self,
        at: f64,
        from: Side,
        connection: u64,
        exchange: Option<u64>,
        piece: Piece,
    ) {
        let size = match &piece {
            Piece::Message(bytes) => bytes.len(),
            Piece::Large { head, tail, .. } => head.len() + tail.len(),
        };
        let needed = u32::try_from(size / UNIT + 1).unwrap_or(u32::MAX);
        let held = self.permits.clone().acquire_many_owned(needed.min(MAX_UNITS)).await.ok();
        let _ = self.jobs.send(Job::Piece { at, from, connection, exchange, piece, held });
    }

    /// Records the last piece of a body without waiting for a permit.
    pub(crate) fn record_at_once(
        &self,
        at: f64,
        from: Side,
        connection: u64,
        exchange: Option<u64>,
        piece: Piece,
    ) {
        let held = None;
        let _ = self.jobs.send(Job::Piece { at, from, connection, exchange, piece, held });
    }

    /// Records a whole message for someone who cannot wait. Where messages come faster than they can be
    /// written, they are left out, and the file says how many.
    pub fn record_message(&self, is_from_client: bool, connection: u64, message: &[u8]) {
        let needed = u32::try_from(message.len().min(MAX_MESSAGE) / UNIT + 1).unwrap_or(u32::MAX);
        let Ok(held) = self.permits.clone().try_acquire_many_owned(needed.min(MAX_UNITS)) else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let at = self.now();
        let messages = self.lost.swap(0, Ordering::Relaxed);
        if messages > 0 {
            let _ = self.jobs.send(Job::Lost { at, messages });
        }
        let mut collector = Collector::default();
        collector.push(message);
        let Some(piece) = collector.take() else { return };
        let from = if is_from_client { Side::Client } else { Side::Server };
        let (held, exchange) = (Some(held), None);
        let _ = self.jobs.send(Job::Piece { at, from, connection, exchange, piece, held });
    }

    /// Records content beside the messages, piece by piece, when it is dropped.
    pub fn record_content(&self, name: &str) -> RecordedContent {
        RecordedContent::new(self.clone(), name.to_owned())
    }

    /// Records a download beside the messages.
    pub(crate) fn record_download(&self, path: String, bytes: u64, sha256: String) {
        let _ = self.jobs.send(Job::Download { at: self.now(), path, bytes, sha256 });
    }

    /// Writes the end, and waits until everything is in the file.
    pub fn finish(&self) -> RecordingSummary {
        let (at, messages) = (self.now(), self.lost.swap(0, Ordering::Relaxed));
        if messages > 0 {
            let _ = self.jobs.send(Job::Lost { at, messages });
        }
        let _ = self.jobs.send(Job::End { at: self.now() });
        let thread = self.thread.lock().take();
        thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }

    /// Milliseconds since the beginning.
    pub(crate) fn now(&self) -> f64 {
        (self.begun.elapsed().as_secs_f64() * 1e6).round() / 1e3
    }
}

fn write_all(
    mut tape: TapeFile,
    mut waiting: mpsc::UnboundedReceiver<Job>,
    mut masker: MessageMasker,
    mut summary: RecordingSummary,
) -> RecordingSummary {
    loop {
        let job = match waiting.try_recv() {
            Ok(job) => Some(job),
            // The file is up to date whenever nothing waits.
            Err(_) => {
                if summary.stopped.is_none()
                    && let Err(error) = tape.flush()
                {
                    stop(&mut tape, &mut summary, &error);
                }
                waiting.blocking_recv()
            }
        };
        let Some(job) = job else { break };
        if let Job::End { at } = job {
            if summary.stopped.is_none() {
                let end = json!({"at": at, "end": {"messages": summary.messages}});
                if let Err(error) = tape.write(&end).and_then(|()| tape.flush()) {
                    stop(&mut tape, &mut summary, &error);
                }
            }
            break;
        }
        if summary.stopped.is_some() {
            continue;
        }
        let is_message = !matches!(job, Job::Lost { .. });
        let line = line(job, &mut masker);
        match tape.write(&line) {
            Ok(()) => summary.messages += u64::from(is_message),
            Err(error) => stop(&mut tape, &mut summary, &error),
        }
    }
    summary
}

/// Returns whether an error says that the disk, the quota or the file is full.
fn is_without_room(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Ends the recording, and says so in the file.
fn stop(tape: &mut TapeFile, summary: &mut RecordingSummary, error: &io::Error) {
    let reason = error.to_string();
    let lost = tape.mark_stopped(&reason);
    summary.messages = summary.messages.saturating_sub(lost);
    summary.stopped = Some(reason);
}

/// The line of a job.
fn line(job: Job, masker: &mut MessageMasker) -> Value {
    match job {
        Job::Piece { at, from, connection, exchange, piece, held } => {
            let mut line = json!({"at": at, "from": from, "connection": connection});
            if let Some(exchange) = exchange {
                line["exchange"] = exchange.into();
            }
            match reduce(piece) {
                Piece::Message(bytes) => match serde_json::from_slice::<Value>(&bytes) {
                    Ok(mut message) => {
                        masker.mask(from, connection, &mut message);
                        line["message"] = message;
                    }
                    Err(_) => {
                        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_TEXT)]);
                        line["text"] = masker.mask_text(connection, &text).into();
                    }
                },
                Piece::Large { head, tail, bytes, sha256 } => {
                    let id = id_of(&head, &tail);
                    let reference = Reference { bytes, sha256, id, path: None };
                    line["large"] = serde_json::to_value(reference).unwrap_or_default();
                }
            }
            drop(held);
            line
        }
        Job::Download { at, path, bytes, sha256 } => {
            let path = Some(masker.mask_text(1, &path));
            let reference = Reference { bytes, sha256, id: None, path };
            json!({"at": at, "from": "server", "download": reference})
        }
        Job::Lost { at, messages } => json!({"at": at, "lost": {"messages": messages}}),
        Job::End { at } => json!({"at": at}),
    }
}

/// Keeps the digest of a message that would take too much memory.
fn reduce(piece: Piece) -> Piece {
    match piece {
        Piece::Message(message) if !is_kept(&message) => Piece::Large {
            head: message[..message.len().min(HEAD)].to_vec(),
            tail: message[message.len().saturating_sub(TAIL)..].to_vec(),
            bytes: message.len() as u64,
            sha256: sha256(&message),
        },
        piece => piece,
    }
}

/// The file, and where its last lines end.
struct TapeFile {
    file: File,
    /// Lines that are not in the file yet.
    pending: Vec<u8>,
    /// Length of the file.
    written: u64,
    ends: VecDeque<u64>,
}

impl TapeFile {
    fn write(&mut self, line: &Value) -> io::Result<()> {
        serde_json::to_writer(&mut self.pending, line)?;
        self.pending.push(b'\n');
        if self.ends.len() >= KEPT_ENDS {
            self.ends.pop_front();
        }
        self.ends.push_back(self.written + self.pending.len() as u64);
        if self.pending.len() > MAX_PENDING { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.file.write_all(&pending)?;
        self.written += pending.len() as u64;
        Ok(())
    }

    /// Replaces the last lines, as many as needed, by the reason recording stopped. Returns the number
    /// of lines that are lost.
    fn mark_stopped(&mut self, reason: &str) -> u64 {
        self.pending.clear();
        let mut text = json!({"stopped": {"reason": reason}}).to_string();
        text.push('\n');
        let length = self.file.metadata().map_or(0, |about| about.len());
        let mut lost = 0;
        // Taking a line back frees space on a full disk.
        while let Some(end) = self.ends.pop_back() {
            if end > length {
                lost += 1;
                continue;
            }
            let replaced = self
                .file
                .set_len(end)
                .and_then(|()| self.file.seek(SeekFrom::Start(end)))
                .and_then(|_| self.file.write_all(text.as_bytes()));
            if replaced.is_ok() {
                break;
            }
            lost += 1;
        }
        lost
    }
}

impl Drop for TapeFile {
    /// Ends the lock, which a program that is being started may hold as well.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Bytes that are written together.
const MAX_PENDING: usize = 64 * 1024;

/// Bytes that one permit of the queue stands for.
const UNIT: usize = 256;

/// Limit on the queue, in units: 8 MiB.
const QUEUE_UNITS: usize = 8 * 1024 * 1024 / UNIT;

/// Most units that one piece takes.
const MAX_UNITS: u32 = 8 * 1024 * 1024 / 256;

/// Part of a text that is no message that is kept.
const MAX_TEXT: usize = 4096;

/// Lines that can be taken back when the disk is full.
const KEPT_ENDS: usize = 256;
