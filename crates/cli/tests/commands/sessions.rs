//! `mcp-flow sessions`, on a running server and on an offline store.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use mcp_flow::Revision;
use mcp_flow_testkit::http::Request;
use mcp_flow_testkit::process::Program;
use mcp_flow_testkit::streamable;
use mcp_flow_testkit::wait::{LIMIT, output, within};
use notify::Watcher as _;
use serde_json::{Value, json};

use super::{PROGRAM, Server, run};

/// INT-098, INT-113, MCP-094: a session is started on one server, survives its crash, is answered
/// offline and finished on the next server; its answers cannot be read in the file.
#[tokio::test]
async fn a_session_survives_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("redb:{}", folder.path().join("journal.redb").display());
    let (mut program, mut peer) = Program::start(PROGRAM, &["stdio", "--store", &store]);
    let declared = peer.call("capabilities", json!({})).await["result"].clone();
    assert_eq!(declared["features"]["sessionPersistence"], true);
    peer.initialize(Revision::V2025_11_25).await;
    // INT-020: an invalid parameter is rejected at once, though it would be asked for later.
    let wrong = json!({"toolName": "register", "initialParams": {"email": "nowhere"}});
    let refused = peer.call("interaction.start", wrong).await["error"].clone();
    assert_eq!((&refused["code"], &refused["data"]["field"]), (&json!(-32004), &json!("email")));
    let started = peer.call("interaction.start", json!({"toolName": "register"})).await;
    let id = started["result"]["sessionId"].as_str().unwrap().to_owned();
    program.kill().await;

    let at_rest = |arguments: &[&str]| sessions(&[arguments, &["--store", &store]].concat());
    let (listed, code) = at_rest(&["list"]);
    assert_eq!((listed["sessions"][0]["sessionId"].as_str(), code), (Some(id.as_str()), 0));
    let (answered, _) = at_rest(&["answer", &id, "Ada Lovelace"]);
    assert_eq!(answered["next"]["prompt"]["message"], "Enter email");
    assert!(!holds(&folder.path().join("journal.redb"), "Lovelace"));
    let (rejected, code) = at_rest(&["answer", &id, "nowhere"]);
    assert_eq!((&rejected["accepted"], code), (&json!(false), 1));

    let server = Server::start(&["--store", &store]);
    let url = server.url();
    let (shown, _) = sessions(&["show", &id, "--url", url.strip_suffix("/mcp").unwrap()]);
    assert_eq!(shown["accumulatedData"], json!({"name": "Ada Lovelace"}));
    let (done, _) = sessions(&["answer", &id, "ada@example.com", "--url", url]);
    assert_eq!(done["next"]["complete"]["result"]["success"], true);
    let (_, code) = sessions(&["cancel", &id, "--url", url]);
    assert_eq!(code, 1, "what is over cannot be cancelled");
}

/// A session sleeps while no server runs, and wakes in the next one.
#[tokio::test]
async fn a_session_sleeps_through_the_end_of_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("redb:{}", folder.path().join("journal.redb").display());
    let options = ["stdio", "--diagnostics", "--store", &store];
    let (mut program, mut peer) = Program::start(PROGRAM, &options);
    peer.initialize(Revision::V2025_11_25).await;
    let sleeper = json!({"toolName": "sleeper", "initialParams": {"ms": 1500}});
    let started = peer.call("interaction.start", sleeper).await["result"].clone();
    let id = started["sessionId"].as_str().unwrap().to_owned();
    program.kill().await;
    let (shown, _) = sessions(&["show", &id, "--store", &store]);
    assert_eq!(shown["state"], "processing");
    let wakes = shown["metadata"]["wakesAt"].as_u64().unwrap();

    let (_program, mut peer) = Program::start(PROGRAM, &options);
    peer.initialize(Revision::V2025_11_25).await;
    let awake = within("the session to wake", async {
        loop {
            let next = peer.call("interaction.continue", json!({"sessionId": id})).await;
            let complete = next["result"]["next"]["complete"].clone();
            if complete.is_object() {
                return complete;
            }
        }
    });
    let awake = awake.await["result"]["data"].clone();
    assert_eq!(awake["due"], wakes);
    assert!(awake["late"].is_u64(), "{awake}");
}

