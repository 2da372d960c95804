//! `mcp-flow record`, `replay` and `verify` of the real program.

use std::path::Path;
use std::process::{Command, Stdio};

use mcp_flow::client::{Client, HttpOptions, Program, connector};
use mcp_flow_testkit::wait::output;
use serde_json::{Value, json};
use tokio::time::{Duration, timeout};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

const LIMIT: Duration = Duration::from_secs(60);

const SERVER: [&str; 4] = ["stdio", "--store", "memory:", "--diagnostics"];

async fn connect(program: Program) -> Client {
    timeout(LIMIT, Client::builder().connect(program)).await.expect("it connects").unwrap()
}

async fn call(client: &Client, name: &str, arguments: Value) -> String {
    let call = client.call_tool(name, arguments).into_future();
    timeout(LIMIT, call).await.expect("the call ends").unwrap().text()
}

fn verify(file: &Path, junit: &Path, server: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(PROGRAM);
    command.arg("verify").arg(file).arg("--junit").arg(junit).arg("--").arg(PROGRAM).args(server);
    let ended = output(&mut command);
    let said = [ended.stdout, ended.stderr].concat();
    (ended.status.code(), String::from_utf8(said).unwrap())
}

#[tokio::test]
async fn a_server_is_recorded_replayed_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let (file, junit) = (folder.path().join("a.jsonl"), folder.path().join("a.xml"));
    let record = Program::new(PROGRAM)
        .arguments(["record".as_ref(), file.as_os_str(), "--mask=message".as_ref(), "--".as_ref()])
        .arguments([PROGRAM])
        .arguments(SERVER);
    let client = connect(record).await;
    assert_eq!(call(&client, "calculator.add", json!({"a": 2, "b": 3})).await, "5");
    call(&client, "echo", json!({"text": "password=between-us and peace"})).await;
    client.tools().all().await.unwrap();
    client.close().await;
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("\"end\"") && !text.contains("between-us") && text.contains("and peace"),
        "{text}"
    );

    let replay = Program::new(PROGRAM).arguments(["replay".as_ref(), file.as_os_str()]);
    let client = connect(replay).await;
    for _ in 0..3 {
        assert_eq!(call(&client, "calculator.add", json!({"b": 3, "a": 2})).await, "5");
    }
    let unknown = client.call_tool("calculator.add", json!({"a": 2, "b": 4})).await.unwrap_err();
    assert_eq!(unknown.server().unwrap().name(), Some("NOT_RECORDED"), "{unknown}");
    client.close().await;

    let (code, said) = verify(&file, &junit, &SERVER);
    assert_eq!(code, Some(0), "{said}");
    assert!(std::fs::read_to_string(&junit).unwrap().contains("failures=\"0\" errors=\"0\""));
    // A check that compared less than was recorded does not pass.
    let cut = folder.path().join("cut.jsonl");
    std::fs::write(&cut, &text[..text.trim_end().rfind('\n').unwrap() + 1]).unwrap();
    let (code, said) = verify(&cut, &junit, &SERVER);
    assert!(
        code == Some(1) && said.contains("record again") && said.contains(" 0 differ"),
        "{said}"
    );
    assert!(std::fs::read_to_string(&junit).unwrap().contains("failures=\"0\" errors=\"1\""));
    let (code, said) = verify(&file, &junit, &SERVER[..3]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("echo") && said.contains("differ"), "{said}");
    assert!(std::fs::read_to_string(&junit).unwrap().contains("<failure"));
}

/// Calls continue when the disk is full, and the file says where recording stopped.
#[tokio::test]
async fn a_full_disk_ends_the_recording_and_not_the_calls() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.jsonl");
    // A limit on the size of files acts like a full disk.
    let script = "ulimit -f 64; exec \"$@\"";
    let record = Program::new("bash")
        .arguments(["-c", script, "bash", PROGRAM, "record", file.to_str().unwrap(), "--", PROGRAM])
        .arguments(SERVER);
    let client = connect(record).await;
    for number in 0..100 {
        let message = format!("{number}{}", "x".repeat(500));
        assert!(call(&client, "echo", json!({"text": message})).await.contains("xxx"));
    }
    client.close().await;
    let text = std::fs::read_to_string(&file).unwrap();
    let last = text.lines().last().unwrap();
    assert!(last.contains("\"stopped\"") && text.ends_with('\n'), "{last}");
    assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    // What was recorded is replayed.
    let replay = Program::new(PROGRAM).arguments(["replay".as_ref(), file.as_os_str()]);
    let client = connect(replay).await;
    let message = format!("0{}", "x".repeat(500));
    assert!(call(&client, "echo", json!({"text": message})).await.contains("xxx"));
    client.close().await;
}

