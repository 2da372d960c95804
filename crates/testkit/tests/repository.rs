//! Rules of the repository: dependencies between crates, length of files, licences of dependencies,
//! and the crate list in ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

/// Crates of the workspace that each may depend on, outside its tests. `proto` and `session` may
/// have neither a runtime nor a clock.
const MAY_USE: [(&str, &[&str]); 45] = [
    ("mcp-flow-proto", &[]),
    ("mcp-flow-principal", &[]),
    ("mcp-flow-schema", &["mcp-flow-proto"]),
    ("mcp-flow-seal", &[]),
    ("mcp-flow-rate", &[]),
    ("mcp-flow-session", &["mcp-flow-schema"]),
    ("mcp-flow-telemetry", &["mcp-flow-proto"]),
    (
        "mcp-flow-engine",
        &[
            "mcp-flow-proto",
            "mcp-flow-session",
            "mcp-flow-rate",
            "mcp-flow-seal",
            "mcp-flow-telemetry",
        ],
    ),
    ("mcp-flow-store-rows", &["mcp-flow-session", "mcp-flow-seal"]),
    (
        "mcp-flow-store-postgres",
        &["mcp-flow-session", "mcp-flow-seal", "mcp-flow-store-rows", "mcp-flow-tls"],
    ),
    ("mcp-flow-store-redb", &["mcp-flow-session", "mcp-flow-seal", "mcp-flow-store-rows"]),
    ("mcp-flow-store-sqlite", &["mcp-flow-session", "mcp-flow-seal", "mcp-flow-store-rows"]),
    (
        "mcp-flow-server",
        &[
            "mcp-flow-principal",
            "mcp-flow-proto",
            "mcp-flow-rate",
            "mcp-flow-schema",
            "mcp-flow-seal",
            "mcp-flow-telemetry",
        ],
    ),
    ("mcp-flow-files", &["mcp-flow-proto", "mcp-flow-server"]),
    (
        "mcp-flow-client",
        &[
            "mcp-flow-session",
            "mcp-flow-proto",
            "mcp-flow-rate",
            "mcp-flow-schema",
            "mcp-flow-seal",
            "mcp-flow-telemetry",
        ],
    ),
    ("mcp-flow-stdio", &["mcp-flow-client", "mcp-flow-proto", "mcp-flow-server"]),
    ("mcp-flow-tls", &[]),
    ("mcp-flow-http-client", &["mcp-flow-client", "mcp-flow-proto", "mcp-flow-tls"]),
    (
        "mcp-flow-http",
        &[
            "mcp-flow-http-client",
            "mcp-flow-proto",
            "mcp-flow-seal",
            "mcp-flow-server",
            "mcp-flow-tls",
        ],
    ),
    (
        "mcp-flow-webtransport",
        &["mcp-flow-client", "mcp-flow-proto", "mcp-flow-server", "mcp-flow-tls"],
    ),
    (
        "mcp-flow-interaction",
        &[
            "mcp-flow-engine",
            "mcp-flow-session",
            "mcp-flow-proto",
            "mcp-flow-seal",
            "mcp-flow-server",
            "mcp-flow-telemetry",
        ],
    ),
    (
        "mcp-flow-admin",
        &[
            "mcp-flow-engine",
            "mcp-flow-session",
            "mcp-flow-interaction",
            "mcp-flow-proto",
            "mcp-flow-server",
        ],
    ),
    (
        "mcp-flow-testing",
        &[
            "mcp-flow-client",
            "mcp-flow-engine",
            "mcp-flow-interaction",
            "mcp-flow-server",
            "mcp-flow-session",
            "mcp-flow-stdio",
        ],
    ),
    ("mcp-flow-observability", &["mcp-flow-proto", "mcp-flow-seal", "mcp-flow-server"]),
    (
        "mcp-flow-otlp",
        &["mcp-flow-http-client", "mcp-flow-proto", "mcp-flow-server", "mcp-flow-telemetry"],
    ),
    ("mcp-flow-console", &["mcp-flow-http"]),
    ("mcp-flow-identity", &["mcp-flow-http-client", "mcp-flow-principal"]),
    ("mcp-flow-oauth", &["mcp-flow-client", "mcp-flow-http-client", "mcp-flow-seal"]),
    (
        "mcp-flow-workflow",
        &[
            "mcp-flow-engine",
            "mcp-flow-session",
            "mcp-flow-proto",
            "mcp-flow-schema",
            "mcp-flow-seal",
            "mcp-flow-server",
        ],
    ),
    (
        "mcp-flow-declarative",
        &[
            "mcp-flow-engine",
            "mcp-flow-http-client",
            "mcp-flow-interaction",
            "mcp-flow-proto",
            "mcp-flow-schema",
            "mcp-flow-seal",
            "mcp-flow-server",
            "mcp-flow-session",
            "mcp-flow-workflow",
        ],
    ),
    ("mcp-flow-testkit", &["mcp-flow-proto"]),
    ("mcp-flow-testkit-store", &["mcp-flow-session"]),
    (
        "mcp-flow-skills",
        &["mcp-flow-client", "mcp-flow-proto", "mcp-flow-server", "mcp-flow-workflow"],
    ),
    (
        "mcp-flow-testkit-fixture",
        &[
            "mcp-flow-engine",
            "mcp-flow-interaction",
            "mcp-flow-proto",
            "mcp-flow-server",
            "mcp-flow-session",
            "mcp-flow-testkit",
        ],
    ),
    (
        "mcp-flow-testkit-scenarios",
        &[
            "mcp-flow-client",
            "mcp-flow-files",
            "mcp-flow-interaction",
            "mcp-flow-proto",
            "mcp-flow-server",
            "mcp-flow-testkit",
            "mcp-flow-testkit-fixture",
        ],
    ),
    (
        "mcp-flow-testkit-fuzz",
        &[
            "mcp-flow-proto",
            "mcp-flow-server",
            "mcp-flow-testkit",
            "mcp-flow-testkit-fixture",
            "mcp-flow-workflow",
        ],
    ),
    ("mcp-flow-macros", &[]),
    (
        "mcp-flow",
        &[
            "mcp-flow-admin",
            "mcp-flow-client",
            "mcp-flow-console",
            "mcp-flow-engine",
            "mcp-flow-files",
            "mcp-flow-session",
            "mcp-flow-http",
            "mcp-flow-identity",
            "mcp-flow-interaction",
            "mcp-flow-macros",
            "mcp-flow-oauth",
            "mcp-flow-proto",
            "mcp-flow-seal",
            "mcp-flow-server",
            "mcp-flow-skills",
            "mcp-flow-stdio",
            "mcp-flow-store-postgres",
            "mcp-flow-store-redb",
            "mcp-flow-store-sqlite",
            "mcp-flow-testing",
            "mcp-flow-tls",
            "mcp-flow-observability",
            "mcp-flow-webtransport",
            "mcp-flow-workflow",
        ],
    ),
    ("mcp-flow-examples", &["mcp-flow"]),
    (
        "mcp-flow-gateway",
        &["mcp-flow-client", "mcp-flow-engine", "mcp-flow-proto", "mcp-flow-server"],
    ),
    (
        "mcp-flow-rmcp",
        &[
            "mcp-flow-client",
            "mcp-flow-gateway",
            "mcp-flow-proto",
            "mcp-flow-server",
            "mcp-flow-stdio",
        ],
    ),
    (
        "mcp-flow-cli",
        &[
            "mcp-flow",
            "mcp-flow-cassette",
            "mcp-flow-declarative",
            "mcp-flow-examples",
            "mcp-flow-gateway",
            "mcp-flow-otlp",
        ],
    ),
    ("mcp-flow-cassette", &["mcp-flow-http-client", "mcp-flow-proto"]),
    ("benches", &["mcp-flow-testkit"]),
    ("interop", &[]),
];

