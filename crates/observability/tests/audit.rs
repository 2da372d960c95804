//! The audit log is tamper-evident, and continues after its server is killed.

use std::path::{Path, PathBuf};

use mcp_flow_observability::audit::{
    Audit, AuditError, ChainError, Expected, OverflowPolicy, VerifyError, verify,
};
use mcp_flow_proto::Revision;
use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_server::{ConnectionInfo, Context, Failure, Principal, Server, Tool};
use mcp_flow_testkit_fixture::memory::connect_with;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Writes a log of one client: `initialize`, and this many calls.
async fn write(path: &Path, key: Option<&Path>, calls: usize) {
    let audit = Audit::open(path, key, OverflowPolicy::Reject).unwrap();
    let fail = |_: &Context, _: Value| Err::<String, _>(Failure::new("NO", "it does not work"));
    let tools = [
        Tool::builder("echo").quick(|_: &Context, given: Value| given.to_string()).unwrap(),
        Tool::builder("fail").quick(fail).unwrap(),
        Tool::builder("wait")
            .handler(|_: Context, _: Value| std::future::pending::<String>())
            .unwrap(),
    ];
    let server = Server::builder("watched", "1.0.0").tools(tools).observer(audit.clone());
    let server = server.build().unwrap();
    let info =
        ConnectionInfo { principal: Principal::named("ada"), ..ConnectionInfo::new("memory") };
    let mut peer = connect_with(&server, info);
    peer.initialize(Revision::V2025_11_25).await;
    let secret = json!({"password": "s3cret"});
    for number in 0..calls {
        let name = ["echo", "fail", "absent\n\"\u{1b}[2J"][number % 3];
        peer.call_tool(name, secret.clone()).await;
    }
    if calls > 3 {
        let id = peer.ask("tools/call", json!({"name": "wait", "arguments": {}}));
        peer.call("ping", json!({})).await;
        peer.notify("notifications/cancelled", json!({"requestId": id}));
        peer.call("ping", json!({})).await;
    }
    audit.close();
}

fn check(path: &Path, keys: Option<&KeyRing>) -> Result<u64, VerifyError> {
    verify(&[path.to_owned()], keys, &Expected::default()).map(|verified| verified.entries)
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    (folder, path)
}

/// Calls are recorded with their outcome, without arguments and results.
#[tokio::test]
async fn calls_are_recorded_without_arguments_and_results() {
    let (_folder, path) = folder();
    write(&path, None, 4).await;
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("s3cret") && !text.contains("does not work"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
    let lines = lines(&path);
    let fields = |line: &Value| {
        let of = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        (of("event"), of("method"), of("target"), of("outcome"))
    };
    let expected = [
        ("start", "", "", ""),
        ("call", "initialize", "", "ok"),
        ("call", "tools/call", "echo", "ok"),
        ("call", "tools/call", "fail", "failed"),
        ("call", "tools/call", "absent\n\"\u{1b}[2J", "UNKNOWN_TOOL"),
        ("call", "tools/call", "echo", "ok"),
        ("call", "ping", "", "ok"),
        // A cancelled call has no reply, but may have had effects.
        ("call", "tools/call", "wait", "CANCELLED"),
        ("call", "ping", "", "ok"),
        ("stop", "", "", ""),
    ];
    let expected = expected.map(|(event, method, target, outcome)| {
        (event.to_owned(), method.to_owned(), target.to_owned(), outcome.to_owned())
    });
    assert_eq!(lines.iter().map(fields).collect::<Vec<_>>(), expected);
    assert_eq!(lines[2]["principal"], "ada");
    assert_eq!(lines[2]["transport"], "memory");
    assert!(lines[2]["connection"].is_u64() && lines[2]["ms"].is_f64(), "{}", lines[2]);
    assert_eq!(lines[4]["code"], -32602);
    assert!(lines[2]["time"].as_str().unwrap().ends_with('Z'));
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }
}

