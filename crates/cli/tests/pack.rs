//! `mcp-flow pack` with input that it rejects: each says what to do, and nothing is written.

use std::path::Path;
use std::process::Command;

use mcp_flow_testkit::wait::output;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

const TOOL: &str = r#"{"tools": [{"name": "hello", "description": "Says hello", "input":
    {"type": "object"}, "run": {"program": "echo", "args": ["hello"]}}]}"#;

const ENTRY: &str =
    r#"{"name": "io.example/hello", "description": "Says hello", "version": "1.0.0"}"#;

fn pack(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(PROGRAM);
    let ended = output(command.arg("pack").args(arguments).current_dir(folder));
    (ended.status.code(), String::from_utf8([ended.stdout, ended.stderr].concat()).unwrap())
}

/// Creates a project of tool files, with a program that is none but looks like one.
fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("tools")).unwrap();
    for (name, text) in [
        ("tools/hello.json", TOOL),
        ("server.json", ENTRY),
        ("program", "\x7fELF, but no more"),
        ("script", "#!/bin/sh"),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn bad_options_are_explained() {
    let no_start = ["--no-start", "--binary", "program"];
    for (arguments, message) in [
        (&["nowhere"][..], "nowhere is not a directory"),
        (&["tools"], "has no Cargo.toml, mcp-flow.toml or tools directory"),
        (&["--binary", "nowhere"], "nowhere does not exist"),
        (&["--binary", "script"], "script is not a program for Linux, macOS or Windows"),
        (&["--binary", "program", "--binary", "program"], "are both for linux"),
        (&["--binary", "program"], "--no-start"),
        (&[&no_start[..], &["--name", "hello"]].concat(), "such as io.github.you/greeter"),
        (&[&no_start[..], &["--url", "http://a/b"]].concat(), "not an https address"),
        (&[&no_start[..], &["--description", &"x".repeat(101)]].concat(), "101 characters"),
        (&[&no_start[..], &["--description", " "]].concat(), "no description"),
        (&[&no_start[..], &["--", "--flag"]].concat(), "mcp-flow.toml"),
    ] {
        let folder = project();
        let (code, said) = pack(folder.path(), arguments);
        assert!(matches!(code, Some(1..=3)), "{arguments:?}: {code:?} {said}");
        assert!(said.contains(message), "{arguments:?}: {said}");
        assert!(!folder.path().join("dist").exists(), "{arguments:?}");
    }
}

#[test]
fn bad_projects_are_explained() {
    for (name, text, message) in [
        (
            "server.json",
            "{\n",
            "server.json is not a JSON object: line 2, column 0: the text ends before",
        ),
        ("server.json", "[]", "server.json is not a JSON object"),
        ("server.json", &ENTRY.replace("1.0.0", "^1.0"), "invalid version \"^1.0\""),
        ("server.json", &ENTRY.replace("1.0.0", "../1.0.0"), "invalid version"),
        ("server.json", &ENTRY.replace("io.example/", "io.example/x/../"), "invalid name"),
        ("server.json", &ENTRY.replace("io.example/hello", "io.example/.."), "invalid name"),
        ("server.json", &ENTRY.replace("\"io.example/hello\"", "1"), "`name` is not a text"),
        ("server.json", &ENTRY.replace('}', ", \"packages\": {}}"), "`packages` is not a list"),
        ("Cargo.toml", "not TOML", "cargo cannot read ./Cargo.toml"),
        ("Cargo.toml", "[workspace]\n", "is a workspace without a package"),
        ("mcp-flow", "a file", "mcp-flow has the name of the program"),
    ] {
        let folder = project();
        std::fs::write(folder.path().join(name), text).unwrap();
        let (code, said) = pack(folder.path(), &["--no-start", "--binary", "program"]);
        assert_eq!(code, Some(2), "{name} {text}: {said}");
        assert!(said.contains(message), "{name} {text}: {said}");
        assert!(!folder.path().join("dist").exists(), "{name} {text}");
    }
}

#[test]
fn a_crate_is_built_before_it_is_packed() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = "[package]\nname = \"hello\"\nedition = \"2024\"\n[workspace]\n";
    std::fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    std::fs::write(folder.path().join("src/main.rs"), "fn main() {}").unwrap();
    let (code, said) = pack(folder.path(), &["--description", "Says hello"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("run `cargo build --release` first"), "{said}");
}

#[test]
fn what_exists_is_not_overwritten() {
    for name in ["hello-1.0.0.mcpb", "server.json"] {
        let folder = project();
        let dist = folder.path().join("dist");
        std::fs::create_dir(&dist).unwrap();
        std::fs::write(dist.join(name), "precious").unwrap();
        let (code, said) = pack(folder.path(), &["--no-start", "--binary", "program"]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("exists; remove it, or choose another --output"), "{said}");
        assert_eq!(std::fs::read_to_string(dist.join(name)).unwrap(), "precious");
        assert_eq!(std::fs::read_dir(&dist).unwrap().count(), 1);
    }
}

/// A link could lead to a secret.
#[test]
fn links_are_not_packed() {
    let folder = project();
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("tools/passwd")).unwrap();
    let (code, said) = pack(folder.path(), &["--no-start", "--binary", "program"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("tools/passwd is not a regular file"), "{said}");
    assert!(!folder.path().join("dist").exists());
}

/// The same project gives the same bytes, and packing is not packed itself.
#[test]
fn bundles_are_reproducible() {
    let folder = project();
    let options = ["--no-start", "--binary", "program", "--output"];
    let bundle = |output: &str| {
        let (code, said) = pack(folder.path(), &[&options[..], &[output]].concat());
        assert_eq!(code, Some(0), "{said}");
        std::fs::read(folder.path().join(output).join("hello-1.0.0.mcpb")).unwrap()
    };
    let first = bundle("dist");
    std::fs::remove_dir_all(folder.path().join("dist")).unwrap();
    assert!(first == bundle("dist"));
}

/// What images and tests of a project need is not in its bundle.
#[test]
fn files_for_other_uses_are_not_packed() {
    let folder = project();
    for name in ["Dockerfile", "test", "mcp-flow_1_amd64.deb", "tools/test"] {
        std::fs::write(folder.path().join(name), "text").unwrap();
    }
    let (code, said) = pack(folder.path(), &["--no-start", "--binary", "program"]);
    assert_eq!(code, Some(0), "{said}");
    let bundle = std::fs::File::open(folder.path().join("dist/hello-1.0.0.mcpb")).unwrap();
    let bundle = zip::ZipArchive::new(bundle).unwrap();
    let mut names: Vec<_> =
        bundle.file_names().map(|name| name.unwrap().replace("server/", "")).collect();
    names.sort_unstable();
    let expected = ["manifest.json", "mcp-flow", "program", "script", "server.json"];
    assert_eq!(names[..5], expected, "{names:?}");
    assert_eq!(names[5..], ["tools/hello.json", "tools/test"]);
}
