//! Skills as a server has them on the wire.

use std::fs;
use std::path::Path;

use mcp_flow_proto::Revision;
use mcp_flow_server::permissions::{AccessRule, Names};
use mcp_flow_server::{Limits, Permissions, Server};
use mcp_flow_skills::{Digest, EXTENSION, ServeSkills, Skill, Skills};
use mcp_flow_testkit::Peer;
use mcp_flow_testkit_fixture::memory;
use mcp_flow_workflow::Library;
use serde_json::{Value, json};

fn text(name: &str) -> String {
    format!("---\nname: {name}\ndescription: About {name}\nmetadata:\n  version: '1'\n---\nBody\n")
}

fn skill(path: &str, more: &[(&str, &str)]) -> Skill {
    let name = path.rsplit('/').next().unwrap();
    let more = more.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    Skill::new(path, [("SKILL.md".to_owned(), text(name))].into_iter().chain(more)).unwrap()
}

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The params of a request that stands alone.
fn stateless(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

async fn listed(peer: &mut Peer) -> Vec<String> {
    let list = peer.call("skills/list", stateless(json!({}))).await;
    let skills = list["result"]["skills"].as_array().unwrap_or_else(|| panic!("{list}"));
    skills.iter().map(|skill| skill["uri"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn skills_are_listed_got_and_read() {
    let skills =
        Skills::new().skill(skill("acme/refunds", &[("a/b.txt", "é\r\n\u{feff}"), ("c.md", "c")]));
    let server = Server::builder("x", "1").skills(skills).build().unwrap();
    let mut peer = memory::connect(&server);
    let discovered = peer.call("server/discover", stateless(json!({}))).await;
    let capabilities = &discovered["result"]["capabilities"];
    assert_eq!(capabilities["extensions"][EXTENSION], json!({"directoryRead": true}));
    assert!(capabilities["resources"].is_object(), "{capabilities}");

    let list = peer.call("skills/list", stateless(json!({}))).await["result"].clone();
    assert_eq!(list["cacheScope"], "private");
    assert!(list["ttlMs"].is_u64() && list["nextCursor"].is_null(), "{list}");
    let entry = list["skills"][0].clone();
    let frontmatter =
        json!({"name": "refunds", "description": "About refunds", "metadata": {"version": "1"}});
    assert_eq!(entry["frontmatter"], frontmatter);
    let uri = "skill://acme/refunds/SKILL.md";
    let got = peer.call("skills/get", stateless(json!({"uri": uri}))).await["result"].clone();
    assert_eq!(got["skill"], entry);
    assert_eq!((&got["cacheScope"], &got["resultType"]), (&json!("private"), &json!("complete")));
    for file in entry["resources"].as_array().unwrap() {
        let read = peer.call("resources/read", stateless(json!({"uri": file["uri"]}))).await;
        let contents = &read["result"]["contents"][0];
        let text = contents["text"].as_str().unwrap_or_else(|| panic!("{read}"));
        assert_eq!(file["digest"], Digest::of(text.as_bytes()).to_string());
        assert_eq!(file["size"], text.len());
    }
    let resources = peer.call("resources/list", stateless(json!({}))).await["result"].clone();
    let listed = &resources["resources"][0];
    assert_eq!((&listed["uri"], &listed["name"]), (&json!(uri), &json!("refunds")));
    assert_eq!(listed["description"], "About refunds");
    assert_eq!(listed["mimeType"], "text/markdown");
    assert_eq!(resources["resources"].as_array().unwrap().len(), 1);

    let directory = json!({"uri": "skill://acme/refunds"});
    let children = peer.call("resources/directory/read", stateless(directory)).await;
    let children: Vec<_> = children["result"]["resources"].as_array().unwrap().clone();
    let shown: Vec<_> =
        children.iter().map(|one| [&one["name"], &one["mimeType"]].map(Value::as_str)).collect();
    assert_eq!(
        shown,
        [
            [Some("refunds"), Some("text/markdown")],
            [Some("a"), Some("inode/directory")],
            [Some("c.md"), Some("text/markdown")]
        ]
    );
}

#[tokio::test]
async fn unknown_uris_are_invalid_params() {
    let skills = Skills::new().skill(skill("a", &[("b/c.md", "c")]));
    let server = Server::builder("x", "1").skills(skills).build().unwrap();
    let mut peer = memory::connect(&server);
    for (method, params) in [
        ("skills/get", json!({"uri": "skill://b/SKILL.md"})),
        ("skills/get", json!({"uri": "skill://a"})),
        ("skills/get", json!({"uri": "skill://a/b/c.md"})),
        ("skills/get", json!({"uri": "skill://a/../a/SKILL.md"})),
        ("skills/get", json!({"uri": 7})),
        ("skills/get", json!({})),
        ("skills/list", json!({"cursor": "x"})),
        ("skills/list", json!({"cursor": 7})),
        ("resources/directory/read", json!({"uri": "skill://a/SKILL.md"})),
        ("resources/directory/read", json!({"uri": "skill://a/"})),
        ("resources/directory/read", json!({"uri": "skill://"})),
        ("resources/directory/read", json!({"uri": "skill://a/.."})),
        ("resources/directory/read", json!({"uri": "file:///etc"})),
        ("resources/directory/read", json!({"uri": "skill://a", "cursor": "AAAA"})),
        ("resources/read", json!({"uri": "skill://a"})),
        ("resources/read", json!({"uri": "skill://a/b/../SKILL.md"})),
        ("resources/read", json!({"uri": "skill://a/../../../etc/passwd"})),
    ] {
        let reply = peer.call(method, stateless(params.clone())).await;
        assert_eq!(reply["error"]["code"], -32602, "{method} {params}: {reply}");
    }
}

#[tokio::test]
async fn pages_cover_all_skills_once() {
    let names = ["a", "b/c", "d", "e"];
    let skills = names.iter().fold(Skills::new(), |skills, name| skills.skill(skill(name, &[])));
    let limits = Limits { page: 3, ..Limits::default() };
    let server = Server::builder("x", "1").limits(limits).skills(skills).build().unwrap();
    let mut peer = memory::connect(&server);
    peer.initialize(Revision::V2025_11_25).await;
    for (method, member, params) in
        [("skills/list", "skills", json!({})), ("resources/list", "resources", json!({}))]
    {
        let (mut seen, mut pages, mut params) = (Vec::new(), 0, params);
        loop {
            let page = peer.call(method, params.clone()).await["result"].clone();
            pages += 1;
            let uris = page[member].as_array().unwrap().iter().map(|one| one["uri"].clone());
            seen.extend(uris);
            assert!(page.get("ttlMs").is_none(), "handshake revisions have no caching: {page}");
            let Some(cursor) = page.get("nextCursor") else { break };
            params = json!({"cursor": cursor});
        }
        let expected = names.map(|name| json!(format!("skill://{name}/SKILL.md")));
        assert_eq!((seen, pages), (expected.to_vec(), 2), "{method}");
    }
}

/// A part of a skill is no skill: who may not read all of it does not know that it is there.
#[tokio::test]
async fn permissions_hide_skills() {
    let skills = Skills::new()
        .skill(skill("open", &[("x/y.md", "y")]))
        .skill(skill("half", &[("secret.md", "z")]))
        .skill(skill("team/closed", &[]));
    let rule = AccessRule {
        principals: Names::all(),
        resources: Names::new(["skill://open/*", "skill://half/SKILL.md"]),
        ..AccessRule::default()
    };
    let permissions = Permissions::new(vec![rule]);
    let server = Server::builder("x", "1").permissions(permissions).skills(skills).build().unwrap();
    let mut peer = memory::connect(&server);
    assert_eq!(listed(&mut peer).await, ["skill://open/SKILL.md"]);
    for (method, uri, is_there) in [
        ("skills/get", "skill://open/SKILL.md", true),
        ("skills/get", "skill://half/SKILL.md", false),
        ("skills/get", "skill://team/closed/SKILL.md", false),
        ("resources/read", "skill://half/secret.md", false),
        ("resources/directory/read", "skill://open", true),
        ("resources/directory/read", "skill://team", false),
        ("resources/directory/read", "skill://team/closed", false),
    ] {
        let reply = peer.call(method, stateless(json!({"uri": uri}))).await;
        assert_eq!(reply.get("result").is_some(), is_there, "{method} {uri}: {reply}");
    }
}

#[tokio::test]
async fn changes_in_a_directory_are_taken_up() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "one/SKILL.md", &text("one"));
    put(root.path(), "one/x.md", "before");
    let skills = Skills::new().directory(root.path()).unwrap();
    let server = Server::builder("x", "1").skills(skills).build().unwrap();
    // Between start and first request somebody may have changed something.
    put(root.path(), "two/SKILL.md", &text("two"));
    let mut peer = memory::connect(&server);
    peer.initialize(Revision::V2025_11_25).await;
    assert_eq!(listed(&mut peer).await, ["skill://one/SKILL.md", "skill://two/SKILL.md"]);
    peer.call("resources/subscribe", json!({"uri": "skill://one/x.md"})).await;
    let changed = |message: &Value| message["method"] == "notifications/resources/list_changed";
    put(root.path(), "prefix/three/SKILL.md", &text("three"));
    peer.find(changed).await;
    fs::remove_dir_all(root.path().join("two")).unwrap();
    // One change may be told as several.
    while listed(&mut peer).await != ["skill://one/SKILL.md", "skill://prefix/three/SKILL.md"] {
        peer.find(changed).await;
    }
    put(root.path(), "one/x.md", "after");
    let updated = |message: &Value| message["method"] == "notifications/resources/updated";
    assert_eq!(peer.find(updated).await["params"]["uri"], "skill://one/x.md");
    let got = peer.call("skills/get", json!({"uri": "skill://one/SKILL.md"})).await;
    let files = got["result"]["skill"]["resources"].as_array().unwrap().clone();
    let file = files.iter().find(|file| file["uri"] == "skill://one/x.md").unwrap();
    assert_eq!(file["digest"], Digest::of(b"after").to_string());
    put(root.path(), "one/SKILL.md", "broken");
    while listed(&mut peer).await != ["skill://prefix/three/SKILL.md"] {
        peer.find(changed).await;
    }
}

#[tokio::test]
async fn workflows_of_a_library_are_skills() {
    let root = tempfile::tempdir().unwrap();
    let workflow = |id: &str| {
        format!(
            "id: {id}\nname: W\ndescription: D\nversion: 1.0.0\nsteps:\n- {{id: one, title: T, prompt: P}}\n"
        )
    };
    put(root.path(), "good.yaml", &workflow("my-flow"));
    put(root.path(), "odd.yaml", &workflow("my--flow"));
    let library =
        Library::open([(mcp_flow_workflow::Origin::Named, root.path().to_owned())]).unwrap();
    let skills = Skills::new().workflows(library.clone());
    let server = Server::builder("x", "1").skills(skills).build().unwrap();
    let mut peer = memory::connect(&server);
    let uris = listed(&mut peer).await;
    assert!(uris.iter().any(|uri| uri == "skill://workflows/my-flow/SKILL.md"), "{uris:?}");
    assert!(uris.iter().all(|uri| !uri.contains("my--flow")), "{uris:?}");
    let uri = json!({"uri": "skill://workflows/my-flow/references/workflow.json"});
    let read = peer.call("resources/read", stateless(uri)).await;
    let contents = &read["result"]["contents"][0];
    assert_eq!(contents["mimeType"], "application/json");
    let workflow: Value = serde_json::from_str(contents["text"].as_str().unwrap()).unwrap();
    assert_eq!(workflow["id"], "my-flow");
    fs::remove_file(root.path().join("good.yaml")).unwrap();
    library.reload_all();
    assert!(listed(&mut peer).await.iter().all(|uri| !uri.contains("my-flow")));
}