/// The first invalid line is reported, whatever was done to the log.
#[tokio::test]
async fn every_change_is_detected() {
    let (folder, path) = folder();
    write(&path, None, 3).await;
    let good = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    let count = lines.len();
    assert_eq!(check(&path, None).unwrap(), count as u64);
    let joined = |lines: &[&str]| lines.join("\n") + "\n";
    let without = |at: usize| joined(&[&lines[..at], &lines[at + 1..]].concat());
    let swapped = |one: usize, other: usize| {
        let mut lines = lines.clone();
        lines.swap(one, other);
        joined(&lines)
    };
    let missing = |found, expected| ChainError::OutOfPlace { found, expected };
    // An attacker who knows the format, but not the key.
    let forged = lines[2].replace("\"ok\"", "\"failed\"");
    for (what, text, line, broken) in [
        ("a name changed", good.replacen("echo", "Echo", 1), 3, ChainError::Changed),
        ("a byte changed", good.replacen("\"ada\"", "\"adb\"", 1), 2, ChainError::Changed),
        ("a hash changed", joined(&[lines[0], &forged, lines[2]]), 2, ChainError::Changed),
        ("a space put in", good.replacen("\"seq\":", "\"seq\": ", 1), 1, ChainError::Changed),
        ("the first taken out", without(0), 1, ChainError::NoBeginning(2)),
        ("one taken out", without(2), 3, missing(4, 3)),
        ("two swapped", swapped(1, 2), 2, missing(3, 2)),
        ("the ends swapped", swapped(0, count - 1), 1, ChainError::NoBeginning(count as u64)),
        ("one put in twice", joined(&[lines[0], lines[1], lines[1]]), 3, missing(2, 3)),
        ("a foreign line put in", joined(&[lines[0], "{}", lines[1]]), 2, ChainError::Changed),
        ("an empty line put in", joined(&[lines[0], "", lines[1]]), 2, ChainError::Changed),
        ("rubbish at the end", good.clone() + "\0\0\0\n", count + 1, ChainError::Changed),
        (
            "one cut short",
            good.trim_end()[..good.len() - 9].to_owned(),
            count,
            ChainError::Unfinished,
        ),
        ("a line break cut off", good.trim_end().to_owned(), count, ChainError::Unfinished),
    ] {
        let changed = folder.path().join("changed");
        std::fs::write(&changed, text).unwrap();
        let found = match check(&changed, None) {
            Err(VerifyError::Broken { line, broken, .. }) => Some((line, broken)),
            _ => None,
        };
        assert_eq!(found, Some((line as u64, broken)), "{what}");
    }
}

/// Truncation by whole lines is detected by comparing with a later hash.
#[tokio::test]
async fn truncation_is_detected_by_a_later_hash() {
    let (_folder, path) = folder();
    write(&path, None, 2).await;
    let files = [path.clone()];
    let last = verify(&files, None, &Expected::default()).unwrap().last;
    let expected = Expected { holds: last, ..Expected::default() };
    assert!(verify(&files, None, &expected).is_ok());
    let text = std::fs::read_to_string(&path).unwrap();
    let end = text.trim_end().rfind('\n').unwrap() + 1;
    std::fs::write(&path, &text[..end]).unwrap();
    assert!(check(&path, None).is_ok());
    assert!(matches!(verify(&files, None, &expected), Err(VerifyError::Missing(_))));
    let wrong = Expected { after: Some("ABC".to_owned()), ..Expected::default() };
    assert!(matches!(verify(&files, None, &wrong), Err(VerifyError::NoHash(_))));
}

/// With a key, only its holder can append a valid line.
#[tokio::test]
async fn lines_cannot_be_forged_without_the_key() {
    let (folder, path) = folder();
    let key = folder.path().join("key");
    write(&path, Some(&key), 2).await;
    let keys = mcp_flow_seal::file::load(&key).unwrap();
    assert_eq!(check(&path, Some(&keys)).unwrap(), 5);
    let other = KeyRing::new(Key::from_bytes([1; 32]));
    for wrong in [None, Some(&other)] {
        let error = check(&path, wrong).unwrap_err().to_string();
        assert!(error.contains("line 1") && error.contains("another key"), "{error}");
    }
    // A chain without a key can be written by anyone, and is invalid where a key is expected.
    let forged = folder.path().join("forged");
    write(&forged, None, 2).await;
    assert!(check(&forged, Some(&keys)).is_err());
    assert!(matches!(
        Audit::open(&path, None, OverflowPolicy::Reject),
        Err(AuditError::Broken { .. })
    ));
    // A new key in front of the old one continues the same chain.
    mcp_flow_seal::file::rotate(&key, Key::from_bytes([2; 32]), 2).unwrap();
    write(&path, Some(&key), 1).await;
    let keys = mcp_flow_seal::file::load(&key).unwrap();
    assert_eq!(check(&path, Some(&keys)).unwrap(), 9);
}

