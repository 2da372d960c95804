//! The documentation site in docs/book: it builds, its links work, and what its pages say is true.

mod commands;
mod errors;
mod kubernetes;
mod links;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mcp_flow_proto::webtransport::{
    AudioChunk, Datagram, DatagramChannel, StreamHeader, write_frame,
};
use mcp_flow_testkit::postgres::PostgresServer;

use crate::readme;

/// Every page is in the summary, every link leads to a page and a heading that exist, and the search
/// has an index.
#[test]
fn the_site_is_complete_and_its_links_work() {
    let book = mdbook_driver::MDBook::load(root().join("docs/book")).unwrap();
    book.build().unwrap();
    let site = book.build_dir_for("html").canonicalize().unwrap();

    let summary = read("docs/SUMMARY.md");
    for (folder, prefix) in [
        ("docs", "("),
        ("docs/migration", "(migration/"),
        ("docs/operations", "(operations/"),
        ("docs/spec", "(spec/"),
        ("crates/mcp-flow/guide", "(../crates/mcp-flow/guide/"),
    ] {
        for page in files(&root().join(folder), "md") {
            let name = page.file_name().unwrap().to_str().unwrap();
            let is_linked = name == "SUMMARY.md" || summary.contains(&format!("{prefix}{name})"));
            assert!(is_linked, "{folder}/{name} is missing in docs/SUMMARY.md");
        }
    }

    let mut pages = BTreeMap::new();
    for folder in ["", "book", "guide", "migration", "operations", "spec"] {
        for page in files(&site.join(folder), "html") {
            // Its links begin at the root of a web server.
            if !page.ends_with("404.html") {
                let text = std::fs::read_to_string(&page).unwrap();
                pages.insert(page, text);
            }
        }
    }
    assert!(pages.len() > 50, "{} pages", pages.len());
    let broken: Vec<_> = pages.keys().flat_map(|page| links::broken(page, &pages)).collect();
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));

    let scripts = files(&site, "js");
    let is_index = |file: &&PathBuf| file.to_string_lossy().contains("searchindex");
    let index = scripts.iter().find(is_index).expect("the site has a search index");
    let index = std::fs::read_to_string(index).unwrap();
    for word in ["INVALID_STREAM_REFERENCE", "pg_dump", "kubectl"] {
        assert!(index.contains(word), "{word} cannot be found");
    }
}

/// The commands of the first ten minutes work in the order given.
#[test]
fn the_first_ten_minutes_work() {
    let output = readme::run(&blocks("docs/getting-started.md", "sh").concat());
    contains(
        &output,
        &[
            "calculator.add",
            "\n5\n",
            "The question is still open.",
            "The server is gone.",
            "waiting_user  register",
            "Ada is registered",
            "tools/disk.usage.yaml: valid",
            "2 passed",
            "Deployed shop to staging",
            "\"orders\"",
        ],
    );
}

/// A store is backed up while it is served, and restored: a session that waited can be answered, one
/// that began later is gone.
#[test]
fn backups_can_be_restored() {
    let page = blocks("docs/operations/maintenance.md", "sh");
    let [back_up, dump, check, restore, restore_dump] = page.try_into().unwrap();
    let sqlite = "sqlite:/var/lib/mcp-flow/journal.db";
    let script = serve(sqlite)
        + &ask("Ada")
        + &back_up
        + &check
        + &ask("Late")
        + "kill -9 $!; wait $! || true\ntruncate --size 1000 /var/lib/mcp-flow/journal.db\n"
        + &restore
        + &serve(sqlite)
        + ANSWER;
    let script = script
        .replace("/var/lib/mcp-flow", "state")
        .replace("/var/backups/mcp-flow", "backup")
        .replace("/tmp/check", "check");
    let output = readme::run(&script);
    contains(&output, &["\nok\n", "1 open", "Ada is registered"]);

    let server = PostgresServer::shared();
    let [served, restored] = [(); 2].map(|()| format!("'{}'", server.create_database()));
    let script =
        "export MCP_FLOW_STORE_KEY=$(head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=')\n"
            .to_owned()
            + &serve(&served)
            + &ask("Ada")
            + &dump
            + &ask("Late")
            + "kill -9 $!; wait $! || true\n"
            + &restore_dump
            + &serve(&restored) + ANSWER;
    let script = script
        .replace("postgres://flow@db.example/flows", &served)
        .replace("postgres://flow@db.example/restored", &restored);
    contains(&readme::run(&script), &["1 open", "Ada is registered"]);
}

