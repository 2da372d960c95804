//! Chromium as a client, from a page.

use interop::{Served, node, rises, run};
use serde_json::json;

/// WT-009, WT-019, WT-025, WT-050, WT-051, WT-055, WT-062 to WT-065, WT-068: a page connects by the
/// fingerprint of the certificate and by no other, with a stream, datagrams and a clean close.
#[tokio::test]
async fn a_page_in_chromium_is_served_by_webtransport() {
    let folder = tempfile::tempdir().expect("a directory to read files from");
    let file = folder.path().join("large.txt");
    let text: String = (0..300_000).map(|line| format!("line {line:>9}\n")).collect();
    std::fs::write(&file, &text).expect("a file to read");
    let served = Served::with(["--root".as_ref(), folder.path().as_os_str()]).await;
    let mut client = node("browser/client.mjs");
    client.args([served.url("http"), served.url("webtransport"), served.certificate_hash()]);
    let outcome = run(client.arg(file)).await;
    // Chromium's own errors about its environment are not about the server.
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let seen = outcome.json();

    assert_eq!(seen["otherCertificate"], "refused");
    assert_eq!(seen["transport"]["encoding"], "json");
    let tools = seen["tools"].as_array().expect("a list of tools");
    assert!(tools.contains(&json!("read_file")), "{tools:?}");

    let download = &seen["download"];
    let item =
        json!({"type": "ref/stream", "streamTag": download["tag"], "mimeType": "text/plain"});
    for (member, expected) in item.as_object().expect("an object") {
        assert_eq!(&download["item"][member], expected, "{download}");
    }
    assert_eq!(download["request"], download["answered"], "{download}");
    assert_eq!(download["bytes"], text.len());
    assert_eq!(download["isWhole"], true);

    assert_eq!(seen["slept"]["text"], "slept 500 ms");
    let datagrams = seen["progress"].as_array().expect("a list of datagrams");
    for datagram in datagrams {
        let header = [&datagram["flags"], &datagram["request"]];
        assert_eq!(header, [&json!(0), &seen["slept"]["id"]], "{datagram}");
    }
    rises(
        &datagrams.iter().filter_map(|datagram| datagram["progress"].as_f64()).collect::<Vec<_>>(),
    );
    assert_eq!(seen["lastProgress"], json!([["notifications/progress", 450]]));
    let closed = &seen["closed"];
    assert!(closed["closeCode"] == 0 || closed["lost"].is_string(), "{seen}");
    served.stop().await;
}
