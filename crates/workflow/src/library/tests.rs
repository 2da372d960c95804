//! Libraries of directories with valid and broken files.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;

use super::{Library, LibraryChanges, Origin};

fn write(folder: &Path, file: &str, id: &str, name: &str) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let steps = json!([{"id": "one", "title": "One", "prompt": "Do"}]);
    let text =
        json!({"id": id, "name": name, "description": "D", "version": "1.0.0", "steps": steps});
    fs::write(path, text.to_string()).unwrap();
}

/// WFL-024: bundled workflows are listed, and a later directory overrides an earlier one.
#[test]
fn later_directories_override_earlier_ones() {
    let (user, named) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(user.path(), "a.json", "code-review", "Mine");
    write(user.path(), "b.json", "only-mine", "Mine");
    write(named.path(), "c.json", "code-review", "Named");
    let directories = [(Origin::User, user.path().into()), (Origin::Named, named.path().into())];
    let library = Library::open(directories).unwrap();
    let name = |id: &str| library.find(id).map(|workflow| workflow.name.to_string());
    assert_eq!(name("code-review").as_deref(), Some("Named"));
    assert_eq!(name("only-mine").as_deref(), Some("Mine"));
    assert_eq!(name("ai-task-implementation").as_deref(), Some("AI Task Prompt Workflow"));
    assert_eq!(library.entry("code-review").unwrap().origin, Origin::Named);
    // A file that is overridden changes nothing.
    write(user.path(), "d.json", "code-review", "Another");
    let hidden = user.path().canonicalize().unwrap().join("d.json");
    assert_eq!(library.reload(&hidden), LibraryChanges::default());
    fs::remove_file(&hidden).unwrap();
    assert_eq!(library.reload(&hidden), LibraryChanges::default());
    // Removing the later one restores the earlier.
    let gone = named.path().canonicalize().unwrap().join("c.json");
    fs::remove_file(&gone).unwrap();
    assert_eq!(library.reload(&gone).listed, ["code-review".into()]);
    assert_eq!(name("code-review").as_deref(), Some("Mine"));
}

/// WFL-030: a broken file is listed under its id and its file name, and overrides nothing.
#[test]
fn broken_files_override_nothing() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "good.json", "good-one", "Good");
    write(folder.path(), "deep/er/good.json", "deep-one", "Deep");
    write(folder.path(), ".hidden/x.json", "hidden-one", "Hidden");
    for (file, text) in [
        ("not-json.json", "{\"id\": \"inner-id\", "),
        ("no-steps.yaml", "id: no-steps-here\nname: X\ndescription: X\nversion: 1.0.0\n"),
        ("code-review.json", "nothing"),
        ("notes.txt", "nothing"),
    ] {
        fs::write(folder.path().join(file), text).unwrap();
    }
    fs::write(folder.path().join("large.json"), vec![b' '; 1024 * 1024 + 1]).unwrap();
    fs::write(folder.path().join("latin.json"), b"\n\xe9").unwrap();
    // Opening it would block until there is a writer.
    let pipe = std::process::Command::new("mkfifo").arg(folder.path().join("pipe.json")).status();
    assert!(pipe.unwrap().success());
    std::os::unix::fs::symlink("pipe.json", folder.path().join("to-pipe.json")).unwrap();
    let outside = tempfile::NamedTempFile::with_suffix(".json").unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("outside.json")).unwrap();
    let inside = folder.path().join("good.json");
    std::os::unix::fs::symlink(inside, folder.path().join("inside.json")).unwrap();

    let library = Library::open([(Origin::Named, folder.path().into())]).unwrap();
    assert_eq!(&*library.find("deep-one").unwrap().category, "er");
    assert_eq!(&*library.find("good-one").unwrap().category, "general");
    assert!(library.find("hidden-one").is_none() && library.find_broken("hidden-one").is_none());
    assert!(library.find("code-review").is_some(), "the bundled one is still there");
    for (id, expected) in [
        ("not-json", "not-json.json, line 1"),
        ("inner-id", "not-json.json, line 1"),
        ("no-steps-here", "no-steps.yaml, line 1, column 1: `steps` is missing"),
        ("no-steps", "`steps` is missing"),
        ("large", "at most 1048576"),
        ("latin", "not UTF-8 from line 2"),
        ("outside", "points outside"),
        ("pipe", "not a regular file"),
        ("to-pipe", "not a regular file"),
    ] {
        let broken = library.find_broken(id).unwrap_or_else(|| panic!("{id} is unknown"));
        assert!(broken.reason().contains(expected), "{id}: {}", broken.reason());
    }
    assert_eq!(library.broken().len(), 8);
    assert!(Library::open([(Origin::Named, folder.path().join("nowhere"))]).is_err());
}

/// Changed and new files are read again, and no others.
#[test]
fn changed_files_are_reloaded() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.json", "first-one", "One");
    let library = Library::open([(Origin::Named, folder.path().into())]).unwrap();
    let (report, changes) = mpsc::channel();
    let watching = library.watch(move |changes| report.send(changes).unwrap()).unwrap();
    let next = || changes.recv_timeout(Duration::from_secs(30)).unwrap();
    let of = |id: &str| vec![Box::<str>::from(id)];

    write(folder.path(), "a.json", "first-one", "Another");
    assert_eq!(next(), LibraryChanges { listed: of("first-one"), content: of("first-one") });
    assert_eq!(&*library.find("first-one").unwrap().name, "Another");
    write(folder.path(), "b.json", "second-one", "Two");
    assert_eq!(next(), LibraryChanges { listed: of("second-one"), content: of("second-one") });
    fs::rename(folder.path().join("b.json"), folder.path().join("b.txt")).unwrap();
    assert_eq!(next().listed, of("second-one"));
    assert!(library.find("second-one").is_none());
    fs::write(folder.path().join("a.json"), "{").unwrap();
    assert_eq!(next().listed, of("first-one"));
    assert!(library.find("first-one").is_none() && library.find_broken("a").is_none());
    write(folder.path(), "sub/c.json", "third-one", "Three");
    assert_eq!(next().listed, of("third-one"));
    drop(watching);
}
