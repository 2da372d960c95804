//! Verification of skills from a server whose entries and files disagree.

use mcp_flow_client::Client;
use mcp_flow_proto::Params;
use mcp_flow_server::router::Era;
use mcp_flow_server::{Context, Reply, Resource, Server};
use mcp_flow_skills::{ClientSkills, Digest, EXTENSION, SkillsError};
use mcp_flow_stdio::client::in_process;
use serde_json::{Value, json};

const TEXT: &str = "---\nname: pdf\ndescription: About PDF\n---\nBody.\n";
const FORMS: &str = "Forms\n";
const SKILL: &str = "skill://pdf/SKILL.md";
const FORMS_URI: &str = "skill://pdf/references/FORMS.md";

fn file(uri: &str, text: &str) -> Value {
    json!({"uri": uri, "digest": Digest::of(text.as_bytes()).to_string(), "size": text.len()})
}

fn entry() -> Value {
    json!({
        "uri": SKILL,
        "frontmatter": {"name": "pdf", "description": "About PDF"},
        "resources": [file(SKILL, TEXT), file(FORMS_URI, FORMS)],
    })
}

/// A server that lists an entry and serves a text, whether or not they agree.
async fn client(entry: Value, text: &str) -> Client {
    let listed = json!({
        "skills": [entry.clone(), {"uri": "skill://bad/SKILL.md"}],
        "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
    });
    let got = json!({"skill": entry, "resultType": "complete"});
    let server = Server::builder("liar", "1")
        .extension(EXTENSION, json!({}))
        .method("skills/list", Era::Both, move |context: &Context, _: Params<'_>| {
            Reply::Ready(context.reply(&listed))
        })
        .method("skills/get", Era::Both, move |context: &Context, _: Params<'_>| {
            Reply::Ready(context.reply(&got))
        })
        .resources((
            Resource::builder(SKILL).text(text),
            Resource::builder(FORMS_URI).text(FORMS),
            Resource::builder("skill://pdf/unlisted.md").text("x"),
            Resource::builder("skill://other/x.md").text("x"),
        ));
    Client::builder().connect(in_process(&server.build().unwrap())).await.unwrap()
}

#[tokio::test]
async fn files_are_verified_whenever_they_are_read() {
    let client = client(entry(), TEXT).await;
    let listed = client.skills().await.unwrap();
    assert_eq!(listed.len(), 1, "bad entries are left out");
    assert_eq!(client.skill(SKILL).await.unwrap(), listed[0]);
    assert!(client.skill("skill://other/SKILL.md").await.is_err(), "it is another entry");
    let skill = client.load_skill(listed[0].clone()).await.unwrap();
    assert_eq!(skill.text(), TEXT);
    for file in ["references/FORMS.md", FORMS_URI] {
        assert_eq!(skill.read(file).await.unwrap(), FORMS.as_bytes());
    }
    for file in ["unlisted.md", "skill://other/x.md", "../other/x.md", "", "/etc/passwd"] {
        let refused = skill.read(file).await.unwrap_err();
        assert!(matches!(refused, SkillsError::Unlisted(_)), "{file}: {refused}");
    }
}

#[tokio::test]
async fn what_differs_from_its_entry_is_refused() {
    let changed = |pointer: &str, value: Value| {
        let mut changed = entry();
        *changed.pointer_mut(pointer).unwrap() = value;
        changed
    };
    let other = TEXT.replace("Body.", "Evil!");
    let lying = changed("/frontmatter/description", "About Word".into());
    let mut added = entry();
    added["frontmatter"]["x"] = Value::Null;
    let renamed = TEXT.replace("name: pdf", "name: fdp");
    for (entry, text, told) in [
        (entry(), &*other, "digest"),
        (entry(), "longer than the manifest has it", "bytes"),
        (changed("/resources/0/size", 7.into()), TEXT, "bytes"),
        (lying, TEXT, "`description`"),
        (added, TEXT, "`x`"),
        (changed("/resources/0", file(SKILL, "no frontmatter")), "no frontmatter", "frontmatter"),
        (changed("/resources/0", file(SKILL, &renamed)), &renamed, "`name`"),
    ] {
        let client = client(entry, text).await;
        let entry = client.skill(SKILL).await.unwrap();
        let refused = client.load_skill(entry).await.unwrap_err();
        let is_refused = matches!(refused, SkillsError::Unverified { .. });
        assert!(is_refused && refused.to_string().contains(told), "{told}: {refused}");
    }
}

#[tokio::test]
async fn generated_skills_are_compared_by_their_frontmatter() {
    let mut generated = entry();
    generated["resources"] = "dynamic".into();
    let honest = client(generated.clone(), TEXT).await;
    let skill = honest.load_skill(honest.skill(SKILL).await.unwrap()).await.unwrap();
    assert_eq!(skill.read("unlisted.md").await.unwrap(), b"x");
    assert!(skill.read("skill://other/x.md").await.is_err());
    let liar = client(generated, &TEXT.replace("About", "Not about")).await;
    assert!(liar.load_skill(liar.skill(SKILL).await.unwrap()).await.is_err());
}

#[tokio::test]
async fn servers_without_the_extension_are_not_asked() {
    let server = Server::builder("plain", "1").build().unwrap();
    let client = Client::builder().connect(in_process(&server)).await.unwrap();
    assert!(matches!(client.skills().await, Err(SkillsError::NotOffered)));
    assert!(matches!(client.skill(SKILL).await, Err(SkillsError::NotOffered)));
}
