//! Starts clients, kills them, and takes in what they tell.

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
use crate::soak::figures::Figures;
use crate::soak::files;
use crate::soak::server::Server;
use crate::soak::tally::Tally;

pub(crate) struct Conductor {
    places: Value,
    folder: PathBuf,
    /// One place for each kind of client, with choices of its own.
    places_for_clients: Vec<(Kind, fastrand::Rng)>,
    last: u32,
}

/// What became of the clients that had one place, one after the other.
#[derive(Default)]
struct Succession {
    clients: u64,
    kills: u64,
    tally: Tally,
}

impl Conductor {
    pub(crate) fn new(server: &Server, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let places_for_clients = Kind::all().map(|kind| (kind, random.fork())).collect();
        let (places, folder) = (server.places.clone(), server.folder().to_owned());
        Self { places, folder, places_for_clients, last: 0 }
    }

    /// Has clients come and go for a time. None is left after that.
    pub(crate) async fn load(&mut self, time: Duration, figures: &mut Figures) {
        let end = Instant::now() + time;
        let mut places = std::mem::take(&mut self.places_for_clients);
        let mut successions = Vec::new();
        for (kind, random) in &mut places {
            self.last += CLIENTS_IN_A_ROUND;
            let assignment = Assignment {
                kind: *kind,
                number: self.last,
                seed: 0,
                places: self.places.clone(),
                folder: self.folder.clone(),
            };
            successions.push(succession(assignment, random, end));
        }
        let beating = beat(&self.folder);
        let ended = tokio::select! {
            ended = join_all(successions) => ended,
            () = beating => unreachable!("it beats for ever"),
        };
        for Succession { clients, kills, tally } in ended {
            figures.clients += clients;
            figures.kills += kills;
            figures.tally += tally;
        }
        self.places_for_clients = places;
    }
}

/// Changes what clients subscribe to, all the time.
async fn beat(folder: &Path) {
    for beat in 1.. {
        files::pulse(folder, beat);
        sleep(BEAT).await;
    }
}

/// One client after the other.
async fn succession(
    mut assignment: Assignment,
    random: &mut fastrand::Rng,
    end: Instant,
) -> Succession {
    let mut succession = Succession::default();
    while Instant::now() < end {
        assignment.number += 1;
        assignment.seed = random.u64(..);
        let life = Duration::from_millis(random.u64(..LONGEST_LIFE));
        let is_killed = random.u32(..10) < KILLED_OF_TEN;
        let mut client = start(&assignment);
        succession.clients += 1;
        let stdin = client.stdin.take();
        let listening = tokio::spawn(listen(client.stderr.take()));
        let early = timeout(life.min(end.saturating_duration_since(Instant::now())), client.wait());
        if let Ok(ended) = early.await {
            let said = listening.await.unwrap().1;
            panic!("{:?} ended by itself ({ended:?}): {said}", assignment.kind);
        }
        if is_killed {
            client.kill().await.unwrap();
            succession.kills += 1;
        }
        drop(stdin);
        let ended = timeout(PATIENCE, client.wait()).await;
        let (tally, said) = listening.await.unwrap();
        let ended = ended.unwrap_or_else(|_| panic!("{:?} does not end: {said}", assignment.kind));
        // One that failed just before it was to be killed has failed.
        let killed = |status: &ExitStatus| is_killed && status.signal().is_some();
        let is_well = ended.as_ref().is_ok_and(|status| status.success() || killed(status));
        assert!(is_well, "{:?} failed ({ended:?}): {said}", assignment.kind);
        succession.tally += tally;
    }
    succession
}

/// Starts this very test as a client.
fn start(assignment: &Assignment) -> Child {
    let (name, value) = assignment.variable();
    Command::new(std::env::current_exe().unwrap())
        .args([
            "soak::disconnected_clients_leave_nothing_behind",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(name, value)
        // What a client that is killed leaves lying about goes with the run.
        .env("TMPDIR", files::stdio_folder(&assignment.folder))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Adds up what a client tells, and keeps what else it says.
async fn listen(errors: Option<impl tokio::io::AsyncRead + Unpin>) -> (Tally, String) {
    let mut lines = BufReader::new(errors.unwrap()).lines();
    let (mut tally, mut said) = (Tally::default(), String::new());
    while let Ok(Some(line)) = lines.next_line().await {
        match Tally::read(&line) {
            Some(more) => tally += more,
            None => said = said + &line + "\n",
        }
    }
    (tally, said)
}

/// In milliseconds. Some do not live to see the server.
const LONGEST_LIFE: u64 = 4_000;
const KILLED_OF_TEN: u32 = 6;

/// More than one place can have in one round.
const CLIENTS_IN_A_ROUND: u32 = 100_000;

const BEAT: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(90);
