//! Skills of another maker: FastMCP reads ours, and we read and verify its.

use std::path::Path;

use interop::{program, python, run};
use serde_json::Value;
use tokio::process::Command;

fn directory() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("tidy-up");
    std::fs::create_dir_all(skill.join("references")).unwrap();
    let text =
        "---\nname: tidy-up\ndescription: Brings order\n---\n\nSee [more](references/more.md).\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    std::fs::write(skill.join("references/more.md"), "Fold, then stack.\n").unwrap();
    folder
}

/// FastMCP lists skills of a directory and of workflows, and what it reads has the listed digests.
#[tokio::test]
async fn fastmcp_reads_skills() {
    let folder = directory();
    let mut client = python("python/skills.py");
    client.arg("read").arg(program()).args(["stdio", "--store", "memory:", "--skills"]);
    let outcome = run(client.arg(folder.path())).await;
    let skills: Value = serde_json::from_str(outcome.stdout.trim())
        .unwrap_or_else(|_| panic!("{}\n{}", outcome.stdout, outcome.stderr));
    let skills = skills.as_array().unwrap();
    let find = |uri: &str| skills.iter().find(|one| one["skill"]["uri"] == uri);
    let tidy = find("skill://tidy-up/SKILL.md").unwrap_or_else(|| panic!("{skills:?}"));
    assert_eq!(tidy["skill"]["frontmatter"]["description"], "Brings order");
    assert!(skills.iter().any(|one| {
        one["skill"]["uri"].as_str().unwrap_or_default().starts_with("skill://workflows/")
    }));
    for skill in skills {
        assert_eq!(skill["skill"]["resources"][0]["digest"], skill["digest"], "{skill}");
    }
}

/// Skills of a FastMCP server are listed, read and verified.
#[tokio::test]
async fn skills_of_fastmcp_are_verified() {
    let folder = directory();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let uri = "skill://tidy-up/SKILL.md";
    for (words, expected) in [
        (&[][..], "tidy-up"),
        (&[uri], "See [more](references/more.md)."),
        (&[uri, "references/more.md"], "Fold, then stack."),
    ] {
        let mut command = Command::new(program());
        command.arg("skills").args(words).arg("--");
        command.arg(here.join("python/.venv/bin/python")).arg(here.join("python/skills.py"));
        let outcome = run(command.arg("serve").arg(folder.path())).await;
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        assert!(outcome.stdout.contains(expected), "{words:?}: {}", outcome.stdout);
    }
}
