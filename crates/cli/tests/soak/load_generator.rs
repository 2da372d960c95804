//! Load generator: starts clients, kills them, and collects their reports.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::soak::assignment::{Assignment, Kind};
use crate::soak::counts::Counts;
use crate::soak::files;
use crate::soak::measurements::Measurements;
use crate::soak::server::Server;

pub(crate) struct LoadGenerator {
    endpoints: Value,
    folder: PathBuf,
    /// One worker for each kind of client, with its own random choices.
    workers: Vec<(Kind, fastrand::Rng)>,
    last: u32,
}

/// Results of the clients that one worker started in turn.
#[derive(Default)]
struct WorkerResults {
    clients: u64,
    kills: u64,
    counts: Counts,
}

impl LoadGenerator {
    pub(crate) fn new(server: &Server, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let workers = Kind::all().map(|kind| (kind, random.fork())).collect();
        let (endpoints, folder) = (server.endpoints.clone(), server.folder().to_owned());
        Self { endpoints, folder, workers, last: 0 }
    }

    /// Starts and ends clients for a time. None is left afterwards.
    pub(crate) async fn run(&mut self, time: Duration, measurements: &mut Measurements) {
        let end = Instant::now() + time;
        let mut workers = std::mem::take(&mut self.workers);
        let mut runs = Vec::new();
        for (kind, random) in &mut workers {
            self.last += MAX_CLIENTS_PER_ROUND;
            let assignment = Assignment {
                kind: *kind,
                number: self.last,
                seed: 0,
                endpoints: self.endpoints.clone(),
                folder: self.folder.clone(),
            };
            runs.push(run_clients(assignment, random, end));
        }
        let changing = change_continuously(&self.folder);
        let ended = tokio::select! {
            ended = join_all(runs) => ended,
            () = changing => unreachable!("the loop is endless"),
        };
        for WorkerResults { clients, kills, counts } in ended {
            measurements.clients += clients;
            measurements.kills += kills;
            measurements.counts += counts;
        }
        self.workers = workers;
    }
}

/// Changes the file that clients subscribe to, continuously.
async fn change_continuously(folder: &Path) {
    for number in 1.. {
        files::change(folder, number);
        sleep(CHANGE_INTERVAL).await;
    }
}

/// Runs one client after the other.
async fn run_clients(
    mut assignment: Assignment,
    random: &mut fastrand::Rng,
    end: Instant,
) -> WorkerResults {
    let mut results = WorkerResults::default();
    while Instant::now() < end {
        assignment.number += 1;
        assignment.seed = random.u64(..);
        let life = Duration::from_millis(random.u64(..MAX_LIFETIME));
        let is_killed = random.u32(..10) < KILLED_OF_TEN;
        let mut client = start(&assignment);
        results.clients += 1;
        let stdin = client.stdin.take();
        let listening = tokio::spawn(listen(client.stderr.take()));
        let early = timeout(life.min(end.saturating_duration_since(Instant::now())), client.wait());
        if let Ok(ended) = early.await {
            let said = listening.await.unwrap().1;
            panic!("{:?} ended by itself ({ended:?}): {said}", assignment.kind);
        }
        if is_killed {
            client.kill().await.unwrap();
            results.kills += 1;
        }
        drop(stdin);
        let ended = timeout(CLEANUP_TIMEOUT, client.wait()).await;
        let (counts, said) = listening.await.unwrap();
        let ended = ended.unwrap_or_else(|_| panic!("{:?} does not end: {said}", assignment.kind));
        // A client that failed just before it was to be killed has failed.
        let killed = |status: &ExitStatus| is_killed && status.signal().is_some();
        let is_well = ended.as_ref().is_ok_and(|status| status.success() || killed(status));
        assert!(is_well, "{:?} failed ({ended:?}): {said}", assignment.kind);
        results.counts += counts;
    }
    results
}

/// Starts this test as a client.
fn start(assignment: &Assignment) -> Child {
    let (name, value) = assignment.variable();
    Command::new(std::env::current_exe().unwrap())
        .args([
            "soak::disconnected_clients_leave_nothing_behind",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(name, value)
        // Files that a killed client leaves are deleted with the directory of the run.
        .env("TMPDIR", files::stdio_folder(&assignment.folder))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Adds up the counts that a client reports, and collects its other output.
async fn listen(errors: Option<impl tokio::io::AsyncRead + Unpin>) -> (Counts, String) {
    let mut lines = BufReader::new(errors.unwrap()).lines();
    let (mut counts, mut said) = (Counts::default(), String::new());
    while let Ok(Some(line)) = lines.next_line().await {
        match Counts::read(&line) {
            Some(more) => counts += more,
            None => said = said + &line + "\n",
        }
    }
    (counts, said)
}

/// In milliseconds. Some clients are killed before they have connected.
const MAX_LIFETIME: u64 = 4_000;
const KILLED_OF_TEN: u32 = 6;

/// More than one worker can start in a round.
const MAX_CLIENTS_PER_ROUND: u32 = 100_000;

const CHANGE_INTERVAL: Duration = Duration::from_millis(100);
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(90);