/// Calls go on without a recording if there is no room for its first line, and no empty file is left.
#[tokio::test]
async fn a_full_disk_at_the_start_does_not_end_the_calls() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.jsonl");
    for (file, limit) in [("/dev/full", "unlimited"), (file.to_str().unwrap(), "0")] {
        let script = format!("ulimit -f {limit}; exec \"$@\"");
        let record = Program::new("bash")
            .arguments(["-c", &script, "bash", PROGRAM, "record", file, "--", PROGRAM])
            .arguments(SERVER);
        let client = connect(record).await;
        assert_eq!(call(&client, "calculator.add", json!({"a": 2, "b": 3})).await, "5");
        client.close().await;
    }
    assert!(!file.exists());
}

/// The recorder survives the limit on the size of files; its server does not inherit that.
#[test]
fn a_recorded_server_has_its_signals() {
    let folder = tempfile::tempdir().unwrap();
    let server = "ulimit -f 1; head -c 100000 /dev/zero > big";
    let mut record = Command::new(PROGRAM);
    record.current_dir(folder.path()).args(["record", "a.jsonl", "--", "bash", "-c", server]);
    let ended = output(&mut record);
    assert_eq!(ended.status.code(), Some(128 + 25), "{ended:?}");
}

/// A process that prints its endpoints as JSON, killed when dropped.
async fn serve(arguments: &[&str]) -> (tokio::process::Child, Value) {
    use tokio::io::{AsyncBufReadExt as _, BufReader};
    let mut command = tokio::process::Command::new(PROGRAM);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    timeout(LIMIT, out.read_line(&mut line)).await.expect("it prints its endpoints").unwrap();
    let endpoints = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
    (child, endpoints)
}

async fn connect_to(url: &str) -> Client {
    let connector = connector(url, &HttpOptions::new()).unwrap();
    timeout(LIMIT, Client::builder().connect_by(connector)).await.expect("it connects").unwrap()
}

/// Every HTTP transport is recorded, and the recording is served over HTTP.
#[tokio::test]
async fn http_is_recorded_and_replayed() {
    let up =
        ["serve", "--json", "--store", "memory:", "--no-webtransport", "--listen", "127.0.0.1:0"];
    let (_server, places) = serve(&up).await;
    let folder = tempfile::tempdir().unwrap();
    for kind in ["mcp", "sse", "websocket"] {
        let file = folder.path().join(kind);
        let target = places[kind].as_str().unwrap();
        let record = ["record", file.to_str().unwrap(), "--json", "--listen", "127.0.0.1:0"];
        let (mut recorder, relay) = serve(&[&record[..], &["--target", target]].concat()).await;
        let client = connect_to(relay["mcp"].as_str().unwrap()).await;
        assert_eq!(call(&client, "calculator.add", json!({"a": 2, "b": 3})).await, "5", "{kind}");
        client.close().await;
        let id = rustix::process::Pid::from_raw(recorder.id().unwrap().try_into().unwrap());
        rustix::process::kill_process(id.unwrap(), rustix::process::Signal::TERM).unwrap();
        timeout(LIMIT, recorder.wait()).await.expect("it ends after SIGTERM").unwrap();
        let replay = ["replay", file.to_str().unwrap(), "--json", "--listen", "127.0.0.1:0"];
        let (_replay, mock) = serve(&replay).await;
        let client = connect_to(mock["mcp"].as_str().unwrap()).await;
        assert_eq!(call(&client, "calculator.add", json!({"a": 2, "b": 3})).await, "5", "{kind}");
        client.close().await;
    }
}

