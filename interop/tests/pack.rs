//! The bundles of `mcp-flow pack`, read by the official program for bundles and by official schemas.

use std::path::Path;

use interop::{Outcome, node, program, python, run, strip_program};
use serde_json::{Value, json};
use tokio::process::Command;

/// A project without Rust becomes a bundle that starts as hosts start it.
#[tokio::test]
async fn tool_files_are_packed_with_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("greetings");
    write(&project, "tools/greet.yaml", GREET);
    write(&project, ".env", "SECRET=1");
    write(
        &project,
        "server.json",
        &json!({
            "name": "io.github.someone/greetings", "description": "Greetings", "version": "1.2.0",
            "packages": [{"registryType": "oci", "identifier": "ghcr.io/someone/greetings:1.2.0",
                "transport": {"type": "stdio"}}],
        })
        .to_string(),
    );
    let own = strip_program(folder.path());
    let mut pack = Command::new(program());
    succeed(pack.arg("pack").arg(&project).arg("--binary").arg(own)).await;

    let bundle = project.join("dist/greetings-1.2.0.mcpb");
    let installed = unpack(&bundle, folder.path()).await;
    let manifest = read(&installed.join("manifest.json"));
    let mut tools = manifest["tools"].as_array().unwrap().iter();
    assert!(tools.any(|tool| tool["name"] == "greet"), "{manifest:#}");
    assert!(!installed.join("server/.env").exists());
    let config = &manifest["server"]["mcp_config"];
    let place =
        |text: &Value| text.as_str().unwrap().replace("${__dirname}", installed.to_str().unwrap());
    let mut call = Command::new(program());
    call.args(["call", "greet", "name=Ada", "--", &place(&config["command"])]);
    call.args(config["args"].as_array().unwrap().iter().map(place)).current_dir(folder.path());
    let greeting = succeed(&mut call).await.stdout;
    assert!(greeting.contains("Hello, Ada"), "{greeting}");

    let entry = project.join("dist/server.json");
    succeed(python("schemas/validate.py").arg("server").arg(&entry)).await;
    let entry = read(&entry);
    assert_eq!(entry["packages"][0]["registryType"], "oci");
    let package = &entry["packages"][1];
    assert_eq!(
        package["identifier"],
        "https://github.com/someone/greetings/releases/download/v1.2.0/greetings-1.2.0.mcpb"
    );
    let sum = succeed(Command::new("sha256sum").arg(&bundle)).await.stdout;
    assert_eq!(sum.split(' ').next(), package["fileSha256"].as_str());
}

/// A crate with programs for several systems becomes one bundle for all of them.
#[tokio::test]
async fn crates_are_packed_for_several_systems() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("greeter");
    write(&project, "Cargo.toml", CRATE);
    write(&project, "src/main.rs", "fn main() {}");
    write(&project, "target/release/greeter", "\x7fELF, not really");
    write(&project, "greeter.exe", "MZ, not really");
    let mut pack = Command::new(program());
    pack.arg("pack").arg(&project).args([
        "--no-start",
        "--name",
        "com.example/greeter",
        "--binary",
    ]);
    pack.arg(project.join("target/release/greeter"))
        .arg("--binary")
        .arg(project.join("greeter.exe"));
    succeed(pack.args(["--", "stdio"])).await;
    let installed = unpack(&project.join("dist/greeter-0.3.1.mcpb"), folder.path()).await;
    let manifest = read(&installed.join("manifest.json"));
    assert_eq!(manifest["compatibility"]["platforms"], json!(["linux", "win32"]));
    let config = &manifest["server"]["mcp_config"];
    assert_eq!(config["args"], json!(["stdio"]));
    let other = config["platform_overrides"]["win32"]["command"].as_str().unwrap();
    assert!(installed.join(other.strip_prefix("${__dirname}/").unwrap()).is_file(), "{other}");
    assert_eq!(manifest["author"], json!({"name": "Ada", "email": "ada@example.com"}));

    let entry = project.join("dist/server.json");
    succeed(python("schemas/validate.py").arg("server").arg(&entry)).await;
    assert_eq!(read(&entry)["packages"][0]["identifier"], "https://example.com/greeter-0.3.1.mcpb");
}

/// Projects of `mcp-flow new` can be packed and published.
#[tokio::test]
async fn new_projects_are_packed() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "program", "\x7fELF, not really");
    let own = folder.path().join("program");
    for template in ["rust", "tools"] {
        let mut new = Command::new(program());
        succeed(new.args(["new", template, "--template", template]).current_dir(&folder)).await;
        let project = folder.path().join(template);
        succeed(python("schemas/validate.py").arg("server").arg(project.join("server.json"))).await;
        let mut pack = Command::new(program());
        pack.arg("pack").arg(&project).arg("--no-start").arg("--binary").arg(&own);
        succeed(pack.env("CARGO_NET_OFFLINE", "true")).await;
        let entry = project.join("dist/server.json");
        succeed(python("schemas/validate.py").arg("server").arg(&entry)).await;
        assert_eq!(read(&entry)["name"], format!("io.example/{template}"));
        let parts = folder.path().join(format!("{template}-unpacked"));
        std::fs::create_dir(&parts).unwrap();
        unpack(&project.join(format!("dist/{template}-0.1.0.mcpb")), &parts).await;
    }
}

/// Unpacks a bundle with the official program, which checks it, too.
async fn unpack(bundle: &Path, folder: &Path) -> std::path::PathBuf {
    let installed = folder.join("installed");
    let mcpb = || node("mcpb/node_modules/@anthropic-ai/mcpb/dist/cli/cli.js");
    succeed(mcpb().arg("unpack").arg(bundle).arg(&installed)).await;
    succeed(mcpb().arg("validate").arg(installed.join("manifest.json"))).await;
    installed
}

async fn succeed(command: &mut Command) -> Outcome {
    let outcome = run(command).await;
    assert_eq!(outcome.code, Some(0), "{command:?}: {outcome:#?}");
    outcome
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

const GREET: &str = r#"
tools:
  - name: greet
    description: Greet someone by name
    input:
      type: object
      properties:
        name: {type: string}
      required: [name]
    run:
      program: echo
      args: ["Hello, {{name}}!"]
"#;

const CRATE: &str = r#"
[package]
name = "greeter"
version = "0.3.1"
edition = "2024"
description = "Greets people"
authors = ["Ada <ada@example.com>"]
license = "MIT"

[workspace]
"#;