/// Wherever a write was interrupted, the next server marks it and continues.
#[tokio::test]
async fn incomplete_lines_are_marked_and_the_log_continues() {
    let (_folder, path) = folder();
    write(&path, None, 1).await;
    let whole = std::fs::read(&path).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for (cut, mended) in [
        (last, 0),
        (last + 1, 1),
        (last + 40, 1),
        (whole.len() - 2, 1),
        // Only the line break is missing, so the line counts.
        (whole.len() - 1, 0),
        (whole.len(), 0),
        // Nothing but half of the first line.
        (10, 1),
    ] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        write(&path, None, 1).await;
        // Interrupted again while marking.
        let again = std::fs::read(&path).unwrap();
        let verified = verify(std::slice::from_ref(&path), None, &Expected::default()).unwrap();
        assert_eq!(verified.mended, mended, "cut at {cut}");
        if mended > 0 {
            std::fs::write(&path, &again[..cut + 30]).unwrap();
            if cut > 10 {
                write(&path, None, 1).await;
                assert!(check(&path, None).is_ok(), "cut again at {cut}");
            }
            // The mark belongs to the bytes it marks.
            let unmarked = [&again[..last.min(cut)], &again[cut + 1..]].concat();
            std::fs::write(&path, unmarked).unwrap();
            assert!(check(&path, None).is_err(), "cut at {cut}");
        }
    }
    // A complete line that is invalid was changed, and the log is not continued.
    let changed = String::from_utf8(whole).unwrap().replace("stop", "stop ");
    std::fs::write(&path, changed).unwrap();
    assert!(matches!(
        Audit::open(&path, None, OverflowPolicy::Reject),
        Err(AuditError::Broken { .. })
    ));
}

/// A rotated log continues in a new file, and both form one chain.
#[tokio::test]
async fn a_chain_continues_from_file_to_file() {
    let (folder, path) = folder();
    let old = folder.path().join("audit.1");
    let audit = Audit::open(&path, None, OverflowPolicy::Reject).unwrap();
    assert!(matches!(
        Audit::open(&path, None, OverflowPolicy::Reject),
        Err(AuditError::Taken { .. })
    ));
    std::fs::rename(&path, &old).unwrap();
    audit.reopen();
    audit.reopen();
    audit.close();
    let files = [old.clone(), path.clone()];
    let verified = verify(&files, None, &Expected::default()).unwrap();
    assert_eq!((verified.entries, lines(&path).len()), (2, 1));
    let alone = check(&path, None).unwrap_err().to_string();
    assert!(alone.contains("--previous-hash"), "{alone}");
    let before = verify(&[old], None, &Expected::default()).unwrap().last;
    let after = Expected { after: before, ..Expected::default() };
    assert!(verify(&[path], None, &after).is_ok());
    let pipe = Audit::open(folder.path(), None, OverflowPolicy::Reject).unwrap_err();
    assert!(matches!(pipe, AuditError::NoFile { .. }), "{pipe}");
}

/// INT-111: rejected clients are recorded with their address and the number of others, without
/// anything they sent.
#[tokio::test]
async fn rejected_clients_are_recorded() {
    let (_folder, path) = folder();
    let audit = Audit::open(&path, None, OverflowPolicy::Reject).unwrap();
    let server = Server::builder("watched", "1.0.0").observer(audit.clone()).build().unwrap();
    let peer = "192.0.2.7:1234".parse().unwrap();
    for _ in 0..1000 {
        server.denied("http", Some(peer), "token");
    }
    audit.close();
    check(&path, None).unwrap();
    let denied: Vec<_> =
        lines(&path).into_iter().filter(|line| line["event"] == "denied").collect();
    assert!(!denied.is_empty() && denied.len() < 100, "{denied:?}");
    assert_eq!(denied[0]["peer"], "192.0.2.7:1234");
    assert_eq!((&denied[0]["transport"], &denied[0]["reason"]), (&json!("http"), &json!("token")));
}
