//! A PostgreSQL server for tests: the one of the system, in a directory of its own.
//!
//! It listens on a Unix socket only, so it needs no port. It is started once per test program and
//! ends with it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A running server.
#[derive(Debug)]
pub struct PostgresServer {
    folder: PathBuf,
    settings: &'static [&'static str],
    server: Mutex<Running>,
}

/// The process of a server, and one that ends it and removes its directory when this program is
/// gone: its input is closed then.
#[derive(Debug)]
struct Running {
    server: Child,
    janitor: Child,
}

impl PostgresServer {
    /// Returns the server that all tests of this program share. It ends with the program.
    pub fn shared() -> &'static Self {
        static SERVER: OnceLock<PostgresServer> = OnceLock::new();
        SERVER.get_or_init(Self::start)
    }

    /// Starts a server that survives the end of its processes, but not of the machine: other tests
    /// keep the disk busy.
    pub fn start() -> Self {
        Self::start_with(&["-c", "fsync=off"])
    }

    /// Starts a server that writes to the disk, to be measured.
    pub fn start_durable() -> Self {
        Self::start_with(&[])
    }

    fn start_with(settings: &'static [&'static str]) -> Self {
        let folder = tempfile::tempdir().expect("a directory can be created").keep();
        let data = folder.join("data");
        let made = command("initdb")
            .args(["-U", "flow", "--auth=trust", "--no-sync", "--locale=C", "-E", "UTF8", "-D"])
            .arg(&data)
            .stdout(Stdio::null())
            .output()
            .expect("initdb can be started; install Debian's package postgresql");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let server = Mutex::new(spawn(&folder, settings));
        let server = Self { folder, settings, server };
        server.wait_ready();
        server
    }

    /// Kills the server without warning, and starts it again.
    pub fn restart(&self) {
        let mut running = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        // The janitor of the old process must not remove the directory of the new one.
        let _ = running.janitor.kill();
        let _ = running.janitor.wait();
        // The postmaster's children notice that it is gone.
        let _ = running.server.kill();
        let _ = running.server.wait();
        let _ = std::fs::remove_file(self.folder.join("data/postmaster.pid"));
        *running = spawn(&self.folder, self.settings);
        drop(running);
        self.wait_ready();
    }

    /// Creates an empty database, and returns its URL.
    pub fn create_database(&self) -> String {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        self.execute(&self.url("postgres"), &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// Runs statements as the superuser.
    pub fn execute(&self, url: &str, statements: &str) {
        let done = Command::new("psql")
            .args(["--quiet", "--no-psqlrc", "-v", "ON_ERROR_STOP=1", url, "-c", statements])
            .output()
            .expect("psql can be started");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// Returns the path of the socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(".s.PGSQL.5432")
    }

    /// Returns the URL of a database that leads through a TCP relay.
    pub fn through(url: &str, relay: std::net::SocketAddr) -> String {
        let (base, _) = url.split_once('?').unwrap_or((url, ""));
        format!("{}?sslmode=disable", base.replace("flow@", &format!("flow@{relay}")))
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://flow@/{database}?host={}", self.folder.display())
    }

    fn wait_ready(&self) {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let url = self.url("postgres");
            let ready = Command::new("psql")
                .args(["--quiet", "--no-psqlrc", &url, "-c", "SELECT 1"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .expect("psql can be started; install Debian's package postgresql");
            if ready.success() {
                return;
            }
            let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < until, "PostgreSQL is not ready after a minute: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        let running = self.server.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Closes its input.
        drop(running.janitor.stdin.take());
        let _ = running.janitor.wait();
        let _ = running.server.wait();
    }
}

fn spawn(folder: &Path, settings: &[&str]) -> Running {
    let log = std::fs::File::create(folder.join("log")).expect("the directory can be written");
    let mut server = command("postgres");
    server
        .arg("-D")
        .arg(folder.join("data"))
        .arg("-k")
        .arg(folder)
        .args(["-c", "listen_addresses=", "-c", "max_wal_size=64MB", "-c", "max_connections=200"])
        .args(settings)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    let server = server.spawn();
    let server = server.expect("postgres can be started; install Debian's package postgresql");
    let janitor = Command::new("sh")
        .args(["-c", "cat > /dev/null; kill -QUIT $1; sleep 0.5; rm -rf \"$2\"", "janitor"])
        .arg(server.id().to_string())
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell can be started");
    Running { server, janitor }
}

/// A program of PostgreSQL. It refuses to run as root, so that it sees itself as another user then.
fn command(program: &str) -> Command {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|of| {
        use std::os::unix::fs::MetadataExt;
        of.uid() == 0
    });
    if !is_root {
        return Command::new(find(program));
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-user=1000", "--map-group=1000"]).arg(find(program));
    command
}

/// Finds a program of PostgreSQL in the path, or where Debian installs it.
pub fn find(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = debian.map(|version| version.path().join("bin"));
    let found = std::env::split_paths(&path).chain(debian).map(|folder| folder.join(program));
    found
        .into_iter()
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("{program} is missing; install Debian's package postgresql"))
}
