//! aioquic and cbor2: an independent client of MCP-Flow 0.1.

use interop::{Served, python, run};

/// WT-002 to WT-004, WT-010 to WT-012, WT-029, WT-030, WT-034, WT-035, C-03.
#[tokio::test]
async fn the_sample_of_the_text_is_answered() {
    check("the_sample_of_the_text").await;
}

/// WT-011, C-03: a client that copied the wrong length gets an error, without waiting.
#[tokio::test]
async fn the_wrong_length_of_the_text_is_refused() {
    check("the_wrong_length_of_the_text").await;
}

/// WT-029, WT-031, WT-032, WT-035.
#[tokio::test]
async fn the_first_encoding_the_server_knows_is_used() {
    check("encodings").await;
}

/// WT-007, WT-008, WT-033, WT-034, WT-038, WT-039.
#[tokio::test]
async fn a_handshake_may_be_retried() {
    check("a_handshake_that_fails_first").await;
}

/// WT-015, WT-036, WT-040 to WT-043.
#[tokio::test]
async fn tools_are_listed_and_called_in_both_encodings() {
    check("lists_and_calls").await;
}

/// WT-013.
#[tokio::test]
async fn frames_do_not_depend_on_how_they_arrive() {
    check("frames_in_pieces").await;
}

/// WT-016, WT-050 to WT-052, WT-054 to WT-056, C-16.
#[tokio::test]
async fn three_streams_run_in_parallel() {
    check("three_parallel_streams").await;
}

/// WT-018, C-13.
#[tokio::test]
async fn a_call_whose_id_no_header_can_carry_gets_no_stream() {
    check("an_id_no_header_can_carry").await;
}

/// WT-019 to WT-022, WT-025, WT-028, C-15, C-45.
#[tokio::test]
async fn progress_is_sent_by_datagram_and_its_end_reliably() {
    check("datagrams").await;
}

/// WT-026, C-15.
#[tokio::test]
async fn audio_is_sent_in_numbered_chunks() {
    check("audio").await;
}

/// WT-058 to WT-061, C-02, C-12.
#[tokio::test]
async fn cancelling_stops_work_streams_and_datagrams() {
    check("cancelling").await;
}

/// WT-049: refusing one stream leaves the session intact.
#[tokio::test]
async fn a_client_may_refuse_a_stream() {
    check("refusing_a_stream").await;
}

/// WT-005, WT-062 to WT-065, C-20.
#[tokio::test]
async fn shutting_down_completes_what_is_in_flight() {
    check("shutting_down").await;
}

/// WT-017, WT-047, WT-049, C-16.
#[tokio::test]
async fn an_injected_stream_is_stopped_and_reported() {
    check("injected_streams").await;
}

/// WT-037.
#[tokio::test]
async fn the_wrong_encoding_is_refused_in_the_right_one() {
    check("the_wrong_encoding").await;
}

/// WT-036, WT-040: tags, NaN, indefinite lengths, and false lengths.
#[tokio::test]
async fn unusual_cbor_is_answered() {
    check("strange_cbor").await;
}

/// WT-014.
#[tokio::test]
async fn a_length_of_four_gigabytes_is_refused() {
    check("a_length_of_four_gigabytes").await;
}

/// WT-006, WT-015.
#[tokio::test]
async fn a_stream_that_ends_inside_a_frame_ends_its_session_alone() {
    check("a_stream_that_ends_inside_a_frame").await;
}

/// WT-009, WT-068.
#[tokio::test]
async fn only_allowed_origins_and_paths_connect() {
    check("doors").await;
}

/// WT-067.
#[tokio::test]
async fn tls_1_2_is_not_enough() {
    check("an_older_tls").await;
}

/// Runs one scenario against a program of its own, which must survive it.
async fn check(scenario: &str) {
    let folder = tempfile::tempdir().expect("a directory to read files from");
    let served = Served::with(["--root".as_ref(), folder.path().as_os_str()]).await;
    let mut client = python("python/webtransport.py");
    client.args([scenario, served.url("webtransport"), served.certificate_hash()]);
    let outcome = run(client.arg(folder.path())).await;
    assert!(outcome.code == Some(0) && outcome.stderr.is_empty(), "{scenario}: {outcome:#?}");
    served.stop().await;
}