/// A node on a database of PostgreSQL continues the session that another has left.
#[test]
fn nodes_share_a_database() {
    let page = blocks("docs/cluster.md", "sh").concat();
    let server = PostgresServer::shared();
    let folder = server.socket().parent().unwrap().display().to_string();
    let (first, serve) = page.trim_end().rsplit_once('\n').unwrap();
    let script = format!("export PGHOST={folder} PGUSER=flow\n{first}\n{serve} &\n")
        + &ask("Ada")
        + "kill -9 $!; wait $! || true\n"
        + &format!("{serve} &\n")
        + ANSWER;
    let url = format!("'postgres://flow@/flows?host={folder}'");
    let output = readme::run(&script.replace("postgres://flow@db.example/flows", &url));
    contains(&output, &["1 open", "Ada is registered"]);
}

/// Commands of the migration pages work. Their code in Rust is compiled as documentation of `interop`.
#[test]
fn migrated_servers_work() {
    let output = readme::run(&blocks("docs/migration/mcp-remote.md", "sh").concat());
    contains(&output, &["Echo: served", "Echo: bridged"]);

    let [python] = blocks("docs/migration/fastmcp.md", "python").try_into().unwrap();
    let interpreter = root().join("interop/python/.venv/bin/python");
    let script = format!("cat >server.py <<'END'\n{python}END\n")
        + &blocks("docs/migration/fastmcp.md", "sh")
            .concat()
            .replace("-- python", &format!("-- {}", interpreter.display()));
    contains(&readme::run(&script), &["5\n", "\n42\n", "Dune goes to Arrakeen", "sun"]);
}

/// WT-010 to WT-012, WT-016, WT-019: the bytes in the specification are those of the code.
#[test]
fn the_test_vectors_of_webtransport_are_right() {
    let page = read("docs/webtransport.md");
    let section = page.split_once("| test vector |").unwrap().1.split_once("\n\n").unwrap().0;
    let cells = section.lines().skip(2).map(|line| line.split('`').rev().nth(1).unwrap());
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>();
    let frame = |body: &str| {
        let mut frame = Vec::new();
        write_frame(&mut frame, body.as_bytes()).unwrap();
        frame
    };
    let datagram =
        |channel, request, payload: &[u8]| Datagram { channel, request, payload }.encode();
    let chunk = AudioChunk { sequence: 3, timestamp: 60, data: &[7] }.encode();
    let expected = [
        frame("{}"),
        StreamHeader { request: 42, tag: 1 }.encode().to_vec(),
        datagram(DatagramChannel::Progress, 42, b"{}"),
        datagram(DatagramChannel::Log, 0, b"x"),
        datagram(DatagramChannel::Audio, u32::MAX, &chunk),
    ];
    let expected: Vec<_> = expected.iter().map(|bytes| hex(bytes).join(" ")).collect();
    assert_eq!(cells.collect::<Vec<_>>(), expected);

    let samples = blocks("docs/webtransport.md", "json");
    let initialize = frame(samples[0].trim_end());
    assert_eq!((hex(&initialize[..4]).join(" ").as_str(), initialize.len()), ("00 00 00 E3", 231));
}

/// Starts a server on a store.
fn serve(store: &str) -> String {
    format!("mcp-flow serve --store {store} &\n")
}

/// Leaves a session with an open question.
fn ask(name: &str) -> String {
    format!("mcp-flow call http://127.0.0.1:4433 register name={name} || true\n")
}

/// Answers the only session.
const ANSWER: &str = "
session=$(mcp-flow sessions list --url http://127.0.0.1:4433 --format plain | cut -f 1)
echo $(wc -w <<<$session) open
mcp-flow sessions answer --url http://127.0.0.1:4433 $session ada@example.com
";

fn contains(output: &str, expected: &[&str]) {
    for text in expected {
        assert!(output.contains(text), "{text:?} is missing in\n{output}");
    }
}

/// The fenced blocks of a page in a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let page = read(page);
    let blocks: Vec<_> = page
        .split(&format!("\n```{language}\n"))
        .skip(1)
        .map(|rest| format!("{}\n", rest.split_once("\n```").unwrap().0))
        .collect();
    assert!(!blocks.is_empty());
    blocks
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|one| one == extension)).collect()
}

fn read(path: &str) -> String {
    let file = root().join(path);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}
