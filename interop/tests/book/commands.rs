//! Commands after a `$` on the pages of the site: each is run, or listed here with the reason why not.

use std::path::Path;

use super::{files, read, root};
use crate::readme;

/// Commands that are not run: how they begin, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("cargo ", "builds the program; the quick starts and ./dist do"),
    ("docker ", "needs a daemon; tests/packages.rs imports the image"),
    ("journalctl ", "needs systemd"),
    ("kubectl ", "needs a cluster; book/kubernetes.rs checks the manifest"),
    ("MCP_FLOW_TOKEN=… ", "follows kubectl"),
    (
        "mcp-flow doctor --config /etc/",
        "needs an installed package; tests/packages.rs checks its file",
    ),
    (
        "mcp-flow pack ",
        "takes minutes with a program that is not optimized; tests/pack.rs packs it",
    ),
    ("podman ", "needs a container runtime"),
    ("skopeo copy ", "needs a daemon; tests/packages.rs imports the image"),
    ("sudo ", "needs systemd; tests/packages.rs installs the package"),
    ("sudoedit ", "needs an editor"),
];

/// What pages say is there before their commands.
const SETUP: &[(&str, &str)] = &[("docs/tools.md", "cp GITHUB openapi.json\n")];

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
    assert!(count > 10, "{count} commands");
}

/// The commands of a page, each after a line with its number, beside a server if none of them is one.
fn script(page: &str, commands: &[(String, Vec<String>)]) -> String {
    let is_server = |command: &str| command.starts_with("mcp-flow serve");
    let github = root().join("interop/specifications/.installed/github.com/api.github.com.json");
    let setup = SETUP.iter().find(|(of, _)| *of == page).map(|(_, setup)| *setup);
    let mut script = setup.unwrap_or_default().replace("GITHUB", &github.display().to_string());
    if !commands.iter().any(|(command, _)| is_server(command)) {
        script.push_str("mcp-flow serve --store memory: &\n");
    }
    for (index, (command, _)) in commands.iter().enumerate() {
        // Nobody answers the question of this one.
        let end = match command {
            server if is_server(server) => " &",
            asking if asking.ends_with(" book_trip") => " || true",
            _ => "",
        };
        script.push_str(&format!("echo '## {index}'\n{command}{end}\n"));
    }
    script
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
    let folders = ["", "docs", "docs/migration", "docs/operations", "crates/mcp-flow/guide"];
    let found = folders.iter().flat_map(|folder| files(&root().join(folder), "md"));
    let name = |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    found.map(|path| name(&path)).collect()
}
