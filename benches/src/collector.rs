//! A collector of telemetry that reads and discards: the cheapest there can be.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A collector on a free port, until the program ends.
pub(crate) struct Collector {
    pub(crate) endpoint: String,
    bytes: Arc<AtomicU64>,
}

impl Collector {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let bytes = Arc::<AtomicU64>::default();
        let counted = bytes.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counted = counted.clone();
                std::thread::spawn(move || drop(serve(stream, &counted)));
            }
        });
        Ok(Self { endpoint, bytes })
    }

    /// Bytes of telemetry so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

fn serve(stream: TcpStream, counted: &AtomicU64) -> std::io::Result<()> {
    let mut answers = stream.try_clone()?;
    let mut requests = BufReader::with_capacity(256 * 1024, stream);
    loop {
        let mut length = 0;
        let mut line = String::new();
        loop {
            line.clear();
            if requests.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line == "\r\n" {
                break;
            }
        }
        std::io::copy(&mut (&mut requests).take(length), &mut std::io::sink())?;
        counted.fetch_add(length, Ordering::Relaxed);
        answers.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
    }
}
