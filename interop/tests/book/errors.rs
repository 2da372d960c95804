//! The list of errors in docs/errors.md, and the errors in the code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{files, read, root};

/// Errors of the code, as `domain NAME code code`, are those of the page, and so are the names of
/// failures without a code.
#[test]
fn all_errors_are_documented() {
    let page = read("docs/errors.md");
    let mut documented = BTreeSet::new();
    let mut names = BTreeSet::new();
    for section in page.split("\n## ").skip(1) {
        let domain = section.lines().next().unwrap().trim_start_matches("Domain ").replace('`', "");
        for row in section.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            let name = cells[1].trim_matches('`');
            names.insert(name.to_owned());
            if cells[2].parse::<i32>().is_ok() && cells[3].parse::<i32>().is_ok() {
                documented.insert(format!("{domain} {name} {} {}", cells[2], cells[3]));
            }
        }
    }
    let mut constants = BTreeSet::new();
    let mut used = BTreeSet::new();
    for (krate, source) in sources() {
        constants.extend(kinds(&krate, &source));
        used.extend(failures(&source));
    }
    assert!(constants.len() > 40 && used.len() > 20, "{constants:#?} {used:#?}");
    let missing: Vec<_> = constants.difference(&documented).collect();
    let stale: Vec<_> = documented.difference(&constants).collect();
    assert!(missing.is_empty() && stale.is_empty(), "missing: {missing:#?}\nstale: {stale:#?}");
    let known: BTreeSet<_> = constants.iter().map(|kind| kind.split(' ').nth(1).unwrap()).collect();
    let used: BTreeSet<_> = used.iter().map(String::as_str).chain(known).collect();
    let names: BTreeSet<_> = names.iter().map(String::as_str).collect();
    let missing: Vec<_> = used.difference(&names).collect();
    let stale: Vec<_> = names.difference(&used).collect();
    assert!(missing.is_empty() && stale.is_empty(), "missing: {missing:#?}\nstale: {stale:#?}");
}

/// The constants of kind `RpcErrorKind` in a source, as `domain NAME code code`.
fn kinds(krate: &str, source: &str) -> Vec<String> {
    let constants = source.split(": RpcErrorKind =").skip(1);
    constants.filter_map(|rest| kind(krate, rest.split_once(';').unwrap().0)).collect()
}

fn kind(krate: &str, constant: &str) -> Option<String> {
    // One kind with another message.
    if constant.contains("..") {
        return None;
    }
    let name = quoted(constant).find(|text| is_name(text))?;
    let numbers: Vec<i32> = constant
        .split(|one: char| one != '-' && !one.is_ascii_alphanumeric() && one != '_' && one != '"')
        .filter_map(|word| word.parse().ok())
        .collect();
    let domain = match krate {
        "proto" if constant.contains("::flow(") => "flow",
        "proto" => "mcp",
        "client" if constant.contains("\"interaction\"") => "interaction",
        "client" => "mcp",
        krate => krate,
    };
    let [code, stateless] = match (krate, numbers.as_slice()) {
        ("gateway", &[stateless]) => [-32000, stateless],
        ("interaction", &[number]) => [-32000 - number, -31000 - number],
        (_, &[code]) => [code, code],
        (_, &[code, stateless]) => [code, stateless],
        _ => panic!("{krate}: {constant}"),
    };
    Some(format!("{domain} {name} {code} {stateless}"))
}

/// Names of failures and of errors that are written as JSON.
fn failures(source: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for marker in ["Failure::new(", " failure(", "\"name\":", "FaultName::"] {
        for rest in source.split(marker).skip(1) {
            let next = rest.trim_start().trim_start_matches(|one: char| one.is_alphanumeric());
            let next = next.strip_prefix(" => ").unwrap_or(next);
            if next.starts_with('"')
                && let Some(name) = quoted(next).next().filter(|name| is_name(name))
            {
                names.insert(name.to_owned());
            }
        }
    }
    names
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}

fn is_name(text: &str) -> bool {
    text.len() > 3 && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

/// Sources of the crates by crate, without tests and comments.
fn sources() -> BTreeMap<String, String> {
    let mut sources = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let krate = folder.file_name().unwrap().to_str().unwrap().to_owned();
        if !krate.starts_with("testkit") && folder.join("src").is_dir() {
            let mut text = String::new();
            collect(&folder.join("src"), &mut text);
            sources.insert(krate, text);
        }
    }
    sources
}

fn collect(folder: &Path, text: &mut String) {
    for file in files(folder, "rs") {
        let source = std::fs::read_to_string(&file).unwrap();
        let code = source.split("#[cfg(test)]\nmod tests").next().unwrap();
        let is_test = file.ends_with("tests.rs");
        for line in code.lines().filter(|line| !is_test && !line.trim_start().starts_with("//")) {
            text.push_str(line);
            text.push('\n');
        }
    }
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            collect(&path, text);
        }
    }
}