/// Crates with a clock, randomness or a runtime.
const IMPURE: [&str; 7] = ["tokio", "futures", "rand", "chrono", "time", "rustix", "getrandom"];

/// Public type names that several files use for one concept, with the reason.
const SHARED_NAMES: [(&str, &str); 8] = [
    ("BindError", "generic; every transport that listens"),
    ("Bound", "generic; every transport that listens"),
    ("Client", "the MCP client, seen from either end"),
    ("Completion", "the result of `completion/complete`, at either end"),
    ("Options", "generic; one per crate"),
    ("Prompt", "MCP and the interaction protocol both define one by this name"),
    ("Request", "a JSON-RPC request, at either end"),
    ("Signing", "message signing, at either end"),
];

/// Test programs that `./test` runs, by name.
const RUN: [&str; 3] = ["integration", "peers", "mistakes"];

const MAX_FILE_LINES: usize = 600;

/// Limit on the lines of ARCHITECTURE.md: two screens, and a table for each of three walks.
const MAX_ARCHITECTURE_LINES: usize = 160;

/// Limit on the crates that a stdio server with one tool is built of, including those of the
/// workspace.
const MAX_CRATES: usize = 90;

#[test]
fn crates_depend_only_on_those_below_them() {
    let metadata = metadata();
    let ours: BTreeSet<_> =
        metadata.workspace_packages().iter().map(|package| package.name.to_string()).collect();
    let known: BTreeMap<_, _> = MAY_USE.into_iter().collect();
    for package in metadata.workspace_packages() {
        let allowed = known
            .get(package.name.as_str())
            .unwrap_or_else(|| panic!("say in this test what {} may depend on", package.name));
        for dependency in &package.dependencies {
            if dependency.kind != DependencyKind::Normal {
                continue;
            }
            let name = dependency.name.as_str();
            let is_ours = ours.contains(name);
            assert!(!is_ours || allowed.contains(&name), "{} may not use {name}", package.name);
            let pure = ["mcp-flow-proto", "mcp-flow-session"].contains(&package.name.as_str());
            assert!(!pure || !IMPURE.contains(&name), "{} may not use {name}", package.name);
        }
    }
}

