//! Tab completion of paths.

use std::path::Path;

use inquire::CustomUserError;
use inquire::autocompletion::{Autocomplete, Replacement};

/// Suggests the entries of the folder that is typed so far.
#[derive(Clone)]
pub(super) struct Paths;

impl Autocomplete for Paths {
    fn get_suggestions(&mut self, input: &str) -> Result<Vec<String>, CustomUserError> {
        Ok(with_prefix(input))
    }

    fn get_completion(
        &mut self,
        input: &str,
        highlighted: Option<String>,
    ) -> Result<Replacement, CustomUserError> {
        Ok(highlighted.or_else(|| common_prefix(&with_prefix(input))))
    }
}

/// Lists paths with a prefix. Folders end in a slash; hidden entries need their dot in the prefix.
fn with_prefix(typed: &str) -> Vec<String> {
    let (folder, start) = match typed.rfind('/') {
        Some(slash) => typed.split_at(slash + 1),
        None => ("", typed),
    };
    let directory = if folder.is_empty() { Path::new(".") } else { Path::new(folder) };
    // An unreadable folder has no suggestions.
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .flatten()
        .take(MAX_READ)
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let wanted =
                name.starts_with(start) && (start.starts_with('.') || !name.starts_with('.'));
            let slash = if entry.path().is_dir() { "/" } else { "" };
            (wanted && !name.contains(char::is_control)).then(|| format!("{folder}{name}{slash}"))
        })
        .collect();
    found.sort();
    found.truncate(MAX_SHOWN);
    found
}

/// Returns the longest common prefix.
fn common_prefix(paths: &[String]) -> Option<String> {
    let (first, rest) = paths.split_first()?;
    let mut end = first.len();
    for other in rest {
        let same = first.char_indices().zip(other.chars()).find(|((_, one), other)| one != other);
        end = end.min(same.map_or(first.len().min(other.len()), |((index, _), _)| index));
    }
    first.get(..end).map(str::to_owned)
}

const MAX_READ: usize = 10_000;
const MAX_SHOWN: usize = 100;

#[cfg(test)]
mod tests {
    use super::{common_prefix, with_prefix};

    #[test]
    fn a_prefix_is_completed_as_far_as_it_is_unambiguous() {
        let folder = tempfile::tempdir().unwrap();
        let base = format!("{}/", folder.path().display());
        for name in ["notes-a.txt", "notes-b.txt", ".hidden"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("photos")).unwrap();
        for (typed, completed) in [
            ("n", Some("notes-")),
            ("notes-a", Some("notes-a.txt")),
            ("ph", Some("photos/")),
            (".", Some(".hidden")),
            ("x", None),
        ] {
            let found = common_prefix(&with_prefix(&format!("{base}{typed}")));
            assert_eq!(found, completed.map(|rest| format!("{base}{rest}")), "{typed}");
        }
        assert_eq!(with_prefix(&base).len(), 3);
    }
}