/// Content beside the messages is recorded by its digest: by the server, and by a recorder in between.
#[tokio::test]
async fn downloads_are_recorded_by_their_digest() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = folder.path().join("recorded");
    let shared = folder.path().canonicalize().unwrap().join("shared");
    std::fs::create_dir(&shared).unwrap();
    let content = "0123456789".repeat(300_000);
    std::fs::write(shared.join("big.txt"), &content).unwrap();
    let digest = ring::digest::digest(&ring::digest::SHA256, content.as_bytes());
    let sha256: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let up = ["serve", "--json", "--store", "memory:", "--listen", "127.0.0.1:0", "--root"];
    let up = [&up[..], &[shared.to_str().unwrap(), "--record", recorded.to_str().unwrap()]];
    let (mut server, places) = serve(&up.concat()).await;
    let file = folder.path().join("relayed.jsonl");
    let record = ["record", file.to_str().unwrap(), "--json", "--listen", "127.0.0.1:0"];
    let target = ["--target", places["mcp"].as_str().unwrap()];
    let (mut recorder, relay) = serve(&[&record[..], &target].concat()).await;
    let saved = folder.path().join("saved");
    let hash = ["--certificate-hash", places["certificateHash"].as_str().unwrap()];
    let uri = format!("file://{}/big.txt", shared.display());
    let (relayed, direct) =
        (relay["mcp"].as_str().unwrap(), places["webtransport"].as_str().unwrap());
    let bridged = folder.path().join("bridged.jsonl");
    let bridge =
        ["--", PROGRAM, "record", bridged.to_str().unwrap(), "--", PROGRAM, "bridge", direct];
    for url in [relayed, direct, "through a bridge"] {
        let mut read = Command::new(PROGRAM);
        read.arg("read").arg("--output").arg(&saved);
        // Streams of WebTransport are in the results of a bridge to a pipe.
        let read = match url {
            "through a bridge" => read.arg(&uri).args(bridge).args(hash),
            url if url == direct => read.args([url, &uri]).args(hash),
            url => read.args([url, &uri]),
        };
        let ended = output(read);
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        let file = std::fs::read_dir(&saved).unwrap().next().unwrap().unwrap().path();
        assert!(std::fs::read_to_string(&file).unwrap() == content, "{url}");
        std::fs::remove_dir_all(&saved).unwrap();
    }
    for process in [&mut recorder, &mut server] {
        let id = rustix::process::Pid::from_raw(process.id().unwrap().try_into().unwrap());
        rustix::process::kill_process(id.unwrap(), rustix::process::Signal::TERM).unwrap();
        timeout(LIMIT, process.wait()).await.expect("it ends after SIGTERM").unwrap();
    }
    let own = std::fs::read_dir(&recorded).unwrap().next().unwrap().unwrap().path();
    for (file, downloads) in [(file, 1), (own, 3)] {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines = text.lines().filter(|line| line.contains("\"download\""));
        let lines: Vec<_> = lines.filter(|line| line.contains(&sha256)).collect();
        assert_eq!(lines.len(), downloads, "{lines:#?}");
    }
}

/// A server records its own traffic, without secrets; the recording is replayed and verified.
#[tokio::test]
async fn a_server_records_its_own_traffic() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = folder.path().join("new/recorded");
    let (mut server, places) = serve(&[
        "serve",
        "--json",
        "--store",
        "memory:",
        "--no-webtransport",
        "--diagnostics",
        "--listen",
        "127.0.0.1:0",
        "--record",
        recorded.to_str().unwrap(),
        "--mask",
        "b",
    ])
    .await;
    for kind in ["mcp", "websocket"] {
        let client = connect_to(places[kind].as_str().unwrap()).await;
        assert_eq!(call(&client, "calculator.add", json!({"a": 2, "b": 3})).await, "5");
        call(&client, "echo", json!({"text": "password=between-us"})).await;
        client.close().await;
    }
    let id = rustix::process::Pid::from_raw(server.id().unwrap().try_into().unwrap());
    rustix::process::kill_process(id.unwrap(), rustix::process::Signal::TERM).unwrap();
    timeout(LIMIT, server.wait()).await.expect("it ends after SIGTERM").unwrap();
    let file = std::fs::read_dir(&recorded).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"end\"") && !text.contains("between-us"), "{text}");
    assert_eq!(text.matches("\"name\":\"calculator.add\",\"arguments\"").count(), 2, "{text}");
    assert_eq!(text.matches("\"b\":\"[masked]\"").count(), 2, "{text}");
    let replay = Program::new(PROGRAM).arguments(["replay".as_ref(), file.as_os_str()]);
    let client = connect(replay).await;
    assert_eq!(call(&client, "calculator.add", json!({"a": 2, "b": 3})).await, "5");
    client.close().await;
    // A directory that cannot be created is reported before anything is served.
    let ended = output(
        Command::new(PROGRAM).args(["serve", "--listen", "127.0.0.1:0", "--record"]).arg(&file),
    );
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.code() == Some(2) && said.contains("cannot create"), "{said}");
}

