//! Download of a large file by a link, compared with a bare handler, and the memory of thousands of
//! subscriptions.

pub(crate) mod download;
mod watching;

use std::{fs, path::Path};

use anyhow::Context;
use clap::builder::RangedU64ValueParser;
use serde::Serialize;

use self::{
    download::{Download, Fetched},
    watching::Watching,
};
use crate::{
    binary::{McpFlow, Target},
    listening::{Listening, Program, SERVE},
    placement::Cores,
    report::{self, Environment, Threshold, median, megabytes},
    servers::files,
};

/// Measure a large download and many subscriptions
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Size of the file to download, in megabytes
    #[arg(long, value_name = "N", default_value = "1000")]
    #[arg(value_parser = RangedU64ValueParser::<u64>::new().range(2..=100_000))]
    megabytes: u64,

    /// Number of alternating downloads from each server
    #[arg(long, value_name = "N", default_value = "5")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=100))]
    rounds: usize,

    /// Files to subscribe to
    #[arg(long, value_name = "N", default_value = "10000")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    subscriptions: usize,

    #[command(flatten)]
    mcp_flow: McpFlow,
}

impl Arguments {
    /// Measures, writes `resources.json`, and returns the report.
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let target = Target::find()?;
        let mcp_flow = self.mcp_flow.locate(&target)?;
        let folder = target.scratch()?;
        let bulk = self.download(&target, &mcp_flow, &folder)?;
        let watching = self.watch(&mcp_flow, &folder)?;
        let results = Results {
            environment: Environment::describe()?,
            megabytes: self.megabytes,
            subscriptions: self.subscriptions,
            holds: vec![
                Threshold::at_least("download MB/s, mcp-flow / bare hyper", 0.8, bulk.ratio),
                Threshold::new(
                    "mcp-flow RSS growth while downloading, MB",
                    32.0,
                    bulk.growth_megabytes,
                ),
                Threshold::new(
                    "mcp-flow RSS growth with all subscriptions, MB",
                    100.0,
                    watching.growth_megabytes,
                ),
                Threshold::new(
                    "longest time from a write to its notification, ms",
                    200.0,
                    watching.longest_ms,
                ),
            ],
            bulk,
            watching,
        };
        let saved = report::save(&target, "resources.json", &results)?;
        // Frees a gigabyte of disk space.
        fs::remove_dir_all(&folder).context("cannot remove what was downloaded")?;
        Ok(format!("{}\n{saved}", results.show()))
    }

    fn download(&self, target: &Target, mcp_flow: &Path, folder: &Path) -> anyhow::Result<Bulk> {
        let root = folder.join("bulk");
        let file = download::make_file(&root, self.megabytes)?;
        let path = |path: &Path| path.to_str().map(str::to_owned).context("a path is no text");
        let bare = [files::COMMAND.to_owned(), path(&file)?];
        let ours = SERVE.map(str::to_owned).into_iter().chain(["--root".to_owned(), path(&root)?]);
        let ours: Vec<_> = ours.collect();
        let start = |program, arguments: &[String]| {
            let program = Program { path: program, arguments, folder };
            Listening::start(program, Cores::Free.place()?)
        };
        let (bare, ours) = (start(&target.benches, &bare)?, start(mcp_flow, &ours)?);
        let ours = Download::by_link(&ours, &file)?;
        let bare = Download::direct(&bare)?;
        let (mut bare_rounds, mut our_rounds) = (Vec::new(), Vec::new());
        for round in 1..=self.rounds {
            eprintln!("downloading {} MB twice, round {round}", self.megabytes);
            let expected = self.megabytes * 1_000_000;
            bare_rounds.push(bare.fetch(expected)?);
            our_rounds.push(ours.fetch(expected)?);
        }
        let speed = |rounds: &[Fetched]| median(rounds.iter().map(Fetched::speed).collect());
        let (bare_speed, our_speed) = (speed(&bare_rounds), speed(&our_rounds));
        Ok(Bulk {
            bare_megabytes_per_second: bare_speed,
            megabytes_per_second: our_speed,
            ratio: our_speed / bare_speed,
            bare_growth_megabytes: megabytes(bare.growth()?),
            growth_megabytes: megabytes(ours.growth()?),
        })
    }

    fn watch(&self, mcp_flow: &Path, folder: &Path) -> anyhow::Result<Subscribed> {
        let root = folder.join("watched");
        let watching = Watching::start(mcp_flow, folder, &root, self.subscriptions)?;
        eprintln!("subscribing to {} files", self.subscriptions);
        watching.measure()
    }
}

#[derive(Serialize)]
struct Results {
    environment: Environment,
    megabytes: u64,
    subscriptions: usize,
    bulk: Bulk,
    watching: Subscribed,
    holds: Vec<Threshold>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bulk {
    bare_megabytes_per_second: f64,
    megabytes_per_second: f64,
    ratio: f64,
    bare_growth_megabytes: f64,
    growth_megabytes: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Subscribed {
    growth_megabytes: f64,
    median_ms: f64,
    longest_ms: f64,
}

impl Results {
    fn show(&self) -> String {
        let Self { bulk, watching, .. } = self;
        let rows = [
            ["server".to_owned(), "MB/s".to_owned(), "RSS growth MB".to_owned()],
            [
                "bare hyper".to_owned(),
                format!("{:.0}", bulk.bare_megabytes_per_second),
                format!("{:.1}", bulk.bare_growth_megabytes),
            ],
            [
                "mcp-flow, by link".to_owned(),
                format!("{:.0}", bulk.megabytes_per_second),
                format!("{:.1}", bulk.growth_megabytes),
            ],
        ];
        let holds: Vec<String> = self.holds.iter().map(Threshold::to_string).collect();
        format!(
            "{} MB downloaded, {} files subscribed to, {}\n\n{}\nsubscriptions: RSS growth {:.1} \
             MB; from a write to its notification {:.0} ms, at most {:.0} ms\n\n{}",
            self.megabytes,
            self.subscriptions,
            self.environment,
            report::table(&rows),
            watching.growth_megabytes,
            watching.median_ms,
            watching.longest_ms,
            holds.join("\n"),
        )
    }
}
