//! The file of a recording.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;

use mcp_flow_cassette::{Recorder, RecordingFile, StdioRelay};
use mcp_flow_testkit::wait::within;

/// An earlier recording is replaced, and nothing else.
#[test]
fn a_recording_replaces_only_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    for _ in 0..2 {
        Recorder::create(&path, "stdio", "x", &[]).unwrap().finish();
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    }
    std::fs::write(&path, "my notes").unwrap();
    assert!(Recorder::create(&path, "stdio", "x", &[]).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "my notes");
}

/// The contents of a file are kept until recording begins.
#[test]
fn a_recording_that_does_not_begin_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    Recorder::create(&old, "stdio", "x", &[]).unwrap().finish();
    let before = std::fs::read_to_string(&old).unwrap();
    drop((RecordingFile::open(&old).unwrap(), RecordingFile::open(&new).unwrap()));
    assert_eq!(std::fs::read_to_string(&old).unwrap(), before);
    assert!(!new.exists(), "what was created for nothing is removed");
}

/// Calls continue without a recording if there is no room for one at the start.
#[test]
fn a_full_disk_at_the_start_is_no_error() {
    let recorder = Recorder::create(Path::new("/dev/full"), "stdio", "x", &[]).unwrap();
    recorder.record_message(true, 1, b"{\"method\":\"x\"}");
    let summary = recorder.finish();
    assert!(summary.messages == 0 && summary.stopped.is_some(), "{summary:?}");
}

#[test]
fn two_recorders_do_not_write_to_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let first = Recorder::create(&path, "stdio", "first", &[]).unwrap();
    let error = Recorder::create(&path, "stdio", "second", &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(error.to_string().contains("another program is recording"), "{error}");
    first.finish();
    assert!(std::fs::read_to_string(&path).unwrap().contains("first"));
    Recorder::create(&path, "stdio", "second", &[]).unwrap().finish();
    assert!(std::fs::read_to_string(&path).unwrap().contains("second"));
}

/// The server gets SIGTERM, and what it says then is relayed.
#[tokio::test]
async fn a_recorded_server_is_asked_to_exit() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(&folder.path().join("a"), "stdio", "x", &[]).unwrap();
    let script = "trap 'echo gone; exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let command = ["sh", "-c", script].map(OsString::from);
    let relay = StdioRelay::spawn(&command).unwrap();
    let (client, output) = tokio::io::duplex(1024);
    let (input, _kept) = tokio::io::duplex(1024);
    let (ready, is_ready) = tokio::sync::oneshot::channel();
    let reading = async {
        use tokio::io::AsyncBufReadExt as _;
        let mut lines = tokio::io::BufReader::new(client).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("ready"));
        ready.send(()).unwrap();
        lines.next_line().await.unwrap()
    };
    let stop = async { is_ready.await.unwrap() };
    let relaying = relay.run(input, output, &recorder, stop);
    let (status, said) =
        within("the server to exit", async { tokio::join!(relaying, reading) }).await;
    assert_eq!((status.unwrap().code(), said.as_deref()), (Some(7), Some("gone")));
}
