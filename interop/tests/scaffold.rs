//! Projects that `mcp-flow new` creates. The one in Rust is built and tested by the README's quick start.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The project without Rust passes its own checks.
#[test]
fn new_tool_files_pass_their_checks() {
    let folder = tempfile::tempdir().unwrap();
    let project = create(folder.path(), &["shop", "--template", "tools"]);
    let mut path = program_folder().into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let outcome = Command::new("./test").current_dir(&project).env("PATH", path).output().unwrap();
    assert!(outcome.status.success(), "{}", text(&outcome));
    assert!(text(&outcome).contains("Hello, Ada!"), "{}", text(&outcome));
}

/// An installed program creates projects that use the checkout it was built in, also in an image.
#[test]
fn installed_programs_know_their_library() {
    let folder = tempfile::tempdir().unwrap();
    let installed = folder.path().join("mcp-flow");
    std::fs::copy(interop::program(), &installed).unwrap();
    let created =
        Command::new(&installed).args(["new", "my_shop"]).current_dir(folder.path()).output();
    let created = created.unwrap();
    assert!(created.status.success(), "{}", text(&created));
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let read = |name| std::fs::read_to_string(folder.path().join("my_shop").join(name)).unwrap();
    let library = format!("path = \"{}\"", checkout.join("crates/mcp-flow").display());
    assert_eq!(read("Cargo.toml").matches(&library).count(), 2);
    assert!(read("src/main.rs").contains("my_shop::server("));
    let checkout = checkout.display();
    for (file, line) in [
        ("Dockerfile", format!("docker build --build-context checkout={checkout} .")),
        ("Dockerfile", format!("COPY --from=checkout crates {checkout}/crates\n")),
        ("README.md", format!("docker build --build-context checkout={checkout} --tag my_shop .")),
    ] {
        assert!(read(file).contains(&line), "{file}:\n{}", read(file));
    }
}

/// Names that are no crate, directories with content and a missing library are refused, and nothing
/// is written.
#[test]
fn what_cannot_be_created_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in
        ["", "Shop", "7up", "a b", "../x", "fn", "tokio", "shop-", "é", "con", &"x".repeat(65)]
            .into_iter()
            .chain(["shop_", "_shop", "serde_json"])
    {
        let outcome = new(folder.path(), &["--", name]);
        assert_eq!(outcome.status.code(), Some(2), "{name:?}: {}", text(&outcome));
    }
    std::fs::create_dir(folder.path().join("full")).unwrap();
    std::fs::write(folder.path().join("full/notes"), "mine").unwrap();
    let outcome = new(folder.path(), &["full"]);
    assert_eq!(outcome.status.code(), Some(2));
    assert!(text(&outcome).contains("full is not empty"), "{}", text(&outcome));
    let other_crate = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/proto");
    for library in ["nowhere", other_crate] {
        let outcome = new(folder.path(), &["shop", "--library", library]);
        assert_eq!(outcome.status.code(), Some(2), "{}", text(&outcome));
    }
    for path in ["full/notes", "full/notes/shop"] {
        let outcome = new(folder.path(), &["shop", "--path", path]);
        assert_eq!(outcome.status.code(), Some(2), "{}", text(&outcome));
        assert!(text(&outcome).contains(&format!("{path} is, or is in, a file")), "{outcome:?}");
    }
    let entries: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(std::fs::read_dir(folder.path().join("full")).unwrap().count(), 1);
}

fn create(folder: &Path, words: &[&str]) -> PathBuf {
    let outcome = new(folder, words);
    assert!(outcome.status.success(), "{}", text(&outcome));
    folder.join("shop")
}

fn new(folder: &Path, words: &[&str]) -> Output {
    Command::new(interop::program()).arg("new").args(words).current_dir(folder).output().unwrap()
}

fn program_folder() -> PathBuf {
    interop::program().parent().unwrap().to_owned()
}

fn text(outcome: &Output) -> String {
    let [stdout, stderr] =
        [&outcome.stdout, &outcome.stderr].map(|part| String::from_utf8_lossy(part));
    format!("{stdout}{stderr}")
}
