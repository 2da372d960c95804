//! `mcp-flow bridge`, `ui`, `dev` and `install` of the real program.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use mcp_flow::client::{Client, HttpOptions, Program, Revision, RevisionPolicy, connector};
use mcp_flow_testkit::http::Request;
use mcp_flow_testkit::wait::{output, within};
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Duration, timeout};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

const LIMIT: Duration = Duration::from_secs(60);

/// A process that prints its endpoints as JSON, killed when dropped.
pub(crate) struct Served {
    process: tokio::process::Child,
    pub(crate) endpoints: Value,
}

pub(crate) async fn serve(arguments: &[&str]) -> Served {
    serve_by(tokio::process::Command::new(PROGRAM).args(arguments)).await
}

async fn serve_by(command: &mut tokio::process::Command) -> Served {
    use tokio::io::{AsyncBufReadExt as _, BufReader};
    command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    timeout(LIMIT, out.read_line(&mut line)).await.expect("it prints its endpoints").unwrap();
    let endpoints = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
    Served { process: child, endpoints }
}

async fn connect_by_pipe(arguments: &[&str], revision: RevisionPolicy) -> Client {
    let program = Program::new(PROGRAM).arguments(arguments);
    let builder = Client::builder().with(|options| options.revision = revision);
    timeout(LIMIT, builder.connect(program)).await.expect("it connects").unwrap()
}

async fn add(client: &Client, a: i32, b: i32) -> String {
    let call = client.call_tool("calculator.add", json!({"a": a, "b": b})).into_future();
    timeout(LIMIT, call).await.expect("the call ends").unwrap().text()
}

/// A remote server over stdio, in both eras; the client stays connected when the server restarts.
#[tokio::test]
async fn a_remote_server_is_bridged_to_stdio() {
    let up = ["serve", "--json", "--store", "memory:", "--no-webtransport", "--listen"];
    let front = Front::start().await;
    let mut server = front.serve(&up).await;
    let url = format!("http://{}/mcp", front.address);
    let mut clients = Vec::new();
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let client = connect_by_pipe(&["bridge", &url], RevisionPolicy::Only(revision)).await;
        let about = client.server().await.unwrap();
        assert_eq!(about.implementation.name, "mcp-flow");
        let tools = client.tools().all().await.unwrap();
        assert!(tools.iter().any(|tool| tool.name == "calculator.add"), "without a prefix");
        assert_eq!(add(&client, 2, 3).await, "5");
        clients.push(client);
    }
    server.process.kill().await.unwrap();
    // Calls wait for the server. One that was sent in the moment in which it died may have been
    // processed, which only the caller can decide about.
    let calls = clients.iter().map(|client| async {
        loop {
            let call = client.call_tool("calculator.add", json!({"a": 3, "b": 4})).into_future();
            match timeout(LIMIT, call).await.expect("the call ends") {
                Ok(sum) => return sum.text(),
                Err(lost) => {
                    assert_eq!(lost.server().unwrap().name(), Some("UPSTREAM_LOST"), "{lost}");
                }
            }
        }
    });
    let calls = within("all calls", futures_util::future::join_all(calls));
    let (answers, _server) = tokio::join!(calls, front.serve(&up));
    assert_eq!(answers, ["7", "7"]);
    for client in clients {
        client.close().await;
    }
}

/// An address that outlives the server behind it, as that of a load balancer.
struct Front {
    address: SocketAddr,
    server: watch::Sender<Option<SocketAddr>>,
    _tasks: JoinSet<()>,
}

impl Front {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (server, behind) = watch::channel(None);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut incoming, _)) = listener.accept().await {
                let server: Option<SocketAddr> = *behind.borrow();
                connections.spawn(async move {
                    if let Some(server) = server
                        && let Ok(mut outgoing) = TcpStream::connect(server).await
                    {
                        // Either side may close first.
                        let _ = copy_bidirectional(&mut incoming, &mut outgoing).await;
                    }
                });
            }
        });
        Self { address, server, _tasks: tasks }
    }

    /// Starts a server behind the address.
    async fn serve(&self, arguments: &[&str]) -> Served {
        let server = serve(&[arguments, &["127.0.0.1:0"]].concat()).await;
        let address = server.endpoints["http"].as_str().unwrap();
        let address = address.trim_start_matches("http://").trim_end_matches('/');
        self.server.send_replace(Some(address.parse().unwrap()));
        server
    }
}

