//! Cost of polling tasks over HTTP: a finished one beside a plain call, and many open ones.

mod poller;

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::{Value, json};

use self::poller::{Poller, exchange, request};
use crate::{
    binary::{McpFlow, Target},
    listening::{Listening, Program, SERVE},
    peer::SETTLE_TIME,
    placement::{Cores, Placement},
    process::CpuTime,
    report::{self, Environment, Threshold, median, name},
};

/// Compare polls of a finished task with plain calls, and poll many open tasks
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Rounds of the comparison; medians are shown
    #[arg(long, value_name = "N", default_value = "9")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Keep-alive connections of the comparison
    #[arg(long, value_name = "N", default_value = "32")]
    connections: usize,

    /// Milliseconds of each side of a round
    #[arg(long, value_name = "N", default_value = "1000")]
    milliseconds: u64,

    /// Open tasks, of ten principals
    #[arg(long, value_name = "N", default_value = "10000")]
    tasks: usize,

    /// Clients that poll the open tasks
    #[arg(long, value_name = "N", default_value = "100")]
    clients: usize,

    /// Seconds for which each open task is polled once a second
    #[arg(long, value_name = "N", default_value = "10")]
    seconds: u64,

    /// Placement of the driver and the server, for the comparison
    #[arg(long, value_enum, default_value = "one-each")]
    cores: Cores,

    #[command(flatten)]
    mcp_flow: McpFlow,
}