/// A session waits for a signal while no server runs; it is sent to the stored session and to the next
/// server. One that was accepted survives a crash of the server.
#[tokio::test]
async fn signals_reach_sessions_at_rest_and_on_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("journal.db").display());
    let options = ["stdio", "--diagnostics", "--store", &store];
    let (mut program, mut peer) = Program::start(PROGRAM, &options);
    peer.initialize(Revision::V2025_11_25).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let order = json!({"toolName": "paid_order"});
        let started = peer.call("interaction.start", order).await["result"].clone();
        ids.push(started["sessionId"].as_str().unwrap().to_owned());
    }
    let early = json!({"sessionId": ids[0], "name": "paid", "value": 7});
    let kept = peer.call("interaction.signal", early).await["result"].clone();
    assert_eq!(kept, json!({"signalled": true, "kept": true}));
    program.kill().await;

    let at_rest =
        |arguments: &[&str]| run(&[&["sessions"], arguments, &["--store", &store]].concat(), "");
    let (shown, _, _) = at_rest(&["show", &ids[0]]);
    assert!(shown.contains("Kept signal `paid` x 1"), "{shown}");
    let (answered, said, code) = at_rest(&["answer", &ids[1], "Bob"]);
    assert_eq!(code, 0, "{answered}{said}");
    let (shown, _, _) = at_rest(&["show", &ids[1]]);
    assert!(shown.contains("Waiting for the signal `paid`"), "{shown}");
    let (_, said, code) = at_rest(&["signal", &ids[1], "paid", "much"]);
    assert!(code == 1 && said.contains("expected u64"), "{said}");
    let (said, error, code) = at_rest(&["signal", &ids[1], "refunded", "{\"all\": true}"]);
    assert!(
        code == 0 && said.contains("Kept. The flow gets it when it waits for `refunded`."),
        "{error}"
    );
    let (history, _, _) = at_rest(&["history", &ids[1]]);
    assert!(history.contains("signal refunded") && history.contains("{\"all\":true}"), "{history}");

    let server = Server::start(&["--diagnostics", "--store", &store]);
    let on_server = |arguments: &[&str], input: &str| {
        run(&[&["sessions"], arguments, &["--url", server.url()]].concat(), input)
    };
    let (said, error, code) = on_server(&["answer", &ids[0], "Ada"], "");
    assert!(code == 0 && said.contains("Shipped to Ada"), "{said}{error}");
    let (said, error, code) = on_server(&["signal", &ids[1], "paid", "-"], "12\n");
    assert!(code == 0 && said.contains("Shipped to Bob"), "{said}{error}");
    let (listed, _, _) = on_server(&["list", "--label", "customer=Bob"], "");
    assert!(listed.contains(&ids[1]) && !listed.contains(&ids[0]), "{listed}");
    let (_, said, code) = on_server(&["signal", &ids[1], "paid", "1"], "");
    assert!(code == 1 && said.contains("completed"), "{said}");
}

/// A link of a flow works at the server that is running, also after a crash, until it is revoked.
#[tokio::test]
async fn links_work_on_the_next_server_until_they_are_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("journal.db").display());
    let server = Server::start(&["--diagnostics", "--store", &store]);
    let address = |server: &Server| {
        let url = server.url().strip_prefix("http://").unwrap().to_owned();
        url.split('/').next().unwrap().parse().unwrap()
    };
    let mut orders = Vec::new();
    for name in ["Ada", "Bob"] {
        let mut peer = streamable::connect(address(&server), std::future::ready(()));
        peer.initialize(Revision::V2025_11_25).await;
        let params = json!({"toolName": "paid_order", "initialParams": {"customer": name}});
        let started = peer.call("interaction.start", params).await["result"].clone();
        let id = started["sessionId"].as_str().unwrap().to_owned();
        let state = peer.call("interaction.getState", json!({"sessionId": id})).await;
        let pay = state["result"]["accumulatedData"]["pay"].as_str().unwrap().to_owned();
        orders.push((id, format!("/link/{}", pay.split("/link/").nth(1).unwrap())));
    }
    drop(server);

    let server = Server::start(&["--diagnostics", "--store", &store]);
    let on_server = |arguments: &[&str]| {
        run(&[&["sessions"], arguments, &["--url", server.url()]].concat(), "")
    };
    let [(ada, ada_pays), (bob, bob_pays)] = &orders[..] else { panic!("{orders:?}") };
    let (said, error, code) = on_server(&["revoke", bob, "paid"]);
    assert!(code == 0 && said.contains("revoked: 1"), "{said}{error}");
    let (shown, _, _) = on_server(&["show", bob]);
    assert!(shown.contains("Link for `paid`: revoked"), "{shown}");
    let pay = |path: &str| {
        Request::new("POST", path).header("content-type", "application/json").body("5")
    };
    assert_eq!(pay(bob_pays).send(address(&server)).await.status, 410);
    assert_eq!(pay(ada_pays).send(address(&server)).await.status, 200);
    let (shown, _, _) = on_server(&["show", ada]);
    assert!(shown.contains("Shipped to Ada"), "{shown}");
    assert_eq!(pay(ada_pays).send(address(&server)).await.status, 404);
}