/// A stdio server over every HTTP transport.
#[tokio::test]
async fn a_command_is_bridged_to_http() {
    let listen = ["bridge", "--listen", "127.0.0.1:0", "--json", "--"];
    let bridge = serve(&[&listen[..], &[PROGRAM, "stdio", "--store", "memory:"]].concat()).await;
    for kind in ["mcp", "sse", "websocket"] {
        let url = bridge.endpoints[kind].as_str().unwrap();
        let client = Client::builder().connect_by(connector(url, &HttpOptions::new()).unwrap());
        let client = timeout(LIMIT, client).await.expect("it connects").unwrap();
        assert_eq!(add(&client, 2, 3).await, "5", "{kind}");
        client.close().await;
    }
}

/// The console for a stdio server, in the browser that is configured.
#[tokio::test]
async fn the_console_of_any_server_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let (browser, opened) = (folder.path().join("browser"), folder.path().join("opened"));
    let script = format!(
        "#!/bin/sh\nprintf %s \"$1\" > '{0}.new' && mv '{0}.new' '{0}'\n",
        opened.display()
    );
    std::fs::write(&browser, script).unwrap();
    std::fs::set_permissions(&browser, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let mut command = tokio::process::Command::new(PROGRAM);
    command.args(["ui", "--json", "--", PROGRAM, "stdio", "--store", "memory:"]);
    let ui = serve_by(command.env("BROWSER", &browser)).await;
    let page = ui.endpoints["http"].as_str().unwrap();
    let text = within("the page to be opened", async {
        loop {
            match std::fs::read_to_string(&opened) {
                Ok(text) => return text,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    });
    assert_eq!(text.await, page);
    let address = page.trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
    let request = Request::get("/");
    let response = within("the page", request.send(address));
    let page = response.await.text().await;
    assert!(page.contains("<title>MCP Flow</title>"), "{page}");
    let url = ui.endpoints["mcp"].as_str().unwrap();
    let client = Client::builder().connect_by(connector(url, &HttpOptions::new()).unwrap());
    let client = timeout(LIMIT, client).await.expect("it connects").unwrap();
    assert_eq!(add(&client, 2, 3).await, "5", "without a prefix");
    client.close().await;
}

/// A server that accepts connections or starts, but says nothing, is no reason to open a page.
#[test]
fn the_console_of_a_silent_server_is_not_opened() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/mcp", silent.local_addr().unwrap());
    let no_lists = SCRIPT.replace("\" in\n", "\" in *'\"method\":\"tools/list\"'*) continue;;\n");
    let closed = "http://127.0.0.1:1/mcp";
    for (target, named) in [
        (&["--", "sleep", "200"][..], "sleep"),
        (&[&address], &address),
        (&["--", "sh", "-c", &no_lists], "sh"),
        (&[closed], closed),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tool"), "name=hang\n").unwrap();
        let mut command = Command::new(PROGRAM);
        command.args(["ui", "--no-browser", "--json", "--timeout", "1"]).args(target);
        let ended =
            output(command.current_dir(folder.path()).env("XDG_CONFIG_HOME", folder.path()));
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(3), "{target:?}: {text}");
        assert!(text.contains(named) && ended.stdout.is_empty(), "{target:?}: {text}");
        assert!(!text.contains("WARN"), "it is said once: {text}");
    }
}

/// A browser that starts and fails is reported with the address to open.
#[tokio::test]
async fn a_browser_that_fails_is_reported() {
    use tokio::io::AsyncReadExt as _;
    let mut command = tokio::process::Command::new(PROGRAM);
    command.args(["ui", "--json", "--", PROGRAM, "stdio", "--store", "memory:"]);
    let mut ui = serve_by(command.env("BROWSER", "false").stderr(Stdio::piped())).await;
    let mut said = ui.process.stderr.take().unwrap();
    let page = ui.endpoints["http"].as_str().unwrap();
    let mut text = Vec::new();
    let reported = async {
        while !String::from_utf8_lossy(&text).contains(&format!("open {page}")) {
            assert_ne!(said.read_buf(&mut text).await.unwrap(), 0, "it ended");
        }
    };
    within("the report", reported).await;
}

