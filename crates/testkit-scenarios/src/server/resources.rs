//! Resources: listing, reading, permissions.

use mcp_flow_files::{Roots, ServeFiles};
use mcp_flow_proto::Revision;
use mcp_flow_proto::model::{Annotations, Content};
use mcp_flow_server::resource::{Access, ReadError};
use mcp_flow_server::{Context, Limits, Resource, ResourceTemplate, Tool};
use serde_json::{Value, json};

use super::Connect;
use super::handshake::call;
use mcp_flow_testkit::{Peer, stateless_meta};
use mcp_flow_testkit_fixture::Fixture;

/// MCP-078, PAT-014, PAT-017, PAT-018, C-32: resources are listed in the form of each revision and
/// read as text or bytes; a missing one is named; a server without resources has no such method.
pub(crate) async fn resources_are_listed_and_read(connect: &Connect) {
    for revision in Revision::ALL {
        let mut peer = connect(library().server).await;
        let shown = Shown::of(&mut peer, revision).await;
        assert_eq!(
            shown.capabilities["resources"],
            json!({"subscribe": true, "listChanged": true})
        );
        let listed = call(&mut peer, revision, "resources/list", json!({})).await["result"].clone();
        let recent = revision >= Revision::V2025_06_18;
        let mut first = json!({
            "uri": "library:/motto", "name": "motto", "description": "What we believe",
            "mimeType": "text/plain", "size": 5, "annotations": {"priority": 0.5},
        });
        if recent {
            first["title"] = json!("Motto");
            first["_meta"] = json!({"shelf": 7});
        }
        assert_eq!(listed["resources"][0], first, "{revision}");
        let uris: Vec<_> =
            listed["resources"].as_array().unwrap().iter().map(|one| &one["uri"]).collect();
        assert_eq!(uris, ["library:/motto", "library:/bytes", "library:/who", "file://odd.txt"]);
        check_standing(&listed, revision);
        for (uri, expected) in [
            ("library:/motto", json!({"text": "hello", "mimeType": "text/plain"})),
            ("library:/bytes", json!({"blob": "AQL/"})),
            (
                "library:/who",
                json!({"text": "{\"who\":\"local\"}", "mimeType": "application/json"}),
            ),
            ("file://odd.txt", json!({"text": "odd"})),
        ] {
            let read = read(&mut peer, revision, uri).await["result"].clone();
            let mut expected = expected;
            expected["uri"] = json!(uri);
            assert_eq!(read["contents"], json!([expected]), "{revision}");
            check_standing(&read, revision);
        }
        // C-39: intended meaning of the unusual one.
        let meant = read(&mut peer, revision, "file:///odd.txt").await;
        assert_eq!(meant["result"]["contents"][0]["text"], "odd");
        let code = if revision.is_stateless() { -32602 } else { -32002 };
        let missing = read(&mut peer, revision, "library:/missing").await["error"].clone();
        let data =
            json!({"domain": "mcp", "name": "RESOURCE_NOT_FOUND", "uri": "library:/missing"});
        assert_eq!((&missing["code"], &missing["data"]), (&json!(code), &data));
        for params in [json!({}), json!({"uri": 7})] {
            let refused = call(&mut peer, revision, "resources/read", params).await;
            assert_eq!(refused["error"]["code"], -32602);
        }
        let mut bare = connect(Fixture::new().server).await;
        let shown = Shown::of(&mut bare, revision).await;
        assert_eq!(shown.capabilities.get("resources"), None);
        for method in ["resources/list", "resources/templates/list", "resources/read"] {
            let refused = call(&mut bare, revision, method, json!({"uri": "x:/a"})).await;
            assert_eq!(refused["error"]["code"], -32601, "{method}");
        }
    }
}

/// PAT-015, PAT-016, PAT-024: a long list is paginated, with each entry once; an altered cursor is
/// refused.
pub(crate) async fn resources_are_paginated(connect: &Connect) {
    let numbers = || {
        let one = |number| Resource::builder(format!("number:/{number}")).text("");
        (0..250).map(one).collect::<Vec<_>>()
    };
    let limits = Limits { page: 100, ..Limits::default() };
    let fixture = Fixture::with(|builder| builder.limits(limits).resources(numbers()));
    let mut peer = connect(fixture.server).await;
    peer.initialize(Revision::V2025_11_25).await;
    let (mut seen, mut params) = (Vec::new(), json!({}));
    for expected in [100, 100, 50] {
        let page = peer.call("resources/list", params).await["result"].clone();
        let entries = page["resources"].as_array().unwrap();
        assert_eq!(entries.len(), expected);
        seen.extend(entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()));
        assert_eq!(page.get("nextCursor").is_some(), expected == 100);
        params = json!({"cursor": page["nextCursor"]});
    }
    assert_eq!(seen, (0..250).map(|number| number.to_string()).collect::<Vec<_>>());
    let altered = peer.call("resources/list", json!({"cursor": "bm9wZQ"})).await;
    assert_eq!(altered["error"]["code"], -32602);
}

