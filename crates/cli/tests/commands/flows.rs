//! `mcp-flow flows check`: exported sessions against the code of the flows.

use serde_json::Value;

use super::time_travel::start_session;
use super::{Server, run};

/// A history fits the flows of this program, unless it was edited or is of a flow that is not there.
#[tokio::test]
async fn exported_sessions_are_checked_against_the_flows() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let store = format!("sqlite:{}", path("journal.db"));
    let server = Server::start(&["--store", &store]);
    let id = start_session(server.url()).await;
    let (_, said, code) = run(&["sessions", "answer", &id, "Ada", "--url", server.url()], "");
    assert_eq!(code, 0, "{said}");
    let file = path("ada.json");
    let export = ["sessions", "history", &id, "--url", server.url(), "--export", &file];
    assert_eq!(run(&export, "").2, 0);
    drop(server);

    let (checked, said, code) = run(&["flows", "check", &file], "");
    assert!(code == 0 && checked.contains("ada.json: fits"), "{checked}{said}");

    let history = std::fs::read_to_string(&file).unwrap();
    let edited = history.replace("\"Ada\"", "\"Eve\"");
    assert_ne!(edited, history);
    let mut cut: Value = serde_json::from_str(&history).unwrap();
    cut["entries"].as_array_mut().unwrap().pop();
    let wrong = [
        ("edited.json", edited, "it was edited"),
        ("cut.json", cut.to_string(), "the end was cut off"),
        ("text.json", "no history".to_owned(), "is no JSON"),
    ];
    for (name, text, expected) in wrong {
        std::fs::write(path(name), text).unwrap();
        // The others are checked, too.
        let (checked, said, code) = run(&["flows", "check", &path(name), &file], "");
        assert!(code == 1 && checked.contains(expected), "{checked}{said}");
        assert!(checked.contains("ada.json: fits"), "{checked}");
    }
    let (checked, _, code) = run(&["flows", "check", &path("missing.json")], "");
    assert!(code == 1 && checked.contains("cannot be read"), "{checked}");
}
