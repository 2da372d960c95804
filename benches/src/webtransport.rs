//! WebTransport compared with quinn alone in the same configuration, and with HTTP from the same
//! server.

mod client;
mod http;
mod identity;
mod idle;
mod results;
pub(crate) mod slow;

use std::{fs, net::SocketAddr, path::Path, time::Duration};

use anyhow::Context;
use clap::builder::RangedU64ValueParser;
use tokio::runtime::Builder;

use self::{
    client::{Dialer, Kind},
    http::{Downloads, Version},
    identity::Identity,
    results::{Results, Round, Sample, percentiles},
};
use crate::{
    binary::{McpFlow, Target},
    listening::{Listening, Program, SERVE},
    placement::Cores,
    report::{self, Environment},
    servers::quinn,
};

/// Measure round trips, bulk and memory over WebTransport
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Size of the file to download, in megabytes
    #[arg(long, value_name = "N", default_value = "200")]
    #[arg(value_parser = RangedU64ValueParser::<u64>::new().range(2..=100_000))]
    megabytes: u64,

    /// Duration of the ping measurement, in milliseconds
    #[arg(long, value_name = "N", default_value = "1000")]
    milliseconds: u64,

    /// Number of alternating rounds
    #[arg(long, value_name = "N", default_value = "5")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=100))]
    rounds: usize,

    /// Size of the file for the slow reader, in megabytes; 0 skips it
    #[arg(long, value_name = "N", default_value = "10000")]
    slow_megabytes: u64,

    /// Idle connections to hold open; 0 skips them
    #[arg(long, value_name = "N", default_value = "1000")]
    connections: usize,

    /// Streams for one client to open; 0 skips them
    #[arg(long, value_name = "N", default_value = "100000")]
    streams: usize,

    #[command(flatten)]
    mcp_flow: McpFlow,
}

impl Arguments {
    /// Measures, writes `webtransport.json`, and returns the report.
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let target = Target::find()?;
        let mcp_flow = self.mcp_flow.locate(&target)?;
        let folder = target.scratch()?;
        let root = folder.join("root");
        let file = crate::resources::download::make_file(&root, self.megabytes)?;
        let slow_file = slow::make_file(&root, self.slow_megabytes)?;
        let identity = Identity::make(&folder)?;
        let servers =
            Servers { target: &target, mcp_flow: &mcp_flow, folder: &folder, identity: &identity };
        let runtime = Builder::new_current_thread().enable_all().build()?;

        let (flow, raw) = (servers.mcp_flow(&root)?, servers.quinn(&file)?);
        let rounds = runtime.block_on(self.compare(&identity, flow.address, raw.address, &file))?;
        drop((flow, raw));