/// INT-133, C-43: with a replay guard, a used token is rejected for every operation after a crash
/// as well; the newest one is accepted.
#[tokio::test]
async fn used_tokens_are_refused_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("redb:{}", folder.path().join("journal.redb").display());
    let options = ["stdio", "--stateless", "--replay-guard", "--store", &store];
    let (mut program, mut peer) = Program::start(PROGRAM, &options);
    peer.initialize(Revision::V2025_11_25).await;
    let started = peer.call("interaction.start", json!({"toolName": "register"})).await;
    let first = started["result"]["sessionToken"].clone();
    let with =
        |token: &Value, answer: &str| json!({"sessionToken": token, "response": {"value": answer}});
    let answered = peer.call("interaction.respond", with(&first, "Ada")).await;
    let second = answered["result"]["sessionToken"].clone();
    program.kill().await;

    let (mut program, mut peer) = Program::start(PROGRAM, &options);
    peer.initialize(Revision::V2025_11_25).await;
    for method in ["respond", "continue", "getState", "cancel"] {
        let refused = peer.call(&format!("interaction.{method}"), with(&first, "Eve")).await;
        assert_eq!(refused["error"]["code"], -32003, "{method}: {refused}");
    }
    let done = peer.call("interaction.respond", with(&second, "ada@example.com")).await;
    let data = &done["result"]["next"]["complete"]["result"]["data"];
    assert_eq!(data, &json!({"name": "Ada", "email": "ada@example.com"}), "{done}");
    program.kill().await;
}

/// C-41, INT-080: `sessions show` prints when a session will expire, or when and why it has ended.
#[tokio::test]
async fn a_session_shows_when_and_why_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("redb:{}", folder.path().join("journal.redb").display());
    let config = folder.path().join("flow.toml");
    std::fs::write(&config, "[sessions]\nwait_seconds = 120\nlongest_wait_seconds = 3600\n")
        .unwrap();
    let options = ["stdio", "--store", &store, "--config", config.to_str().unwrap()];
    let (mut program, mut peer) = Program::start(PROGRAM, &options);
    peer.initialize(Revision::V2025_11_25).await;
    let mut started = Vec::new();
    for timeout in [None, Some(86_400_000), Some(1), None] {
        let params = json!({"toolName": "register", "timeout": timeout});
        let result = peer.call("interaction.start", params).await["result"].clone();
        started.push(result["sessionId"].as_str().unwrap().to_owned());
        let wait = match timeout {
            None => 120_000,
            Some(timeout) => timeout.min(3_600_000),
        };
        assert_eq!(result["_meta"]["timeout"], wait, "{result}");
    }
    let params = json!({"sessionId": started[3], "reason": "never mind"});
    peer.call("interaction.cancel", params).await;
    program.kill().await;
    let show = |id: &str| run(&["sessions", "show", id, "--store", &store], "").0;
    assert!(show(&started[0]).contains("Expires at 20"), "{}", show(&started[0]));
    let expired = show(&started[2]);
    assert!(expired.contains("Ended at 20") && expired.contains("no answer in time"), "{expired}");
    let cancelled = show(&started[3]);
    assert!(cancelled.contains("cancelled, never mind"), "{cancelled}");
}

