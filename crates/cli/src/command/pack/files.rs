//! Files of a project of tool files.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::usage;

/// Lists the files of a project, sorted by their paths in it.
///
/// Hidden files stay out, because they hold sessions and secrets, and so does what builds produce and
/// what only images and tests need. A link could lead anywhere, so it is an error.
pub(super) fn list(folder: &Path, output: &Path) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let output = output.canonicalize().ok();
    let (mut found, mut waiting) = (Vec::new(), vec![(folder.to_owned(), String::new())]);
    while let Some((folder, prefix)) = waiting.pop() {
        let cannot = || format!("cannot read {}", folder.display());
        for entry in std::fs::read_dir(&folder).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            let path = entry.path();
            let Ok(name) = entry.file_name().into_string() else {
                return Err(usage(format!("the name of {} is not Unicode", path.display())));
            };
            let is_produced = path.canonicalize().ok() == output || name == "target";
            let is_left_out = prefix.is_empty()
                && (["Dockerfile", "test"].contains(&name.as_str()) || name.ends_with(".deb"));
            if name.starts_with('.') || name == "node_modules" || is_produced || is_left_out {
                continue;
            }
            let kind = entry.file_type().with_context(cannot)?;
            let name = format!("{prefix}{name}");
            if kind.is_dir() {
                waiting.push((path, format!("{name}/")));
            } else if kind.is_file() {
                found.push((path, name));
            } else {
                let message = "is not a regular file, and a bundle holds nothing else; remove it, \
                               or replace a link by a copy";
                return Err(usage(format!("{} {message}", path.display())));
            }
            if found.len() + waiting.len() > MAX_FILES {
                return Err(usage(format!("{} has more than {MAX_FILES} files", folder.display())));
            }
        }
    }
    found.sort_by(|(_, one), (_, other)| one.cmp(other));
    Ok(found)
}

/// Most files of a project. A larger directory was named by mistake.
const MAX_FILES: usize = 10_000;