        let (mut slow, mut idle, mut flood) = (None, None, None);
        if self.slow_megabytes > 0 {
            eprintln!("sending {} MB to a slow reader", self.slow_megabytes);
            let server = servers.mcp_flow(&root)?;
            let endpoint = (server.address, server.peer.process());
            slow = Some(slow::measure(&target, endpoint, &identity, &slow_file)?);
        }
        if self.connections > 0 {
            eprintln!("opening {} connections", self.connections);
            let measure = |kind, server: &Listening| {
                runtime.block_on(async {
                    let dialer = Dialer::new(kind, server.address, &identity)?;
                    idle::hold_open(&dialer, server.peer.process(), self.connections).await
                })
            };
            idle = Some([
                measure(Kind::McpFlow, &servers.mcp_flow(&root)?)?,
                measure(Kind::Quinn, &servers.quinn(&file)?)?,
            ]);
        }
        if self.streams > 0 {
            eprintln!("opening {} streams", self.streams);
            let server = servers.mcp_flow(&root)?;
            flood = Some(runtime.block_on(async {
                let dialer = Dialer::new(Kind::McpFlow, server.address, &identity)?;
                idle::flood(&dialer, server.peer.process(), self.streams).await
            })?);
        }
        let environment = Environment::describe()?;
        let results = Results::of(environment, self.megabytes, rounds, slow, idle, flood);
        let saved = report::save(&target, "webtransport.json", &results)?;
        fs::remove_dir_all(&folder).context("cannot remove what was downloaded")?;
        Ok(format!("{}\n{saved}", results.show()))
    }

    async fn compare(
        &self,
        identity: &Identity,
        flow: SocketAddr,
        raw: SocketAddr,
        file: &Path,
    ) -> anyhow::Result<Vec<Round>> {
        let name = file.file_name().and_then(|name| name.to_str()).context("a file has a name")?;
        let downloads = Downloads::of(flow, identity, name).await?;
        let dialers = [(Kind::McpFlow, flow), (Kind::Quinn, raw)]
            .map(|(kind, server)| Dialer::new(kind, server, identity));
        let [flow, raw] = dialers;
        let (flow, raw) = (flow?, raw?);
        let mut rounds = Vec::new();
        for round in 1..=self.rounds {
            eprintln!("round {round}");
            // The order alternates between rounds.
            let (flow, raw) = if round % 2 == 0 {
                let flow = self.measure(&flow, name).await?;
                (flow, self.measure(&raw, name).await?)
            } else {
                let raw = self.measure(&raw, name).await?;
                (self.measure(&flow, name).await?, raw)
            };
            let bytes = self.megabytes * 1_000_000;
            rounds.push(Round {
                flow,
                raw,
                http1_megabytes_per_second: downloads.fetch(Version::Http1, bytes).await?,
                http2_megabytes_per_second: downloads.fetch(Version::Http2, bytes).await?,
            });
        }
        Ok(rounds)
    }

    /// Measures one server on a connection of its own that is warmed up.
    async fn measure(&self, dialer: &Dialer, file: &str) -> anyhow::Result<Sample> {
        let mut client = dialer.connect().await?;
        let (bytes, time) = (self.megabytes * 1_000_000, Duration::from_millis(self.milliseconds));
        client.pings_per_second(8, time / 4).await?;
        let one_in_flight = client.pings_per_second(1, time).await?;
        let many_in_flight = client.pings_per_second(IN_FLIGHT, time).await?;
        let one_stream = client.download(file, bytes, 1).await?;
        let many_streams = client.download(file, bytes, STREAMS).await?;
        let (p50, p99) = percentiles(client.pings_while_downloading(file, bytes).await?);
        let datagrams_per_second = client.datagrams_per_second(time).await?;
        client.session.close(0, b"measured");
        Ok(Sample {
            pings_per_second: one_in_flight,
            pings_per_second_64_in_flight: many_in_flight,
            megabytes_per_second: one_stream,
            megabytes_per_second_8_streams: many_streams,
            ping_in_bulk_p50_ms: p50,
            ping_in_bulk_p99_ms: p99,
            datagrams_per_second,
        })
    }
}

/// The programs to start, and their working directory.
struct Servers<'a> {
    target: &'a Target,
    mcp_flow: &'a Path,
    folder: &'a Path,
    identity: &'a Identity,
}

impl Servers<'_> {
    fn mcp_flow(&self, root: &Path) -> anyhow::Result<Listening> {
        let root = root.to_str().context("a path is no text")?;
        let (certificate, key) = (self.identity.certificate()?, self.identity.key()?);
        let secure = ["--tls-certificate", certificate, "--tls-key", key];
        let others = ["--store", "memory:", "--root", root];
        self.start(self.mcp_flow, &[&SERVE[..], &secure, &others].concat())
    }

    fn quinn(&self, file: &Path) -> anyhow::Result<Listening> {
        let file = file.to_str().context("a path is no text")?;
        let (certificate, key) = (self.identity.certificate()?, self.identity.key()?);
        self.start(&self.target.benches, &[quinn::COMMAND, file, certificate, key])
    }

    fn start(&self, path: &Path, arguments: &[&str]) -> anyhow::Result<Listening> {
        let arguments: Vec<_> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let program = Program { path, arguments: &arguments, folder: self.folder };
        Listening::start(program, Cores::Free.place()?)
    }
}

const IN_FLIGHT: usize = 64;
const STREAMS: usize = 8;