impl Arguments {
    /// Measures, writes `tasks.json`, and returns the report.
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let target = Target::find()?;
        let mcp_flow = self.mcp_flow.locate(&target)?;
        let environment = Environment::describe()?;
        let stores = STORES.map(|store| self.measure(&target, &mcp_flow, store));
        let stores = stores.into_iter().collect::<anyhow::Result<_>>()?;
        let results = Results { environment, rounds: self.rounds, cores: self.cores, stores };
        let saved = report::save(&target, "tasks.json", &results)?;
        Ok(format!("{}\n{saved}", results.show()))
    }

    /// Measures a server with this store.
    fn measure(
        &self,
        target: &Target,
        mcp_flow: &Path,
        store: &'static str,
    ) -> anyhow::Result<StoreResults> {
        let start = |placement: Placement, folder: &Path| {
            eprintln!("{store}");
            Server::start(mcp_flow, folder, placement, store)
        };
        let sides = self.compare(target, |folder| start(self.cores.place()?, folder))?;
        let open = self.poll_open(target, |folder| start(Cores::Free.place()?, folder))?;
        let ratios = sides.iter().map(|[call, get]| call.calls_per_second / get.calls_per_second);
        let costs = sides.iter().map(|[call, get]| get.cpu_microseconds / call.cpu_microseconds);
        Ok(StoreResults {
            store,
            holds: [
                Threshold::new(
                    "tasks/get of a finished task / plain call, time per call",
                    1.5,
                    median(ratios.collect()),
                ),
                Threshold::new(
                    "tasks/get of a finished task / plain call, CPU per call",
                    1.5,
                    median(costs.collect()),
                ),
                Threshold::new(
                    "CPU of polling open tasks / two cores",
                    0.6,
                    open.share_of_two_cores,
                ),
            ],
            call: Side::median_of(sides.iter().map(|[call, _]| *call)),
            get: Side::median_of(sides.iter().map(|[_, get]| *get)),
            open,
        })
    }

    /// Measures plain calls and polls of a finished task in turn, on one server.
    fn compare(
        &self,
        target: &Target,
        start: impl FnOnce(&Path) -> anyhow::Result<Server>,
    ) -> anyhow::Result<Vec<[Side; 2]>> {
        let folder = target.scratch()?;
        fs::write(folder.join("flow.toml"), "")?;
        let server = start(&folder)?;
        let mut socket = server.connect()?;
        let id = finished_task(&mut socket)?;
        let arguments = json!({"name": "calculator.add", "arguments": {"a": 1, "b": 2}});
        let call = request(&server.host(), None, "tools/call", "calculator.add", arguments);
        let get = request(&server.host(), None, "tasks/get", &id, json!({"taskId": id}));
        let duration = Duration::from_millis(self.milliseconds);
        let measure = |request: &[u8]| -> anyhow::Result<Side> {
            let sockets = (0..self.connections).map(|_| server.connect());
            let mut poller = Poller::new(sockets.collect::<anyhow::Result<_>>()?)?;
            poller.drive(|_, _| request, Duration::ZERO, WARM_UP)?;
            let (before, begun) = (server.cpu()?, Instant::now());
            let count = poller.drive(|_, _| request, Duration::ZERO, duration)?;
            let elapsed = begun.elapsed();
            std::thread::sleep(SETTLE_TIME);
            Ok(Side::new(count, elapsed, server.cpu()?.since(before)))
        };
        let mut sides = Vec::new();
        for round in 1..=self.rounds {
            eprintln!("round {round} of {}", self.rounds);
            sides.push([measure(&call)?, measure(&get)?]);
        }
        Ok(sides)
    }

    /// Opens tasks, and polls each once a second.
    fn poll_open(
        &self,
        target: &Target,
        start: impl FnOnce(&Path) -> anyhow::Result<Server>,
    ) -> anyhow::Result<Open> {
        let folder = target.scratch()?;
        let tokens: Vec<String> = (0..PRINCIPALS).map(|one| format!("{TOKEN}{one}")).collect();
        let lines = tokens.iter().enumerate().map(|(one, token)| format!("user{one}:{token}\n"));
        fs::write(folder.join("tokens"), lines.collect::<String>())?;
        fs::write(folder.join("flow.toml"), "[identity]\ntoken_file = \"tokens\"\n")?;
        let server = start(&folder)?;
        let clients = self.clients.max(1);
        let mut polls: Vec<Vec<Vec<u8>>> = vec![Vec::new(); clients];
        let mut socket = server.connect()?;
        for number in 0..self.tasks {
            let client = number % clients;
            let token = &tokens[client % PRINCIPALS];
            // A session that waits for an answer is an open task.
            let start = json!({"toolName": "register"});
            let start = request(&server.host(), Some(token), "interaction.start", "", start);
            let started = exchange(&mut socket, &start)?;
            let id = started["result"]["sessionId"].as_str();
            let id = id.with_context(|| format!("no session was started: {started}"))?;
            let get = json!({"taskId": id});
            polls[client].push(request(&server.host(), Some(token), "tasks/get", id, get));
        }
        // The sessions leave memory, as those of people who take their time do.
        std::thread::sleep(LINGER);
        let sockets = (0..clients).map(|_| server.connect());
        let mut poller = Poller::new(sockets.collect::<anyhow::Result<_>>()?)?;
        let most = polls.iter().map(Vec::len).max().unwrap_or(1).max(1);
        let interval = Duration::from_secs(1) / u32::try_from(most)?;
        let mut next = |client: usize, number: usize| -> &[u8] {
            let own = &polls[client];
            &own[number % own.len()]
        };
        poller.drive(&mut next, interval, Duration::from_secs(1))?;
        let (before, begun) = (server.cpu()?, Instant::now());
        let count = poller.drive(&mut next, interval, Duration::from_secs(self.seconds))?;
        let (cpu, elapsed) = (server.cpu()?.since(before), begun.elapsed());
        let polls_per_second = count as f64 / elapsed.as_secs_f64();
        ensure!(
            polls_per_second > 0.9 * self.tasks as f64,
            "only {polls_per_second:.0} polls a second were answered; is the machine busy?"
        );
        Ok(Open {
            tasks: self.tasks,
            clients,
            polls_per_second,
            cpu_microseconds: cpu.as_secs_f64() * 1e6 / count as f64,
            share_of_two_cores: cpu.as_secs_f64() / elapsed.as_secs_f64() / 2.0,
        })
    }
}

/// The server under measurement.
struct Server {
    listening: Listening,
}

impl Server {
    fn start(
        mcp_flow: &Path,
        folder: &Path,
        placement: Placement,
        store: &str,
    ) -> anyhow::Result<Self> {
        let more = ["--config", "flow.toml", "--store", store];
        let arguments: Vec<_> = SERVE.iter().chain(&more).map(|word| (*word).to_owned()).collect();
        let program = Program { path: mcp_flow, arguments: &arguments, folder };
        Ok(Self { listening: Listening::start(program, placement)? })
    }

    fn host(&self) -> String {
        self.listening.address.to_string()
    }