/// The default features of the library add a stdio server and nothing else.
#[test]
fn a_stdio_server_is_built_of_few_crates() {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--package", "mcp-flow", "--edges", "normal,build"])
        .args(["--prefix", "none"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).unwrap();
    let crates: BTreeSet<_> = tree.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    let count = crates.len();
    assert!(count <= MAX_CRATES, "{count} crates, find the new one in {crates:#?}");
    assert!(crates.iter().any(|name| name.starts_with("mcp-flow-stdio ")), "{crates:#?}");
}

/// A file in `tests` that its `main.rs` does not name would never run, nor would a program that
/// `./test` does not name.
#[test]
fn test_files_are_modules_of_their_binary() {
    for package in metadata().workspace_packages() {
        let targets = package.targets.iter().filter(|target| target.is_test());
        for target in targets {
            let is_run = RUN.contains(&target.name.as_str());
            assert!(is_run, "./test runs no {} of {}", target.name, package.name);
        }
        let tests = package.manifest_path.with_file_name("tests");
        let Ok(main) = std::fs::read_to_string(tests.join("main.rs")) else { continue };
        for entry in std::fs::read_dir(&tests).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy();
            let is_module = path.extension().is_some_and(|kind| kind == "rs") && name != "main";
            let named = main.contains(&format!("mod {name};"));
            assert!(!is_module || named, "{tests}/main.rs does not name {name}");
        }
    }
}

#[test]
fn files_stay_within_the_line_limit() {
    let mut long = Vec::new();
    each_file(&root(), &mut |path| {
        let kind = path.extension().unwrap_or_default().to_string_lossy();
        if ["rs", "js", "mjs", "py"].contains(&kind.as_ref()) {
            let lines = std::fs::read_to_string(path).unwrap().lines().count();
            if lines > MAX_FILE_LINES {
                long.push(format!("{} has {lines} lines", path.display()));
            }
        }
    });
    assert!(long.is_empty(), "look for the second idea in {long:?}");
}