/// MCP-080: templates are listed, and resources are read by typed variables.
pub(crate) async fn templates_are_listed_and_read(connect: &Connect) {
    #[derive(serde::Deserialize)]
    struct Square {
        number: u32,
    }
    let squares = || {
        ResourceTemplate::builder("square:/{number}").mime_type("text/plain").read(
            async |_: Context, Square { number }: Square| match number.checked_mul(number) {
                Some(square) => Ok(square.to_string()),
                None => Err(ReadError::Failed("that is too much".to_owned())),
            },
        )
    };
    for revision in Revision::ALL {
        let fixture = Fixture::with(|builder| builder.resources(squares()));
        let mut peer = connect(fixture.server).await;
        Shown::of(&mut peer, revision).await;
        let listed = call(&mut peer, revision, "resources/templates/list", json!({})).await;
        let template = json!({"uriTemplate": "square:/{number}", "name": "{number}", "mimeType": "text/plain"});
        assert_eq!(listed["result"]["resourceTemplates"], json!([template]));
        check_standing(&listed["result"], revision);
        let four = read(&mut peer, revision, "square:/2").await;
        let contents = json!([{"uri": "square:/2", "mimeType": "text/plain", "text": "4"}]);
        assert_eq!(four["result"]["contents"], contents);
        for (uri, name) in [
            ("square:/x", "RESOURCE_NOT_FOUND"),
            ("square:/-1", "RESOURCE_NOT_FOUND"),
            ("square:/1/2", "RESOURCE_NOT_FOUND"),
            ("square:/70000", "INTERNAL_ERROR"),
        ] {
            let refused = read(&mut peer, revision, uri).await;
            assert_eq!(refused["error"]["data"]["name"], name, "{uri}");
        }
    }
}

/// PAT-019, PAT-020, PAT-058, C-32: a hidden resource does not exist for the caller, and a listed
/// one may still not be readable.
pub(crate) async fn resource_permissions_are_enforced(connect: &Connect) {
    let books = || {
        ["open", "shown", "secret"]
            .map(|name| Resource::builder(format!("book:/{name}")).text(name))
    };
    for revision in Revision::ALL {
        let fixture = Fixture::with(|builder| {
            builder.resources(books()).resource_access(|caller: &Context, uri: &str| {
                assert_eq!(caller.principal().name(), "local");
                match uri {
                    "book:/open" => Access::Read,
                    "book:/shown" | "book:/missing" => Access::See,
                    _ => Access::None,
                }
            })
        });
        let mut peer = connect(fixture.server).await;
        Shown::of(&mut peer, revision).await;
        let listed = call(&mut peer, revision, "resources/list", json!({})).await["result"].clone();
        let names: Vec<_> =
            listed["resources"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["open", "shown"]);
        if revision.is_stateless() {
            assert_eq!(listed["cacheScope"], "private");
        }
        let not_found = read(&mut peer, revision, "book:/absent").await["error"].to_string();
        let secret = read(&mut peer, revision, "book:/secret").await["error"].to_string();
        assert_eq!(secret.replace("secret", "absent"), not_found);
        let methods = if revision.is_stateless() {
            &["resources/read"][..]
        } else {
            &["resources/read", "resources/subscribe"]
        };
        for method in methods {
            for (uri, name) in [
                ("book:/shown", "ACCESS_DENIED"),
                ("book:/missing", "RESOURCE_NOT_FOUND"),
                ("book:/secret", "RESOURCE_NOT_FOUND"),
            ] {
                let refused = call(&mut peer, revision, method, json!({"uri": uri})).await;
                assert_eq!(refused["error"]["data"]["name"], name, "{method} {uri}");
            }
        }
        let open = read(&mut peer, revision, "book:/open").await;
        assert_eq!(open["result"]["contents"][0]["text"], "open");
    }
}

