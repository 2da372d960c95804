//! SIGHUP adds, removes and changes the servers behind a running one, and does not disturb others.

use std::path::Path;
use std::process::Command;

use mcp_flow_testkit::wait::within;
use serde_json::{Value, json};

use super::contract::{Caller, Server};
use super::earlier_upstream;

/// Reloads, and waits until the tools are these.
async fn reload(server: &Server, client: &mut Caller, expected: &[&str]) {
    let sent = Command::new("kill").args(["-HUP", &server.process_id()]).status().unwrap();
    assert!(sent.success());
    within(format!("the tools {expected:?}"), async {
        while sorted(client).await != expected {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Names of the tools. They are listed in the order in which their servers were there.
async fn sorted(client: &mut Caller) -> Vec<String> {
    let mut tools = client.tools().await;
    tools.sort_unstable();
    tools
}

/// An upstream that greets, with a name for its program and a marker in its environment.
fn upstream(folder: &Path, about: &str, marker: &str) -> Value {
    let mut upstream = earlier_upstream(folder);
    upstream["env"]["ABOUT"] = about.into();
    upstream["env"]["MARKER"] = marker.into();
    let script = upstream["args"][1].as_str().unwrap();
    upstream["args"][1] = format!("echo started >> \"$CALLS.$ABOUT\"\n{script}").into();
    upstream
}

#[tokio::test]
async fn a_reload_adds_removes_and_changes_servers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("servers.json");
    let write = |servers: Value| {
        std::fs::write(&file, json!({"mcpServers": servers}).to_string()).unwrap();
    };
    let [kept, one, other] = [("Kept", ""), ("One", ""), ("One", "x")]
        .map(|(about, mark)| upstream(folder.path(), about, mark));
    write(json!({"kept": kept, "one": one}));
    let path = file.display().to_string();
    let server = Server::start(&["--gateway", &path, "--store", "memory:"]);
    let mut client = server.client().await;
    assert_eq!(sorted(&mut client).await, ["kept.greet", "one.greet"]);
    let starts = |about: &str| {
        let noted = std::fs::read_to_string(folder.path().join(format!("calls.{about}")));
        noted.unwrap_or_default().lines().count()
    };
    // It lists the same after the change.
    write(json!({"kept": kept, "one": other}));
    reload(&server, &mut client, &["kept.greet", "one.greet"]).await;
    within("the changed server", async {
        while starts("One") < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // The client cannot be asked for a name.
    let greeted = client.call("one.greet", json!({})).await;
    let text = greeted["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(text.starts_with("Hello, "), "{greeted}");
    assert_eq!(sorted(&mut client).await, ["kept.greet", "one.greet"]);
    write(json!({"kept": kept, "two": other}));
    reload(&server, &mut client, &["kept.greet", "two.greet"]).await;
    let gone = client.call("one.greet", json!({})).await;
    assert_eq!(gone["error"]["data"]["name"], "UNKNOWN_TOOL", "{gone}");
    write(json!({"kept": kept, "one": other, "two": one}));
    reload(&server, &mut client, &["kept.greet", "one.greet", "two.greet"]).await;
    assert_eq!(starts("Kept"), 1);
}

/// A server that served nobody gets its first upstream.
#[tokio::test]
async fn a_reload_adds_the_first_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flow.toml");
    std::fs::write(&file, "").unwrap();
    let path = file.display().to_string();
    let server = Server::start(&["--config", &path, "--store", "memory:"]);
    let mut client = server.client().await;
    assert_eq!(client.tools().await, [""; 0]);
    let up = earlier_upstream(folder.path());
    let text = format!(
        "[servers.up]\ngateway = true\ncommand = \"sh\"\nargs = {}\n[servers.up.env]\nCALLS = {}\nABOUT = \"Greets\"\n",
        up["args"], up["env"]["CALLS"]
    );
    std::fs::write(&file, text).unwrap();
    reload(&server, &mut client, &["up.greet"]).await;
}