/// INT-108: the configuration sets how many sessions a principal may have.
#[tokio::test]
async fn the_number_of_sessions_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("flow.toml");
    std::fs::write(&config, "[sessions]\nper_owner = 1001\n").unwrap();
    let options = ["stdio", "--store", "memory:", "--config", config.to_str().unwrap()];
    let (mut program, mut peer) = Program::start(PROGRAM, &options);
    peer.initialize(Revision::V2025_11_25).await;
    let mut started = Vec::new();
    for _ in 0..1002 {
        started.push(peer.call("interaction.start", json!({"toolName": "register"})).await);
    }
    let last = started.pop().unwrap();
    assert!(started.iter().all(|reply| reply["result"]["sessionId"].is_string()), "{started:?}");
    assert!(last["error"]["message"].is_string(), "{last}");
    program.kill().await;
}

/// INT-107: a burst is rejected with a retry delay, and other sessions are not affected.
#[tokio::test]
async fn answers_are_rate_limited() {
    let options = ["stdio", "--store", "memory:", "--answers-per-second", "1"];
    let (mut program, mut peer) = Program::start(PROGRAM, &options);
    peer.initialize(Revision::V2025_11_25).await;
    let mut replies = Vec::new();
    for answers in [5, 1] {
        let started = peer.call("interaction.start", json!({"toolName": "all_prompts"})).await;
        for _ in 0..answers {
            let session = &started["result"]["sessionId"];
            let params = json!({"sessionId": session, "response": {"value": "?"}});
            replies.push(peer.call("interaction.respond", params).await);
        }
    }
    assert_eq!(replies[0]["result"]["accepted"], false);
    let refused = replies.iter().find(|reply| reply.get("error").is_some()).unwrap();
    assert_eq!(refused["error"]["data"]["name"], "RATE_LIMITED", "{refused}");
    assert!(refused["error"]["data"]["retryAfterMs"].as_u64().unwrap() > 0);
    assert_eq!(replies[5]["result"]["accepted"], false);
    program.kill().await;
}

/// INT-113: an encrypted store without its key is an error, whether the store was named or is the
/// default.
#[test]
fn a_store_without_its_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        output(command.args(arguments).current_dir(folder.path()))
    };
    assert!(run(&["stdio"]).status.success());
    std::fs::remove_file(folder.path().join(".mcp-flow/journal.key")).unwrap();
    for arguments in [&["stdio"][..], &["stdio", "--store", "sqlite:.mcp-flow/journal.db"]] {
        let refused = run(arguments);
        assert!(!refused.status.success());
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains("journal.key"), "{said}");
    }
}

/// A journal of an earlier version is imported into the new default store, once; two servers and the
/// command line then use that at the same time.
#[tokio::test]
async fn an_old_journal_is_imported_and_the_new_one_is_shared() {
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("journal.redb");
    let store = format!("redb:{}", old.display());
    let (mut program, mut peer) = Program::start(PROGRAM, &["stdio", "--store", &store]);
    peer.initialize(Revision::V2025_11_25).await;
    let started = peer.call("interaction.start", json!({"toolName": "register"})).await;
    let id = started["result"]["sessionId"].as_str().unwrap().to_owned();
    program.kill().await;

    let store = format!("sqlite:{}", folder.path().join("journal.db").display());
    let (first, second) =
        (Server::start(&["--store", &store]), Server::start(&["--store", &store]));
    assert!(!old.exists() && folder.path().join("journal.redb.imported").exists());
    let (answered, _) = sessions(&["answer", &id, "Ada Lovelace", "--url", first.url()]);
    assert_eq!(answered["next"]["prompt"]["message"], "Enter email");
    let (shown, _) = sessions(&["show", &id, "--url", second.url()]);
    assert_eq!(shown["accumulatedData"], json!({"name": "Ada Lovelace"}));
    let (done, _) = sessions(&["answer", &id, "ada@example.com", "--store", &store]);
    assert_eq!(done["next"]["complete"]["result"]["success"], true);
    let (shown, _) = sessions(&["show", &id, "--url", first.url()]);
    assert_eq!(shown["state"], "completed");
    let (nodes, ..) = run(&["nodes", "list", "--store", &store, "--format", "json"], "");
    let nodes: Value = serde_json::from_str(&nodes).unwrap();
    assert!(nodes["nodes"].as_array().unwrap().len() >= 2, "{nodes}");
}