/// MCP-078, PAT-021, PAT-022, PAT-024: files under a root are resources, and nothing else is.
pub(crate) async fn files_are_resources(connect: &Connect) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap().join("root");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    for (name, bytes) in [
        ("root/a b.txt", &b"text"[..]),
        ("root/sub/c.png", b"\x89PNG\xff"),
        ("root/.env", b"secret"),
        ("outside", b"secret"),
    ] {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let base = format!("file://{}", root.display());
    for revision in Revision::ALL {
        let fixture = Fixture::with(|builder| {
            builder
                .limits(Limits { page: 1, ..Limits::default() })
                .resource_roots(Roots::directory(&root).unwrap())
        });
        let mut peer = connect(fixture.server).await;
        Shown::of(&mut peer, revision).await;
        let first = call(&mut peer, revision, "resources/list", json!({})).await["result"].clone();
        let text = json!({"uri": format!("{base}/a%20b.txt"), "name": "a b.txt",
            "mimeType": "text/plain", "size": 4});
        assert_eq!(first["resources"], json!([text]));
        let cursor = json!({"cursor": first["nextCursor"]});
        let second = call(&mut peer, revision, "resources/list", cursor).await["result"].clone();
        assert_eq!(second["resources"][0]["uri"], format!("{base}/sub/c.png"));
        assert_eq!(second.get("nextCursor"), None);
        let altered = format!("{}A", first["nextCursor"].as_str().unwrap());
        let altered = call(&mut peer, revision, "resources/list", json!({"cursor": altered})).await;
        assert_eq!(altered["error"]["code"], -32602);
        for (path, expected) in [
            ("/a%20b.txt", json!({"mimeType": "text/plain", "text": "text"})),
            ("/sub/c.png", json!({"mimeType": "image/png", "blob": "iVBOR/8="})),
        ] {
            let uri = format!("{base}{path}");
            let mut expected = expected;
            expected["uri"] = json!(uri);
            let read = read(&mut peer, revision, &uri).await;
            assert_eq!(read["result"]["contents"], json!([expected]));
        }
        for path in ["/../outside", "/%2e%2e/outside", "/.env", "/sub", "/missing", "/a b.txt%00"] {
            let refused = read(&mut peer, revision, &format!("{base}{path}")).await;
            assert_eq!(refused["error"]["data"]["name"], "RESOURCE_NOT_FOUND", "{path}");
        }
    }
}

/// C-26: where a revision has no links, a small resource of the server is embedded instead.
pub(crate) async fn small_linked_resources_are_embedded(connect: &Connect) {
    for revision in Revision::ALL {
        let tool = Tool::builder("refer").quick(|_: &Context, _: Value| {
            vec![
                Content::link("library:/motto", "motto"),
                Content::link("library:/who", "who"),
                Content::link("library:/elsewhere", "elsewhere"),
            ]
        });
        let fixture = Fixture::with(|builder| builder.resources(shelf()).tools(tool));
        let mut peer = connect(fixture.server).await;
        Shown::of(&mut peer, revision).await;
        let result = call(&mut peer, revision, "tools/call", json!({"name": "refer"})).await;
        let content = &result["result"]["content"];
        if revision >= Revision::V2025_06_18 {
            assert_eq!(content[0]["type"], "resource_link");
            continue;
        }
        let motto = json!({"uri": "library:/motto", "mimeType": "text/plain", "text": "hello"});
        assert_eq!(content[0], json!({"type": "resource", "resource": motto}));
        assert_eq!(content[1], json!({"type": "text", "text": "who: library:/who"}));
        assert_eq!(content[2]["type"], "text");
    }
}

/// The fixture with resources of every kind.
pub(super) fn library() -> Fixture {
    Fixture::with(|builder| builder.resources(shelf()))
}

fn shelf() -> Vec<Resource> {
    let built = [
        Resource::builder("library:/motto")
            .title("Motto")
            .description("What we believe")
            .mime_type("text/plain")
            .annotations(Annotations { priority: Some(0.5), ..Annotations::default() })
            .meta("shelf", 7)
            .text("hello"),
        Resource::builder("library:/bytes").bytes([1, 2, 255]),
        Resource::builder("library:/who").read(async |context: Context| {
            tokio::task::yield_now().await;
            json!({"who": context.principal().name()})
        }),
        Resource::builder("file://odd.txt").text("odd"),
    ];
    built.into_iter().map(|resource| resource.expect("the resources are good")).collect()
}

/// Capabilities of a server, in either era.
pub(super) struct Shown {
    pub(super) capabilities: Value,
}

impl Shown {
    pub(crate) async fn of(peer: &mut Peer, revision: Revision) -> Self {
        let shown = if revision.is_stateless() {
            let params = json!({"_meta": stateless_meta()});
            peer.call("server/discover", params).await["result"].clone()
        } else {
            peer.initialize(revision).await
        };
        Self { capabilities: shown["capabilities"].clone() }
    }
}

pub(crate) async fn read(peer: &mut Peer, revision: Revision, uri: &str) -> Value {
    call(peer, revision, "resources/read", json!({"uri": uri})).await
}

fn check_standing(result: &Value, revision: Revision) {
    let members = ["resultType", "ttlMs", "cacheScope", "_meta"];
    for member in members {
        assert_eq!(result.get(member).is_some(), revision.is_stateless(), "{member}");
    }
    if revision.is_stateless() {
        assert_eq!(result["resultType"], "complete");
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "fixture");
    }
}