/// Files that a crate embeds are in its package: in its directory, outside of what is excluded.
#[test]
fn embedded_files_are_packaged_with_their_crate() {
    let (mut count, mut outside) = (0, Vec::new());
    each_source(&mut |name, text| {
        let krate = name.split('/').next().unwrap();
        // Documentation that is only tested may come from anywhere.
        let text = text.split("#[cfg(doctest)]").next().unwrap();
        for rest in
            ["include_str!(", "include_bytes!("].iter().flat_map(|it| text.split(it).skip(1))
        {
            let Some(path) = rest.trim_start_matches("concat!(").strip_prefix('"') else {
                continue;
            };
            let path = path.split('"').next().unwrap();
            // A link within the crate is packaged as what it leads to.
            let mut file: Vec<_> = name.split('/').collect();
            file.pop();
            for part in path.split('/') {
                match part {
                    ".." => _ = file.pop(),
                    part => file.push(part),
                }
            }
            if !root().join("crates").join(file.join("/")).exists() {
                continue;
            }
            count += 1;
            let is_packaged =
                file.len() > 1 && file[0] == krate && !["tests", "benches"].contains(&file[1]);
            if !is_packaged {
                outside.push(format!("{name} embeds {path}"));
            }
        }
    });
    assert!(outside.is_empty(), "{outside:#?}");
    assert!(count > 40, "{count} embedded files");
}

#[test]
fn dependencies_have_accepted_licences() {
    let deny = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let deny: toml::Table = deny.parse().unwrap();
    let allowed: BTreeSet<_> = deny["licenses"]["allow"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap().to_owned())
        .collect();
    for package in metadata().packages {
        let Some(licence) = &package.license else {
            panic!("{} does not say its licence", package.name)
        };
        assert!(accepts(licence, &allowed), "{} comes under {licence}", package.name);
    }
}

/// A public type name stands for one concept, in all files. The test kits are left out: they name what
/// they imitate.
#[test]
fn public_type_names_have_one_meaning() {
    let mut files: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    each_source(&mut |path, text| {
        let types = text.lines().filter_map(|line| {
            let rest = line.trim_start().strip_prefix("pub ")?;
            let (kind, rest) = rest.split_once(' ')?;
            let end = rest.find(|character: char| !character.is_alphanumeric());
            ["struct", "enum", "trait", "type"].contains(&kind).then_some(&rest[..end?])
        });
        for name in types.filter(|_| !path.starts_with("testkit")) {
            files.entry(name.to_owned()).or_default().insert(path.to_owned());
        }
    });
    files.retain(|_, users| users.len() > 1);
    for (name, reason) in SHARED_NAMES {
        assert!(files.remove(name).is_some(), "{name} is used once, drop its exception: {reason}");
    }
    assert!(files.is_empty(), "give each concept a name of its own: {files:#?}");
}

/// A doc comment opens with a noun or a verb that a reader would search for.
#[test]
fn doc_comments_do_not_open_with_a_question() {
    const QUESTIONS: [&str; 11] = [
        "What", "How", "Whether", "Who", "Whom", "Whose", "Where", "Which", "Why", "When",
        "As what",
    ];
    let mut found = Vec::new();
    each_source(&mut |path, text| {
        let mut is_inside = false;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_start();
            let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            let opens = comment.is_some() && !is_inside;
            is_inside = comment.is_some();
            let opening = comment.unwrap_or_default().trim_start();
            let asks = |word: &&str| {
                let rest = opening.strip_prefix(*word);
                rest.is_some_and(|rest| !rest.starts_with(|letter: char| letter.is_alphabetic()))
            };
            if opens && QUESTIONS.iter().any(asks) {
                found.push(format!("{path}:{}: {opening}", number + 1));
            }
        }
    });
    assert!(found.is_empty(), "open with a noun or a verb: {found:#?}");
}

/// C-01: every error belongs to a domain in `docs/spec/conflicts.md`, so that clients can know all
/// of them.
#[test]
fn error_domains_are_documented() {
    const DOMAINS: [&str; 5] = ["interaction", "flow", "gateway", "workflow", "mcp"];
    let mut others = Vec::new();
    each_file(&root().join("crates"), &mut |path| {
        if path.extension().is_none_or(|kind| kind != "rs") || path.ends_with(file!()) {
            return;
        }
        let text = std::fs::read_to_string(path).unwrap();
        for member in ["domain: \"", "\"domain\": \"", "\"domain\".to_owned(), \""] {
            for (place, _) in text.match_indices(member) {
                let domain = text[place + member.len()..].split('"').next().unwrap_or_default();
                if !DOMAINS.contains(&domain) {
                    others.push(format!("{domain} in {}", path.display()));
                }
            }
        }
    });
    assert!(others.is_empty(), "not in the list of docs/spec/conflicts.md: {others:?}");
}