/// Interrupted steps are resumed when a server starts, without a request; `sessions show` on the
/// offline store starts nothing, and `sessions answer` there runs the step to its end.
#[tokio::test]
async fn interrupted_steps_are_resumed_by_servers_only() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.redb");
    let store = format!("redb:{}", journal.display());
    let (mut program, mut peer) = Program::start(PROGRAM, &["stdio", "--store", &store]);
    peer.initialize(Revision::V2025_11_25).await;
    let params = json!({"toolName": "countdown", "initialParams": {"from": 30}});
    let started = peer.call("interaction.start", params).await;
    let id = started["result"]["sessionId"].as_str().unwrap().to_owned();
    let other = peer.call("interaction.start", json!({"toolName": "countdown"})).await;
    let other = other["result"]["sessionId"].as_str().unwrap().to_owned();
    program.kill().await;

    let at_rest = |arguments: &[&str]| sessions(&[arguments, &["--store", &store]].concat());
    let before = at_rest(&["show", &id]).0;
    assert_eq!(before["state"], "active");
    let (answered, _) = at_rest(&["answer", &other, "5"]);
    assert_eq!(answered["next"]["prompt"]["message"], "Launch?");
    assert_eq!(at_rest(&["show", &id]).0, before);

    // The crash may happen during a write, which then does not count.
    let active = |state: &Value| state["metadata"]["lastActivityAt"].as_u64().unwrap();
    let begun = Instant::now();
    while active(&at_rest(&["show", &id]).0) == active(&before) {
        assert!(begun.elapsed() < LIMIT, "waited {LIMIT:?} for a server to go on with {id}");
        let _server = Server::start(&["--store", &store]);
        let ready = std::fs::read(&journal).unwrap();
        let (received, writes) = std::sync::mpsc::channel();
        let mut watcher = notify::recommended_watcher(received).unwrap();
        watcher.watch(&journal, notify::RecursiveMode::NonRecursive).unwrap();
        while std::fs::read(&journal).unwrap() == ready {
            // Reading is logged, too.
            let received =
                || writes.recv_timeout(LIMIT).expect("a server resumes interrupted steps");
            while !received().unwrap().kind.is_modify() {}
        }
    }
}

/// INT-074: the number of sessions is known after a restart, and falls when one expires without a
/// request.
#[tokio::test]
async fn sessions_are_counted_by_state() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("redb:{}", folder.path().join("journal.redb").display());
    let (mut program, mut peer) = Program::start(PROGRAM, &["stdio", "--store", &store]);
    peer.initialize(Revision::V2025_11_25).await;
    peer.call("interaction.start", json!({"toolName": "register"})).await;
    program.kill().await;

    let server = Server::start(&["--store", &store]);
    let address =
        server.url().strip_prefix("http://").and_then(|url| url.strip_suffix("/mcp")).unwrap();
    let address = address.parse().unwrap();
    let counted = async || {
        let text = Request::new("GET", "/metrics").send(address).await.text().await;
        ["waiting", "processing", "ended"].map(|state| {
            let name = format!("mcp_flow_sessions{{state=\"{state}\"}} ");
            let line = text.lines().find_map(|line| line.strip_prefix(&name));
            line.unwrap_or_else(|| panic!("no {name}in {text}")).parse::<u64>().unwrap()
        })
    };
    assert_eq!(counted().await, [1, 0, 0]);
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}}});
    let answer = Request::post("/mcp", message).send(address).await;
    let session = answer.header("mcp-session-id").unwrap().to_owned();
    let message = json!({"jsonrpc": "2.0", "id": 2, "method": "interaction.start",
        "params": {"toolName": "register", "timeout": 4000}});
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    for (message, status) in [(initialized, 202), (message, 200)] {
        let request = Request::post("/mcp", message).header("mcp-session-id", &session);
        assert_eq!(request.send(address).await.status, status);
    }
    assert_eq!(counted().await, [2, 0, 0]);
    // Metrics are polled; they announce no change.
    let expired = async {
        while counted().await != [1, 0, 1] {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    within("the session of four seconds to be counted as ended", expired).await;
}

/// Runs the command, and returns its JSON output and exit code.
fn sessions(arguments: &[&str]) -> (Value, i32) {
    let (out, _, code) = run(&[&["sessions"], arguments, &["--format", "json"]].concat(), "");
    (serde_json::from_str(&out).unwrap_or_default(), code)
}

fn holds(path: &Path, text: &str) -> bool {
    let bytes = std::fs::read(path).unwrap();
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}
