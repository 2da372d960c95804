//! A file larger than memory sent to a reader slower than its server, and the memory of both.
//!
//! The reader is a separate process, so that its memory can be measured.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use ring::digest::{self, SHA256};
use serde::{Deserialize, Serialize};

use super::{
    client::{Dialer, Kind},
    identity::Identity,
};
use crate::{binary::Target, process::Memory, report::megabytes};

/// The subcommand that starts the reader.
const COMMAND: &str = "read-slowly";

/// The server and the file to read.
#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    server: SocketAddr,
    certificate: PathBuf,
    file: String,
}

/// The reader's result.
#[derive(Debug, Deserialize, Serialize)]
struct ReaderResult {
    bytes: u64,
    sha256: String,
    growth: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Slow {
    pub(super) megabytes: u64,
    pub(super) server_growth_megabytes: f64,
    pub(super) reader_growth_megabytes: f64,
}

/// Sends a file to a slow reader and measures the memory of both.
pub(super) fn measure(
    target: &Target,
    (server, process): (SocketAddr, u32),
    identity: &Identity,
    file: &Path,
) -> anyhow::Result<Slow> {
    let name = file.file_name().and_then(|name| name.to_str()).context("a file has a name")?;
    let before = Memory::settled(process)?;
    let mut reader = Command::new(&target.benches);
    reader.arg(COMMAND).arg(server.to_string()).args([identity.certificate()?, name]);
    let output = reader.stderr(Stdio::inherit()).output().context("cannot start the reader")?;
    ensure!(output.status.success(), "the reader failed; its own words are above");
    let result: ReaderResult =
        serde_json::from_slice(&output.stdout).context("the reader printed nothing")?;
    let growth = Memory::of(process)?.peak.saturating_sub(before.resident);
    let bytes = file.metadata()?.len();
    ensure!(result.bytes == bytes, "{} bytes came instead of {bytes}", result.bytes);
    ensure!(result.sha256 == sha256(file)?, "what came is not what is in the file");
    Ok(Slow {
        megabytes: bytes / 1_000_000,
        server_growth_megabytes: megabytes(growth),
        reader_growth_megabytes: megabytes(result.growth),
    })
}

/// The reader: it pauses as long as each read took.
pub(crate) fn read(settings: Settings) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let identity = Identity::of_server(settings.certificate);
        let dialer = Dialer::new(Kind::McpFlow, settings.server, &identity)?;
        let mut client = dialer.connect().await?;
        client.ping().await?;
        let before = Memory::of(std::process::id())?.resident;
        client.ask_for(&settings.file).await?;
        let mut stream = client.session.accept_uni().await?;
        stream.read_exact(&mut [0; 8]).await?;
        let (mut context, mut bytes, mut since_rest) = (digest::Context::new(&SHA256), 0, 0);
        while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
            context.update(&chunk.bytes);
            bytes += chunk.bytes.len() as u64;
            since_rest += chunk.bytes.len();
            if since_rest > BETWEEN_RESTS {
                since_rest = 0;
                tokio::time::sleep(SETTLE_TIME).await;
            }
        }
        let growth = Memory::of(std::process::id())?.peak.saturating_sub(before);
        anyhow::Ok(ReaderResult { bytes, sha256: hexadecimal(context), growth })
    })?;
    print(&result)
}

/// Creates a sparse file of this many megabytes, whose hash shows any lost, duplicated or misplaced
/// part.
pub(super) fn make_file(folder: &Path, megabytes: u64) -> anyhow::Result<PathBuf> {
    let path = folder.join("slow.bin");
    let mut file = File::create(&path)?;
    file.set_len(megabytes * 1_000_000)?;
    for number in 0..megabytes {
        file.seek(SeekFrom::Start(number * 1_000_000))?;
        file.write_all(&number.to_be_bytes())?;
    }
    Ok(path)
}

fn sha256(path: &Path) -> anyhow::Result<String> {
    let (mut file, mut context) = (File::open(path)?, digest::Context::new(&SHA256));
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hexadecimal(context)),
            read => context.update(&piece[..read]),
        }
    }
}

fn hexadecimal(context: digest::Context) -> String {
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[expect(clippy::disallowed_methods, reason = "the parent process waits for this line")]
fn print(result: &ReaderResult) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{}", serde_json::to_string(result)?)?)
}

/// At most some 400 MB per second, which is less than a server can send.
const BETWEEN_RESTS: usize = 1 << 20;
const SETTLE_TIME: Duration = Duration::from_millis(2);
