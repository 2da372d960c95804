//! `mcp-flow sessions history`, `sessions diff` and `mcp-flow history`: sessions step by step.

use mcp_flow::client::{Client, HttpOptions, connector};
use mcp_flow_testkit::wait::LIMIT;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Server, run};

/// A session is shown event by event on a running server and offline, compared with another, exported,
/// and opened without a server.
#[tokio::test]
async fn sessions_are_stepped_through_compared_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let store = format!("sqlite:{}", path("journal.db"));
    let start = async |url: &str, name: &str| {
        let started = start_session(url).await;
        let (_, said, code) = run(&["sessions", "answer", &started, name, "--url", url], "");
        assert_eq!(code, 0, "{said}");
        started
    };
    let server = Server::start(&["--store", &store]);
    let (ada, bob) = (start(server.url(), "Ada").await, start(server.url(), "Bob").await);
    let (online, _, code) = run(&["sessions", "history", &ada, "--url", server.url()], "");
    assert_eq!(code, 0);
    for part in ["started register", "asked name", "answered name", "\"Ada\"", "asked email"] {
        assert!(online.contains(part), "no {part} in {online}");
    }
    // The traffic that caused each event is shown, although nobody watched, and no other.
    for (label, method, other) in [
        ("started register", "interaction.start", "interaction.respond"),
        ("asked name", "interaction.start", "interaction.respond"),
        ("answered name", "interaction.respond", "interaction.start"),
        ("asked email", "interaction.respond", "interaction.start"),
    ] {
        let number = online.lines().position(|line| line.contains(label)).unwrap().to_string();
        let at = ["sessions", "history", &ada, "--url", server.url(), "--at", &number];
        let (detail, _, _) = run(&at, "");
        assert!(detail.contains(&format!("traffic   {method} ")), "{label}: {detail}");
        assert!(!detail.contains(&format!("traffic   {other} ")), "{label}: {detail}");
    }
    drop(server);

    let (offline, _, _) = run(&["sessions", "history", &ada, "--store", &store], "");
    assert_eq!(offline, online);
    let (detail, _, _) = run(&["sessions", "history", &ada, "--store", &store, "--at", "4"], "");
    assert!(detail.contains("data      name = \"Ada\""), "{detail}");
    let (_, said, code) = run(&["sessions", "history", &ada, "--store", &store, "--at", "99"], "");
    assert!(code == 2 && said.contains("from 1 to"), "{said}");
    let (differences, _, code) = run(&["sessions", "diff", &ada, &bob, "--store", &store], "");
    assert!(code == 1 && differences.contains("answered name: \"Ada\" / \"Bob\""), "{differences}");
    let (_, _, code) = run(&["sessions", "diff", &ada, &ada, "--store", &store], "");
    assert_eq!(code, 0);

    for (id, file) in [(&ada, "ada.json"), (&bob, "bob.json")] {
        let export = ["sessions", "history", id, "--store", &store, "--export", &path(file)];
        assert_eq!(run(&export, "").2, 0);
    }
    let (opened, said, code) = run(&["history", &path("ada.json")], "");
    assert_eq!((&opened, code), (&online, 0), "{said}");
    let (stepped, _, _) = run(&["history", &path("ada.json"), "--step"], "\n2\nb\nx\nq\n");
    let steps: Vec<&str> = stepped.lines().filter(|line| line.contains(" of ")).collect();
    let numbers: Vec<&str> = steps.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(numbers, ["1", "2", "2", "1", "1"], "{stepped}");
    let (_, _, code) = run(&["history", &path("ada.json"), &path("bob.json")], "");
    assert_eq!(code, 1);
}