#[test]
fn bad_targets_are_rejected() {
    for (arguments, code, said) in [
        (&["bridge"][..], 2, "no server given"),
        (&["bridge", "ftp://h"], 2, "no server named"),
        (&["bridge", "--listen", "0.0.0.0:0", "--", "true"], 1, "is public"),
        (&["dev", "--listen", "0.0.0.0:0", "--", "true"], 2, "is public"),
        (&["dev"], 2, "COMMAND"),
        (&["ui", "--listen", "0.0.0.0:0", "--", "true"], 2, "use a tunnel"),
        (&["ui", "--", "false"], 3, "cannot connect to false"),
        (&["ui", "http://127.0.0.1:1/mcp"], 3, "refused"),
        (&["install", "a b"], 2, "a name has"),
        (&["install", "a", "--url", "nowhere"], 2, "not a server address"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(PROGRAM);
        let ended = output(command.args(arguments).env("XDG_CONFIG_HOME", folder.path()));
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
}

/// A stdio server in a shell script, whose tool's name and answer are in a file beside it.
const SCRIPT: &str = r#"
. ./tool
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"script","version":"1"}}';;
    *'"method":"tools/list"'*) result='{"tools":[{"name":"'$name'","inputSchema":{"type":"object"}}]}';;
    *'"name":"hang"'*) continue;;
    *'"method":"tools/call"'*) result='{"content":[{"type":"text","text":"'$name'"}]}';;
    *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id"; continue;;
    *) continue;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

