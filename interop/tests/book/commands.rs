//! Commands after a `$` on the pages of the site: each is run, or listed here with the reason why not.

use std::collections::BTreeSet;
use std::path::Path;

use super::{files, read, root};
use crate::readme;

/// Commands that are not run: how they begin, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("./dist", "takes minutes; tests/packages.rs and ./test dist run it"),
    ("./test ", "runs this test"),
    ("cargo ", "builds the program; the quick starts and ./dist do"),
    ("docker ", "needs a daemon; tests/packages.rs imports the image"),
    ("interop/install", "was run before this test"),
    ("journalctl ", "needs systemd"),
    ("kubectl ", "needs a cluster; book/kubernetes.rs checks the manifest"),
    ("mdbook ", "book.rs builds the site with the same library"),
    ("MCP_FLOW_CONSOLE=", "reads the console from disk; for its development"),
    ("MCP_FLOW_TOKEN=… ", "follows kubectl"),
    (
        "mcp-flow doctor --config /etc/",
        "needs an installed package; tests/packages.rs checks its file",
    ),
    (
        "mcp-flow login https://",
        "needs an authorization server; tests/login.rs of the program logs in to one",
    ),
    (
        "mcp-flow serve --listen 0.0.0.0:443",
        "needs a certificate and its port; tests/access.rs of the program serves with one",
    ),
    (
        "mcp-flow pack ",
        "takes minutes with a program that is not optimized; tests/pack.rs packs it",
    ),
    ("node interop/browser/console/readme.mjs ", "tests/console.rs makes the screenshots"),
    ("podman ", "needs a container runtime"),
    ("skopeo copy ", "needs a daemon; tests/packages.rs imports the image"),
    ("sudo ", "needs systemd; tests/packages.rs installs the package"),
    ("sudoedit ", "needs an editor"),
];

/// What pages say is there before their commands.
const SETUP: &[(&str, &str)] = &[
    ("docs/tools.md", "cp GITHUB openapi.json\n"),
    (
        "docs/bridge.md",
        r#"mkdir -p src .cursor
echo '{"mcpServers": {"example": {"url": "https://mcp.example.com/mcp"}}}' >.mcp.json
"#,
    ),
    ("docs/configuration.md", CONFIGURATION),
    ("docs/operations/deployment.md", CONFIGURATION),
    (
        "docs/gateway.md",
        r#"echo '{"mcpServers": {"everything": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"]}}}' >servers.json
printf '[servers.own]\ncommand = "mcp-flow"\nargs = ["stdio", "--store", "memory:"]\ngateway = true\n' >flow.toml
"#,
    ),
];

const CONFIGURATION: &str = "printf '[serve]\nlisten = \"127.0.0.1:8080\"\n' >flow.toml\n";

/// Commands that ask, and fail because nobody answers, by their end.
const ASKING: &[&str] = &[" book_trip", " workflow run code-review", " workflow resume $run"];

/// Pages with `sh` blocks, and the tests that run all of them.
const SCRIPTS: &[(&str, &str)] = &[
    ("README.md", "readme::quick_starts_work"),
    ("docs/cluster.md", "book::nodes_share_a_database"),
    ("docs/getting-started.md", "book::the_first_ten_minutes_work"),
    ("docs/migration/fastmcp.md", "book::migrated_servers_work"),
    ("docs/migration/mcp-remote.md", "book::migrated_servers_work"),
    ("docs/operations/maintenance.md", "book::backups_can_be_restored"),
];

/// Languages of blocks that show no commands.
const SHOWN: &[&str] = &["js", "json", "jsonrpc", "python", "rust", "text", "toml", "yaml"];

/// Beginnings of commands, which have no place in blocks that show something else.
const PROGRAMS: &[&str] =
    &["$ ", "./", "cargo ", "curl ", "docker ", "kubectl ", "mcp-flow ", "npx ", "sudo "];