/// A session goes on in another store, offline and on a running server; an edited history does not.
#[tokio::test]
async fn sessions_move_from_store_to_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let store = |name: &str| format!("sqlite:{}", path(name));
    let server = Server::start(&["--store", &store("from.db")]);
    let id = start_session(server.url()).await;
    let other = start_session(server.url()).await;
    let (_, said, code) = run(&["sessions", "answer", &id, "Ada", "--url", server.url()], "");
    assert_eq!(code, 0, "{said}");
    drop(server);
    let file = path("ada.json");
    let export = ["sessions", "export", &id, &file, "--store", &store("from.db")];
    assert_eq!(run(&export, "").2, 0);
    // Only with a new id beside the one it was exported from.
    let import = ["sessions", "import", &file, "--store", &store("from.db")];
    let (_, said, code) = run(&import, "");
    assert!(code == 1 && said.contains("import it with a new id"), "{said}");
    let (copied, _, code) = run(&[&import[..], &["--new-id", "--format", "json"]].concat(), "");
    let copied: Value = serde_json::from_str(&copied).unwrap();
    let copy = copied["sessionId"].as_str().unwrap();
    assert!(code == 0 && copy != id && copied["state"] == "waiting_user", "{copied}");
    let list = |options: &[&str]| {
        let list = ["sessions", "list", "--store", &store("from.db"), "--format", "plain"];
        let (listed, said, code) = run(&[&list[..], options].concat(), "");
        assert_eq!(code, 0, "{said}");
        let mut ids: Vec<_> =
            listed.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    let mut all = [id.clone(), other, copy.to_owned()];
    all.sort();
    for (options, count) in [
        (&["--flow", "register", "--state", "waiting_user"][..], 3),
        (&["--flow", "deploy"], 0),
        (&["--owner", "eve"], 0),
        (&["--since", "2100-01-01"], 0),
        (&["--since", "2020-01-01", "--before", "2100-01-01T00:00:00Z"], 3),
        (&["--label", "customer=1"], 0),
    ] {
        assert_eq!(list(options), all[..count], "{options:?}");
    }
    let wrong = ["sessions", "list", "--store", &store("from.db"), "--state", "asleep"];
    assert!(run(&wrong, "").1.contains("possible values"));

    let server = Server::start(&["--store", &store("to.db")]);
    let import = ["sessions", "import", &file, "--url", server.url()];
    let (said, error, code) = run(&import, "");
    assert!(code == 0 && said.contains(&format!("{id} imported: waiting_user")), "{said}{error}");
    // An earlier answer is changed, and given again.
    let rewind = ["sessions", "rewind", &id, "--to", "name", "--url", server.url()];
    let (said, error, code) = run(&rewind, "");
    assert!(code == 0 && said.contains("Next: Enter name"), "{said}{error}");
    let (_, error, code) = run(&rewind, "");
    assert!(code == 1 && error.contains("no question `name` was answered"), "{error}");
    let again = ["sessions", "answer", &id, "Ada", "--url", server.url()];
    assert_eq!(run(&again, "").2, 0);
    let answer = ["sessions", "answer", &id, "ada@example.com", "--url", server.url()];
    let (said, error, _) = run(&answer, "");
    assert!(said.contains("Ada"), "{said}{error}");

    let edited = std::fs::read_to_string(&file).unwrap().replace("\"Ada\"", "\"Eve\"");
    std::fs::write(&file, edited).unwrap();
    let (_, said, code) = run(&import, "");
    assert!(code == 1 && said.contains("event 4 of the history does not match"), "{said}");
}

/// A recording is opened without a server; other files are rejected with a reason.
#[test]
fn recordings_are_opened_and_other_files_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.jsonl");
    let path = file.to_str().unwrap();
    let lines = [
        json!({"cassette": 1}),
        json!({"at": 1, "from": "client", "message": {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "echo", "arguments": {"text": "\u{1b}[2Jhi"}}}}),
        json!({"at": 2.5, "from": "server", "message": {"jsonrpc": "2.0", "id": 1, "result": {"ok": true}}}),
        json!({"at": 3, "from": "client", "message": {"jsonrpc": "2.0", "id": 2, "method": "ping"}}),
    ];
    std::fs::write(&file, lines.map(|line| format!("{line}\n")).concat()).unwrap();
    let (shown, said, code) = run(&["history", path], "");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("no end"), "{said}");
    assert!(shown.contains("tools/call echo") && shown.contains("ping"), "{shown}");
    let (detail, _, _) = run(&["history", path, "--at", "1"], "");
    assert!(detail.contains("{\"ok\":true}") && !detail.contains('\u{1b}'), "{detail}");
    for bad in ["", "nonsense", "{\"entries\": 7}", "{\"entries\": [{}]}", "{\"cassette\": 99}\n"] {
        std::fs::write(&file, bad).unwrap();
        let (_, said, code) = run(&["history", path], "");
        assert!(code == 2 && said.contains("neither"), "{bad}: {code} {said}");
    }
}

pub(super) async fn start_session(url: &str) -> String {
    let connector = connector(url, &HttpOptions::new()).unwrap();
    let client = timeout(LIMIT, Client::builder().connect_by(connector)).await;
    let client = client.expect("it connects").unwrap();
    let start = client.request("interaction.start", json!({"toolName": "register"}));
    let started: Value = timeout(LIMIT, start).await.expect("it starts").unwrap();
    client.close().await;
    started["sessionId"].as_str().unwrap().to_owned()
}