    fn connect(&self) -> anyhow::Result<std::net::TcpStream> {
        let socket = std::net::TcpStream::connect(self.listening.address)?;
        socket.set_nodelay(true)?;
        Ok(socket)
    }

    fn cpu(&self) -> anyhow::Result<CpuTime> {
        CpuTime::of(self.listening.peer.process())
    }
}

/// Runs a task to its end, and returns its id.
fn finished_task(socket: &mut std::net::TcpStream) -> anyhow::Result<String> {
    let host = socket.peer_addr()?.to_string();
    let start = json!({"toolName": "register",
        "initialParams": {"name": "Ada Lovelace", "email": "ada@example.com"}});
    let started = exchange(socket, &request(&host, None, "interaction.start", "", start))?;
    let id = started["result"]["sessionId"].as_str();
    let id = id.with_context(|| format!("no session was started: {started}"))?.to_owned();
    let get = request(&host, None, "tasks/get", &id, json!({"taskId": id}));
    let task = exchange(socket, &get)?;
    ensure!(task["result"]["status"] == "completed", "the task has not ended: {task}");
    Ok(id)
}

/// Throughput and cost of one kind of request.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
struct Side {
    calls_per_second: f64,
    cpu_microseconds: f64,
}

impl Side {
    fn new(count: usize, elapsed: Duration, cpu: Duration) -> Self {
        Self {
            calls_per_second: count as f64 / elapsed.as_secs_f64(),
            cpu_microseconds: cpu.as_secs_f64() * 1e6 / count as f64,
        }
    }

    fn median_of(sides: impl Iterator<Item = Self> + Clone) -> Self {
        Self {
            calls_per_second: median(sides.clone().map(|side| side.calls_per_second).collect()),
            cpu_microseconds: median(sides.map(|side| side.cpu_microseconds).collect()),
        }
    }
}

/// Polling of open tasks.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Open {
    tasks: usize,
    clients: usize,
    polls_per_second: f64,
    cpu_microseconds: f64,
    share_of_two_cores: f64,
}

/// Results of a server with one kind of store.
#[derive(Serialize)]
struct StoreResults {
    store: &'static str,
    call: Side,
    get: Side,
    open: Open,
    holds: [Threshold; 3],
}

#[derive(Serialize)]
struct Results {
    environment: Environment,
    rounds: u32,
    cores: Cores,
    stores: Vec<StoreResults>,
}

impl StoreResults {
    fn show(&self) -> String {
        let Open { tasks, clients, polls_per_second, cpu_microseconds, .. } = &self.open;
        let row = |what: &str, per_second: f64, cpu: f64| {
            [what.to_owned(), format!("{per_second:.0}"), format!("{cpu:.1}")]
        };
        let rows = [
            ["request", "per second", "CPU us"].map(str::to_owned),
            row("tools/call, small", self.call.calls_per_second, self.call.cpu_microseconds),
            row("tasks/get, finished", self.get.calls_per_second, self.get.cpu_microseconds),
            row("tasks/get, open", *polls_per_second, *cpu_microseconds),
        ];
        let holds: Vec<String> = self.holds.iter().map(Threshold::to_string).collect();
        format!(
            "{}; {tasks} open tasks polled once a second by {clients} clients\n{}\n{}",
            self.store,
            report::table(&rows),
            holds.join("\n"),
        )
    }
}

impl Results {
    fn show(&self) -> String {
        let stores: Vec<String> = self.stores.iter().map(StoreResults::show).collect();
        format!(
            "tasks over HTTP, {}, median of {} rounds\n{}\n\n{}",
            name(&self.cores),
            self.rounds,
            self.environment,
            stores.join("\n\n"),
        )
    }
}

/// `_meta` of a client that supports tasks.
fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":
            {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    })
}

/// Stores that are measured: the default, which several processes may share, and that of one process.
const STORES: [&str; 2] = ["sqlite:journal.db", "redb:journal.redb"];

/// Number of principals: each may have a limited number of sessions.
const PRINCIPALS: usize = 10;

/// Time after which no waiting session is in memory.
const LINGER: Duration = Duration::from_secs(13);

const WARM_UP: Duration = Duration::from_millis(300);

const TOKEN: &str = "bench-0123456789abcdef0123456789abcdef";