/// Every block says what it is, and commands are in those that are run.
#[test]
fn commands_are_in_blocks_that_are_run() {
    let mut problems = Vec::new();
    let mut scripts = BTreeSet::new();
    // The map of the code is drawn with indentation.
    for page in pages().into_iter().filter(|page| page != "ARCHITECTURE.md") {
        let text = read(&page);
        let (mut language, mut is_after_blank) = (None, true);
        for (index, line) in text.lines().enumerate() {
            let mut problem = |what: &str| problems.push(format!("{page}:{}: {what}", index + 1));
            match (language, line.strip_prefix("```")) {
                (None, Some(kind)) => {
                    // Without what is said of it, as in `rust,no_run`.
                    let kind = kind.split([',', ' ']).next().unwrap_or_default();
                    language = Some(kind);
                    // Those of the guide are compiled as documentation.
                    let is_rust = page.starts_with("crates/") && matches!(kind, "" | "no_run");
                    if kind == "sh" {
                        scripts.insert(page.clone());
                    } else if kind != "console" && !is_rust && !SHOWN.contains(&kind) {
                        problem(&format!("a block of kind {kind:?}"));
                    }
                }
                (Some(_), Some(_)) => language = None,
                (None, None) if is_after_blank && line.starts_with("    ") => {
                    problem("an indented block; name its language after ```");
                }
                (Some(kind), None) if SHOWN.contains(&kind) => {
                    let is_key = line.contains(" = ");
                    if !is_key && PROGRAMS.iter().any(|program| line.starts_with(program)) {
                        problem("a command that is not run; make it a `console` block");
                    }
                }
                _ => {}
            }
            is_after_blank = line.is_empty();
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let scripts: Vec<_> = scripts.iter().map(String::as_str).collect();
    assert_eq!(scripts, SCRIPTS.iter().map(|(page, _)| *page).collect::<Vec<_>>());
}

/// Commands print what is shown below them, where `…` stands for anything.
#[test]
fn commands_print_what_their_pages_show() {
    let mut unused: Vec<_> = NOT_RUN.iter().map(|(start, _)| *start).collect();
    let mut count = 0;
    for page in pages() {
        let mut commands = commands(&read(&page));
        commands.retain(|(command, _)| {
            let known = NOT_RUN.iter().find(|(start, _)| command.starts_with(start));
            unused.retain(|start| known.is_none_or(|(known, _)| known != start));
            known.is_none()
        });
        if commands.is_empty() {
            continue;
        }
        count += commands.len();
        let output = readme::run(&script(&page, &commands));
        for (index, (command, shown)) in commands.iter().enumerate() {
            let (_, mut rest) = output.split_once(&format!("## {index}\n")).unwrap();
            rest = rest.split("\n## ").next().unwrap_or_default();
            for part in shown.iter().flat_map(|line| line.split('…')) {
                let found = rest.find(part);
                let found = found.unwrap_or_else(|| {
                    panic!("{page}: {command}: {part:?} is missing in\n{output}")
                });
                rest = &rest[found + part.len()..];
            }
        }
    }
    assert!(unused.is_empty(), "no page has these commands: {unused:?}");
    assert!(count > 60, "{count} commands");
}

/// The commands of a page, each after a line with its number, beside a server. One that listens where an
/// earlier one does takes its place.
fn script(page: &str, commands: &[(String, Vec<String>)]) -> String {
    let github = root().join("interop/specifications/.installed/github.com/api.github.com.json");
    let setup = SETUP.iter().find(|(of, _)| *of == page).map(|(_, setup)| *setup);
    let mut script = setup.unwrap_or_default().replace("GITHUB", &github.display().to_string());
    let mut listening = BTreeSet::new();
    for (index, command) in std::iter::once("mcp-flow serve --store memory:")
        .chain(commands.iter().map(|(command, _)| command.as_str()))
        .enumerate()
    {
        if let Some(number) = index.checked_sub(1) {
            script.push_str(&format!("echo '## {number}'\n"));
        }
        match listening_port(command) {
            Some(port) => {
                if !listening.insert(port) {
                    script.push_str(&format!("kill $server_{port}; wait $server_{port}\n"));
                }
                script.push_str(&format!("{command} &\nserver_{port}=$!\n"));
            }
            None if ASKING.iter().any(|end| command.ends_with(end)) => {
                script.push_str(&format!("{command} || true\n"));
            }
            None => script.push_str(&format!("{command}\n")),
        }
    }
    script.replace("https://mcp.example.com/mcp", "http://127.0.0.1:4433/mcp")
}

/// The port that a command listens on until it is stopped.
fn listening_port(command: &str) -> Option<&str> {
    match command.split_once("--listen 127.0.0.1:") {
        Some((_, rest)) => rest.split(' ').next(),
        None if command.contains("mcp-flow serve") => Some("4433"),
        None => command.contains("mcp-flow ui").then_some("4434"),
    }
}

/// Commands in the `console` blocks of a page, with the lines shown below each.
fn commands(text: &str) -> Vec<(String, Vec<String>)> {
    let blocks = text.split("\n```console\n").skip(1);
    let blocks = blocks.filter_map(|rest| Some(rest.split_once("\n```")?.0));
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for line in blocks.flat_map(str::lines) {
        let last = commands.last_mut();
        match (line.strip_prefix("$ "), last) {
            (Some(command), _) => {
                let command = command.split_once("  #").map_or(command, |(command, _)| command);
                commands.push((command.trim_end().to_owned(), Vec::new()));
            }
            (None, Some((command, shown))) => match is_complete(command) {
                true if line.is_empty() => {}
                // In a terminal, a question is marked.
                true => shown.push(line.trim_start_matches("? ").to_owned()),
                false => command.push_str(&format!("\n{line}")),
            },
            (None, None) => panic!("a block begins with {line:?}"),
        }
    }
    commands
}

/// Returns whether a command does not continue on the next line.
fn is_complete(command: &str) -> bool {
    !command.ends_with('\\') && command.matches('\'').count().is_multiple_of(2)
}

/// All pages, but not the reference of the command line.
fn pages() -> Vec<String> {
    let folders = [
        "",
        "console",
        "docs",
        "docs/book",
        "docs/migration",
        "docs/operations",
        "crates/mcp-flow/guide",
    ];
    let found = folders.iter().flat_map(|folder| files(&root().join(folder), "md"));
    let found = found.filter(|path| !path.ends_with("docs/cli.md"));
    let name = |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    found.map(|path| name(&path)).collect()
}