/// Every crate named in ARCHITECTURE.md exists, and every crate is named there.
#[test]
fn architecture_lists_every_crate() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let lines = text.lines().count();
    assert!(lines <= MAX_ARCHITECTURE_LINES, "ARCHITECTURE.md has {lines} lines; keep it short");
    let named: BTreeSet<_> = text
        .split(|character: char| character.is_whitespace() || character == '`')
        .filter(|word| word.starts_with("crates/"))
        .map(|word| word.trim_end_matches(['/', ',', '.', ':']).to_owned())
        .collect();
    for name in &named {
        assert!(root().join(name).exists(), "ARCHITECTURE.md names {name}, which is not there");
    }
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let name = format!("crates/{}", entry.unwrap().file_name().to_string_lossy());
        assert!(named.contains(&name), "ARCHITECTURE.md does not name {name}");
    }
}

/// The walks in ARCHITECTURE.md name files that exist, and functions that those files define.
#[test]
fn walks_name_files_and_functions_that_exist() {
    let mut sources = Vec::new();
    each_file(&root().join("crates"), &mut |path| {
        if path.extension().is_some_and(|kind| kind == "rs") {
            sources.push((path.display().to_string(), std::fs::read_to_string(path).unwrap()));
        }
    });
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let walks = text.split("\n## ").filter(|section| section.starts_with("Walk: "));
    let rows: Vec<_> = walks.flat_map(str::lines).filter(|line| line.contains("/src/")).collect();
    assert!(rows.len() > 30, "the walks have {} rows", rows.len());
    for row in rows {
        let mut defined = String::new();
        let is_separator = |letter: char| !letter.is_alphanumeric() && !"_./-".contains(letter);
        for file in row.split(is_separator).filter(|word| word.ends_with(".rs")) {
            let end = format!("/{file}");
            let found: Vec<_> = sources.iter().filter(|(path, _)| path.ends_with(&end)).collect();
            assert!(!found.is_empty(), "there is no {file}, as in {row}");
            defined.extend(found.into_iter().map(|(_, text)| &**text));
        }
        for name in row.split('`').skip(1).step_by(2).filter(|name| !name.contains('.')) {
            let name = name.rsplit("::").next().unwrap_or(name);
            let is_defined = ["fn", "trait"].iter().any(|kind| {
                let definition = format!("{kind} {name}");
                let mut after = defined.split(&definition).skip(1);
                after.any(|rest| !rest.starts_with(|letter: char| letter.is_alphanumeric()))
            });
            assert!(is_defined, "no file of this row defines {name}: {row}");
        }
    }
}

/// Evaluates a licence expression: any side of an OR, every side of an AND.
fn accepts(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let plain = expression.replace(['(', ')'], " ").replace('/', " OR ");
    plain
        .split(" OR ")
        .any(|choice| choice.split(" AND ").all(|licence| allowed.contains(licence.trim())))
}

/// Visits every source file of a crate, by its path from `crates`.
fn each_source(visit: &mut impl FnMut(&str, &str)) {
    let crates = root().join("crates");
    each_file(&crates, &mut |path| {
        let name = path.strip_prefix(&crates).unwrap().to_string_lossy();
        if name.contains("/src/") && name.ends_with(".rs") {
            visit(&name, &std::fs::read_to_string(path).unwrap());
        }
    });
}

fn each_file(folder: &Path, visit: &mut impl FnMut(&Path)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "target" || name == "node_modules" {
            continue;
        }
        if path.is_dir() { each_file(&path, visit) } else { visit(&path) }
    }
}

fn metadata() -> Metadata {
    MetadataCommand::new().manifest_path(root().join("Cargo.toml")).exec().unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
