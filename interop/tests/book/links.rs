//! Links of the pages that mdBook has written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Returns the links of a page that lead nowhere, with what is wrong with them.
pub(super) fn broken(page: &Path, pages: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let links = attributes(&pages[page], &["href", "src"]);
    links
        .iter()
        .filter_map(|link| {
            let problem = problem(link, page, pages)?;
            Some(format!("{}: {link}: {problem}", page.display()))
        })
        .collect()
}

fn problem(link: &str, page: &Path, pages: &BTreeMap<PathBuf, String>) -> Option<&'static str> {
    if let Some((scheme, rest)) = link.split_once(':')
        && scheme.bytes().all(|byte| byte.is_ascii_lowercase())
    {
        let is_local = rest.starts_with("//127.0.0.1") || rest.starts_with("//localhost");
        let has_host = rest.starts_with("//") && rest.contains('.') && !rest.contains(' ');
        let is_valid = scheme == "https" && has_host || scheme == "http" && is_local;
        return (!is_valid).then_some("external links begin with https:// and a host");
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => page.to_owned(),
        path => normal(&page.parent().unwrap().join(path)),
    };
    if !target.is_file() {
        return Some("there is no such file");
    }
    let has_anchor = || pages.get(&target).is_some_and(|text| has_id(text, anchor));
    (!anchor.is_empty() && !has_anchor()).then_some("there is no such heading")
}

fn has_id(html: &str, id: &str) -> bool {
    attributes(html, &["id"]).contains(id)
}

/// Values of attributes in the tags of a page.
fn attributes(html: &str, names: &[&str]) -> BTreeSet<String> {
    let mut values = BTreeSet::new();
    for name in names {
        for rest in html.split(&format!(" {name}=\"")).skip(1) {
            let value = rest.split('"').next().unwrap();
            values.insert(value.replace("&amp;", "&").replace("&#39;", "'"));
        }
    }
    values
}

/// Resolves `..` without looking at the file system.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path {
        match part.to_str() {
            Some("..") => _ = normal.pop(),
            Some(".") => {}
            _ => normal.push(part),
        }
    }
    normal
}
