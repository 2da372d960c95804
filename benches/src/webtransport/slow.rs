//! A file larger than memory to a reader slower than its server, and what that costs each of them.
//!
//! The reader is a process of its own, so that what it weighs is the reader.

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

/// What starts the reader.
const COMMAND: &str = "read-slowly";

/// Whom to read from, and what.
#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    server: SocketAddr,
    certificate: PathBuf,
    file: String,
}

/// What the reader says when it is done.
#[derive(Debug, Deserialize, Serialize)]
struct Seen {
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

/// Sends a file to a slow reader, and weighs both.
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
    let seen: Seen = serde_json::from_slice(&output.stdout).context("the reader said nothing")?;
    let growth = Memory::of(process)?.peak.saturating_sub(before.resident);
    let bytes = file.metadata()?.len();
    ensure!(seen.bytes == bytes, "{} bytes came instead of {bytes}", seen.bytes);
    ensure!(seen.sha256 == sha256(file)?, "what came is not what is in the file");
    Ok(Slow {
        megabytes: bytes / 1_000_000,
        server_growth_megabytes: megabytes(growth),
        reader_growth_megabytes: megabytes(seen.growth),
    })
}

/// The reader: it takes what comes in a moment, and then rests as long as that took.
pub(crate) fn read(settings: Settings) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let seen = runtime.block_on(async {
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
                tokio::time::sleep(REST).await;
            }
        }
        let growth = Memory::of(std::process::id())?.peak.saturating_sub(before);
        anyhow::Ok(Seen { bytes, sha256: hexadecimal(context), growth })
    })?;
    print(&seen)
}

/// Makes a file of so many megabytes that takes hardly any room, and of which no part may be lost,
/// doubled or moved without its hash telling.
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

#[expect(clippy::disallowed_methods, reason = "whoever started the reader waits for this line")]
fn print(seen: &Seen) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{}", serde_json::to_string(seen)?)?)
}

/// Together some 400 MB a second at most, which is less than a server can send.
const BETWEEN_RESTS: usize = 1 << 20;
const REST: Duration = Duration::from_millis(2);
