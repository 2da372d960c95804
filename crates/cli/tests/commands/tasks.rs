//! `mcp-flow tasks` and `mcp-flow call --detach`, with a server that is killed in between.

use std::path::Path;
use std::time::{Duration, Instant};

use mcp_flow_testkit::wait::LIMIT;
use serde_json::Value;

use super::{PROGRAM, Server, run};

/// A countdown becomes a task. It is the same after every kill: while it works, while it asks, and
/// when it has ended.
#[test]
fn a_detached_task_survives_kills() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path());
    let (id, hint, code) = run(&["call", server.url(), "countdown", "from=25", "--detach"], "");
    assert_eq!(code, 0, "{hint}");
    let id = id.trim();
    assert!(hint.contains(&format!("mcp-flow tasks watch {} {id}", server.url())), "{hint}");
    let working = get(&server, id);
    assert_eq!((&working["status"], &working["taskId"]), (&"working".into(), &id.into()));

    let server = restart(server, folder.path());
    let resumed = get(&server, id);
    assert_eq!(resumed["createdAt"], working["createdAt"]);
    let asking = until(&server, id, "input_required");
    assert_eq!(asking["createdAt"], working["createdAt"]);

    let server = restart(server, folder.path());
    assert_eq!(get(&server, id), asking);
    let (text, _, _) = run(&["tasks", "get", server.url(), id], "");
    assert!(text.starts_with(&format!("{id}  input_required\n  launch: Launch?")), "{text}");
    // Nobody answers, and the task keeps waiting.
    let (_, problem, code) = run(&["tasks", "watch", server.url(), id], "");
    assert_eq!(code, 2, "{problem}");
    assert!(problem.contains("mcp-flow tasks answer TARGET"), "{problem}");
    assert_eq!(get(&server, id), asking);

    let (_, problem, code) = run(&["tasks", "answer", server.url(), id, "perhaps"], "");
    assert_eq!(code, 2, "{problem}");
    let answer = ["tasks", "answer", server.url(), id, "launch=yes", "--format", "json"];
    let (answered, problem, code) = run(&answer, "");
    assert_eq!(code, 0, "{problem}");
    let done: Value = serde_json::from_str(&answered).unwrap();
    assert_eq!(done["result"]["structuredContent"]["launched"], true, "{done}");

    let server = restart(server, folder.path());
    assert_eq!(get(&server, id), done);
    let (text, problem, code) = run(&["tasks", "watch", server.url(), id], "");
    assert_eq!(code, 0, "{problem}");
    assert!(text.starts_with(&format!("{id}  completed\n")), "{text}");
    let (_, problem, code) = run(&["tasks", "answer", server.url(), id, "yes"], "");
    assert_eq!(code, 1, "{problem}");
    let (cancelled, _, code) = run(&["tasks", "cancel", server.url(), id, "--format", "json"], "");
    assert_eq!((serde_json::from_str::<Value>(&cancelled).unwrap(), code), (done, 0));
}

/// A watched task asks in the terminal; a cancelled one has failed; an unknown one is named so.
#[test]
fn tasks_are_watched_and_cancelled() {
    let server = Server::start(&[]);
    let id = detach(&server);
    let (text, problem, code) = run(&["tasks", "watch", server.url(), &id], "yes\n");
    assert_eq!(code, 0, "{problem}");
    assert!(text.contains("completed"), "{text}");
    let id = detach(&server);
    let (text, problem, code) = run(&["tasks", "cancel", server.url(), &id], "");
    assert_eq!(code, 0, "{problem}");
    assert!(text.starts_with(&format!("{id}  cancelled")), "{text}");
    let (_, problem, code) = run(&["tasks", "watch", server.url(), &id], "");
    assert_eq!(code, 1, "{problem}");
    for action in ["get", "watch", "cancel"] {
        let (_, problem, code) = run(&["tasks", action, server.url(), "session_unknown"], "");
        assert_eq!(code, 1, "{problem}");
        assert!(problem.contains("no such task"), "{problem}");
    }
    let (_, problem, code) = run(&["tasks", "get", server.url()], "");
    assert_eq!(code, 2, "{problem}");
    // What ends at once is no task.
    let add = ["call", server.url(), "calculator.add", "a=2", "b=3", "--detach"];
    let (text, problem, code) = run(&add, "");
    assert_eq!((text.trim(), code), ("5", 0), "{problem}");
    let old = ["--protocol-version", "2025-11-25"];
    let (_, problem, code) = run(&[&["tasks", "get", server.url(), &id], &old[..]].concat(), "");
    assert_eq!(code, 4, "{problem}");
}

/// A detached call prints the id of its task even if the flow asks at once, and asks nothing.
#[test]
fn detached_calls_leave_their_questions_to_the_task() {
    let server = Server::start(&[]);
    for words in [&["countdown"][..], &["countdown", "from=3"], &["register"]] {
        let (id, problem, code) =
            run(&[&["call", server.url()], words, &["--detach"]].concat(), "");
        assert_eq!(code, 0, "{words:?}: {problem}");
        assert!(problem.contains("mcp-flow tasks watch"), "{words:?}: {problem}");
        let asking = until(&server, id.trim(), "input_required");
        assert_eq!(asking["taskId"], id.trim(), "{words:?}");
    }
}

fn detach(server: &Server) -> String {
    let (id, problem, code) = run(&["call", server.url(), "countdown", "from=15", "--detach"], "");
    assert_eq!(code, 0, "{problem}");
    id.trim().to_owned()
}

fn start(folder: &Path) -> Server {
    let store = format!("redb:{}", folder.join("journal.redb").display());
    Server::start(&["--store", &store])
}

/// Kills a server with SIGKILL, and starts another on its store.
fn restart(server: Server, folder: &Path) -> Server {
    drop(server);
    start(folder)
}

fn get(server: &Server, id: &str) -> Value {
    let (text, problem, code) = run(&["tasks", "get", server.url(), id, "--format", "json"], "");
    assert_eq!(code, 0, "{PROGRAM}: {problem}");
    serde_json::from_str(&text).unwrap()
}

fn until(server: &Server, id: &str, status: &str) -> Value {
    let begun = Instant::now();
    loop {
        let task = get(server, id);
        if task["status"] == status {
            return task;
        }
        assert!(begun.elapsed() < LIMIT, "the task stays {task} and is never {status}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
