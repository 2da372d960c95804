//! Nodes behind nginx, with the configuration of the documentation.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use interop::{LIMIT, Served};
use mcp_flow::client::{Client, HttpOptions, Revision, RevisionPolicy, connector};
use serde_json::json;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// Clients of both eras work through a load balancer that sends each request to another node. After
/// one node was killed, the other continues their sessions.
#[tokio::test]
async fn sessions_are_continued_behind_nginx() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("journal.db").display());
    let node = async || Served::with(["--no-webtransport", "--ledger", "--store", &store]).await;
    let nodes = [node().await, node().await];
    let (_nginx, url) = nginx(folder.path(), &nodes).await;
    let mut clients = Vec::new();
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
        let builder =
            Client::builder().with(|options| options.revision = RevisionPolicy::Only(revision));
        let connector = connector(&url, &HttpOptions::new()).unwrap();
        let client = timeout(LIMIT, builder.connect_by(connector)).await.expect("it connects");
        clients.push(client.unwrap());
    }
    for client in &clients {
        for number in 0..8 {
            echo(client, number).await;
        }
    }
    let [killed, _left] = nodes;
    drop(killed);
    for client in &clients {
        // A call that the node had received when it was killed is answered with an error.
        let answered = async {
            while client.call_tool("echo", json!({"text": "again"})).await.is_err() {
                sleep(std::time::Duration::from_millis(100)).await;
            }
        };
        timeout(LIMIT, answered).await.expect("the other node answers");
        for number in 0..8 {
            echo(client, number).await;
        }
    }
    for client in clients {
        client.close().await;
    }
}

async fn echo(client: &Client, number: i32) {
    let text = format!("call {number}");
    let called = timeout(LIMIT, client.call_tool("echo", json!({"text": text}))).await;
    assert_eq!(called.expect("it is answered").unwrap().text(), text);
}

/// Starts nginx before these nodes, and returns the URL of the nodes through it.
async fn nginx(folder: &Path, nodes: &[Served]) -> (Child, String) {
    let documented = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cluster/nginx.conf");
    let mut site = String::new();
    let mut addresses = nodes.iter().map(|node| {
        node.url("http").trim_start_matches("http://").trim_end_matches('/').to_owned()
    });
    for line in std::fs::read_to_string(documented).unwrap().lines() {
        match line.trim().strip_prefix("server node") {
            Some(rest) => {
                let options = rest.split_once(' ').unwrap().1;
                if let Some(address) = addresses.next() {
                    site += &format!("server {address} {options}\n");
                }
            }
            None => site += &format!("{line}\n"),
        }
    }
    // Bound until nginx is about to start, so that nobody else gets the port meanwhile.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    let site = site.replace("listen 80;", &format!("listen {address};"));
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {}/{kind};\n", folder.display()));
    let main = format!(
        "daemon off;\nmaster_process off;\npid {0}/nginx.pid;\nerror_log {0}/error.log;\n\
         events {{}}\nhttp {{\naccess_log off;\n{1}{site}\n}}\n",
        folder.display(),
        paths.concat(),
    );
    let file = folder.join("nginx.conf");
    std::fs::write(&file, main).unwrap();
    drop(free);
    // Debian has it outside the path of ordinary users.
    let debian = Path::new("/usr/sbin/nginx");
    let program = if debian.exists() { debian } else { Path::new("nginx") };
    let mut nginx = Command::new(program)
        .args(["-e".as_ref(), folder.join("error.log").as_os_str()])
        .arg("-c")
        .arg(&file)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("nginx can be started; install Debian's package nginx");
    let ready = async {
        while tokio::net::TcpStream::connect(address).await.is_err() {
            let ended = nginx.try_wait().unwrap();
            let log = std::fs::read_to_string(folder.join("error.log")).unwrap_or_default();
            assert!(ended.is_none(), "nginx has ended: {log}");
            sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    timeout(LIMIT, ready).await.expect("nginx listens");
    (nginx, format!("http://{address}/mcp"))
}