/// A server that writes a file beside its source whenever it starts is not restarted for ever.
#[tokio::test]
async fn a_file_that_each_start_writes_restarts_no_server() {
    use tokio::io::{AsyncBufReadExt as _, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let text = format!("echo start >> state.db\n{SCRIPT}");
    std::fs::write(folder.path().join("server.sh"), text).unwrap();
    std::fs::write(folder.path().join("tool"), "name=first\n").unwrap();
    let mut command = tokio::process::Command::new(PROGRAM);
    command.args(["dev", "--listen", "127.0.0.1:0", "--json", "--", "sh", "server.sh"]);
    let mut served = serve_by(command.current_dir(folder.path()).stderr(Stdio::piped())).await;
    let mut lines = BufReader::new(served.process.stderr.take().unwrap()).lines();
    let (mut restarts, mut said) = (0, false);
    while !said {
        let line = within("a restart", lines.next_line()).await.unwrap().unwrap();
        restarts += usize::from(line.contains("state.db changed"));
        said = line.contains("state.db changes whenever the server starts");
    }
    assert_eq!(restarts, 3);
    // Its sources restart it as before.
    let server = connector(served.endpoints["mcp"].as_str().unwrap(), &HttpOptions::new());
    let client = Client::builder().connect_by(server.unwrap()).await.unwrap();
    std::fs::write(folder.path().join("tool"), "name=second\n").unwrap();
    let line = within("a restart", lines.next_line()).await.unwrap().unwrap();
    assert!(line.contains("tool changed"), "{line}");
    within("the new tool", async {
        while client.call_tool("second", json!({})).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let starts = std::fs::read_to_string(folder.path().join("state.db")).unwrap();
    assert_eq!(starts.lines().count(), 5);
}

/// Clients of `dev` keep their connection while the server is changed, fails and is repaired.
#[tokio::test]
async fn a_changed_server_is_restarted_and_its_clients_stay() {
    use futures_util::StreamExt as _;
    use mcp_flow::client::{ChangeFilter, ServerChange};
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("server.sh"), SCRIPT).unwrap();
    std::fs::write(folder.path().join("tool"), "name=first\n").unwrap();
    let program =
        Program::new(PROGRAM).arguments(["dev", "--", "sh", "server.sh"]).folder(folder.path());
    let client = timeout(LIMIT, Client::builder().connect(program)).await;
    let client = client.expect("it connects").unwrap();
    assert_eq!(client.server().await.unwrap().implementation.name, "script");
    let first = client.call_tool("first", json!({})).await.unwrap();
    assert_eq!(first.text(), "first");
    let mut changes = client.listen(ChangeFilter::new().tools()).await.unwrap();
    let mut changed = async |name: &str, text: &str| {
        std::fs::write(folder.path().join("tool"), text).unwrap();
        let seen = async {
            loop {
                let change = changes.next().await.expect("the subscription stays").unwrap();
                assert_eq!(change, ServerChange::Tools);
                let tools = client.tools().all().await.unwrap();
                if tools.iter().any(|tool| tool.name == name) {
                    return;
                }
            }
        };
        timeout(LIMIT, seen).await.unwrap_or_else(|_| panic!("no list_changed for {name}"));
    };
    changed("hang", "name=hang\n").await;
    // A call that does not end in time is lost, and says so.
    let lost = client.call_tool("hang", json!({})).into_future();
    let restarted = changed("third", "name=third\n");
    let (lost, ()) = tokio::join!(timeout(LIMIT, lost), restarted);
    let lost = lost.expect("the call ends").unwrap_err();
    assert_eq!(lost.server().unwrap().name(), Some("UPSTREAM_LOST"), "{lost}");
    assert_eq!(client.call_tool("third", json!({})).await.unwrap().text(), "third");
    std::fs::write(folder.path().join("server.sh"), "exit 3\n").unwrap();
    let broken = async {
        while client.call_tool("third", json!({})).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LIMIT, broken).await.expect("the broken server is started");
    std::fs::write(folder.path().join("server.sh"), SCRIPT).unwrap();
    let repaired = async {
        while client.call_tool("third", json!({})).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LIMIT, repaired).await.expect("the repaired server is started");
    client.close().await;
}

fn install(home: &Path, arguments: &[&str]) -> (Output, String) {
    let mut command = Command::new(PROGRAM);
    command.arg("install").args(arguments).env("HOME", home).current_dir(home);
    for variable in ["XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "MCP_FLOW_CONFIG"] {
        command.env_remove(variable);
    }
    let ended = output(command.stdin(Stdio::null()));
    let all = [ended.stdout.clone(), ended.stderr.clone()].concat();
    (ended, String::from_utf8(all).unwrap())
}

#[test]
fn servers_are_installed_in_the_hosts_that_are_there() {
    let home = tempfile::tempdir().unwrap();
    let (none, said) = install(home.path(), &["flow", "--yes"]);
    assert_eq!(none.status.code(), Some(2), "{said}");
    assert!(said.contains("claude-desktop"), "{said}");
    let cursor = home.path().join(".cursor/mcp.json");
    let codex = home.path().join(".codex/config.toml");
    std::fs::create_dir(home.path().join(".cursor")).unwrap();
    std::fs::create_dir(home.path().join(".codex")).unwrap();
    let mine = "{\n  // mine\n  \"mcpServers\": {\"a\": {\"command\": \"x\"}}\n}\n";
    std::fs::write(&cursor, mine).unwrap();
    std::fs::write(&codex, "model = \"m\" # mine\n").unwrap();
    // Nobody can be asked, so nothing changes.
    let (asked, said) = install(home.path(), &["flow"]);
    assert!(!asked.status.success() && said.contains("--yes") && said.contains("+ "), "{said}");
    assert_eq!(std::fs::read_to_string(&cursor).unwrap(), mine);
    let (done, said) = install(home.path(), &["flow", "--yes"]);
    assert!(done.status.success(), "{said}");
    let text = std::fs::read_to_string(&cursor).unwrap();
    assert!(text.contains("// mine") && text.contains("\"flow\"") && text.contains("stdio"));
    let toml: toml::Table = std::fs::read_to_string(&codex).unwrap().parse().unwrap();
    assert_eq!(toml["mcp_servers"]["flow"]["args"][0].as_str(), Some("stdio"));
    let backups = std::fs::read_dir(home.path().join(".cursor")).unwrap().filter(|entry| {
        let path = entry.as_ref().unwrap().path();
        path != cursor && std::fs::read_to_string(path).unwrap() == mine
    });
    assert_eq!(backups.count(), 1);
    // A program is found wherever the host starts it; names are in the PATH.
    for (program, expected) in [("target/debug/shop", "target/debug/shop"), ("./shop", "shop")] {
        let (_, said) = install(home.path(), &["shop", "--print", "--host=cursor", "--", program]);
        let expected = home.path().canonicalize().unwrap().join(expected);
        assert!(said.contains(&format!("\"{}\"", expected.display())), "{said}");
    }
    let (_, said) = install(home.path(), &["shop", "--print", "--host=cursor", "--", "npx", "a/b"]);
    assert!(said.contains("\"npx\"") && said.contains("\"a/b\""), "{said}");
    // A file with an error stays as it is, and the others are changed.
    std::fs::write(&cursor, "{\"mcpServers\": {").unwrap();
    let (broken, said) = install(home.path(), &["far", "--yes", "--url", "https://h/mcp"]);
    assert_eq!(broken.status.code(), Some(1), "{said}");
    assert!(said.contains("Cursor") && said.contains("was not changed"), "{said}");
    assert_eq!(std::fs::read_to_string(&cursor).unwrap(), "{\"mcpServers\": {");
    assert!(std::fs::read_to_string(&codex).unwrap().contains("url = \"https://h/mcp\""));
    let (desktop, said) = install(
        home.path(),
        &["far", "--print", "--url", "https://h/mcp", "--host=claude-desktop"],
    );
    assert!(desktop.status.success() && said.contains("\"bridge\""), "{said}");
    // A link that leads nowhere is named.
    std::fs::remove_file(&codex).unwrap();
    std::os::unix::fs::symlink("nowhere", &codex).unwrap();
    let (dangling, said) = install(home.path(), &["flow", "--yes", "--host=codex"]);
    assert_eq!(dangling.status.code(), Some(1), "{said}");
    assert!(said.contains("config.toml is a link to a file that does not exist"), "{said}");
}