#[test]
fn bad_cassettes_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a");
    for (text, said) in [
        ("", "not a cassette"),
        ("{\"cassette\": 99}\n", "update mcp-flow"),
        ("{\"cassette\": 1}\noops\n{}\n", "line 2"),
    ] {
        std::fs::write(&file, text).unwrap();
        let ended = output(Command::new(PROGRAM).arg("replay").arg(&file).stdin(Stdio::null()));
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(2), "{told}");
        assert!(told.contains(said), "{told}");
    }
    std::fs::write(&file, "my notes").unwrap();
    let ended = output(Command::new(PROGRAM).arg("record").arg(&file).args(["--", "true"]));
    assert_eq!(ended.status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "my notes");
}

/// A start that fails leaves an earlier recording as it was, and creates none.
#[test]
fn a_failed_start_leaves_a_recording_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (file, new) = (folder.path().join("a.jsonl"), folder.path().join("b.jsonl"));
    let recorded = output(Command::new(PROGRAM).arg("record").arg(&file).args(["--", "true"]));
    assert_eq!(recorded.status.code(), Some(0), "{recorded:?}");
    let before = std::fs::read_to_string(&file).unwrap();
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = busy.local_addr().map(|address| (busy, address.to_string())).unwrap();
    for arguments in [
        &["--", "no-such-program-here"][..],
        &["--target", "http://localhost:1/mcp", "--listen", &busy.1],
        &["--target", "ftp://me:hunter2@host", "--listen", "127.0.0.1:0"],
        &["--target", "tcp://localhost:1", "--listen", "127.0.0.1:0"],
        &["--listen", "127.0.0.1:0", "--", "true"],
    ] {
        for file in [&file, &new] {
            let failed = output(Command::new(PROGRAM).arg("record").arg(file).args(arguments));
            assert_ne!(failed.status.code(), Some(0), "{arguments:?}");
            let said = String::from_utf8_lossy(&failed.stderr);
            assert!(!said.contains("hunter2"), "{said}");
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), before, "{arguments:?}");
        assert!(!new.exists(), "{arguments:?}");
    }
}

/// The command line of a server is recorded without secrets, and its exit code is that of the recorder.
#[test]
fn a_command_is_recorded_without_secrets_and_its_end_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.jsonl");
    let record = |script: &str| {
        let mut command = Command::new(PROGRAM);
        command.arg("record").arg(&file).args(["--", "sh", "-c", script, "server"]);
        output(command.args(["--password", "hunter2", "-u", "me:hunter2"])).status.code()
    };
    assert_eq!(record("exit 3"), Some(3));
    assert_eq!(record("kill -9 $$"), Some(128 + 9), "it was killed");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("hunter2") && text.contains("--password [masked]"), "{text}");
}

/// A recording without responses fails the verification, and CI reads why.
#[test]
fn a_verification_of_nothing_fails() {
    let folder = tempfile::tempdir().unwrap();
    let (file, junit) = (folder.path().join("a.jsonl"), folder.path().join("a.xml"));
    let asked = "{\"from\":\"client\",\"message\":{\"id\":1,\"method\":\"ping\"}}\n";
    for (lines, program, reason) in [
        ("", "true", "nothing can be verified"),
        (asked, "cat", "nothing can be verified"),
        (asked, "no-such-program-here", "cannot start"),
    ] {
        std::fs::write(&file, format!("{{\"cassette\":1}}\n{lines}")).unwrap();
        let _ = std::fs::remove_file(&junit);
        let mut command = Command::new(PROGRAM);
        command.arg("verify").arg(&file).arg("--junit").arg(&junit).args(["--", program]);
        let ended = output(&mut command);
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        let code = if program.starts_with("no-such") { 3 } else { 2 };
        assert!(ended.status.code() == Some(code) && said.contains(reason), "{program}: {said}");
        let written = std::fs::read_to_string(&junit).unwrap();
        assert!(written.contains("errors=\"1\"") && written.contains(reason), "{written}");
    }
}
