//! `#[resource]`, as a user writes it and as a client sees it.

use mcp_flow::completion::ResolvedArguments;
use mcp_flow::prelude::*;
use mcp_flow::{Revision, Server};
use mcp_flow_testkit::Peer;
use mcp_flow_testkit_fixture::memory;
use serde_json::{Value, json};

/// Our motto
#[resource("about:motto", title = "Motto", mime_type = "text/plain", quick)]
fn motto() -> &'static str {
    "Plain beats clever."
}

#[resource("about:who", name = "caller", description = "Who asks")]
async fn who(context: &Context) -> String {
    context.principal().name().to_owned()
}

#[resource("about:bytes", meta(kind = "raw"))]
fn bytes() -> Vec<u8> {
    vec![1, 2]
}

/// The square of a number
#[resource("squares:/{number}")]
fn square(number: u64) -> Result<String, String> {
    let square = number.checked_mul(number).ok_or("too large to be squared")?;
    Ok(square.to_string())
}

#[resource("files:/{folder}/{+path}")]
async fn file(
    #[param(complete = folders)] folder: String,
    #[param(name = "path")] inner: String,
) -> String {
    format!("{inner} in {folder}")
}

fn folders(_: &Context, partial: &str, _: &ResolvedArguments) -> Vec<String> {
    vec![format!("{partial}.d")]
}

/// A resource is listed with the URI, name and doc comment of its function.
#[tokio::test]
async fn a_resource_is_listed_with_its_signature() {
    let mut peer = connect().await;
    let listed = peer.call("resources/list", json!({})).await["result"]["resources"].clone();
    assert_eq!(
        listed,
        json!([
            {
                "uri": "about:motto", "name": "motto", "title": "Motto",
                "description": "Our motto", "mimeType": "text/plain",
            },
            {"uri": "about:who", "name": "caller", "description": "Who asks"},
            {"uri": "about:bytes", "name": "bytes", "_meta": {"kind": "raw"}},
        ])
    );
    let templates = peer.call("resources/templates/list", json!({})).await;
    assert_eq!(
        templates["result"]["resourceTemplates"],
        json!([
            {
                "uriTemplate": "squares:/{number}", "name": "square",
                "description": "The square of a number",
            },
            {"uriTemplate": "files:/{folder}/{+path}", "name": "file"},
        ])
    );
}

/// PAT-017: reading a resource returns the function's result; URI variables are its parameters.
#[tokio::test]
async fn reading_calls_the_function() {
    let mut peer = connect().await;
    for (uri, member, expected) in [
        ("about:motto", "text", "Plain beats clever."),
        ("about:who", "text", "local"),
        ("about:bytes", "blob", "AQI="),
        ("squares:/12", "text", "144"),
        ("files:/a/b/c%20d", "text", "b/c d in a"),
    ] {
        let read = read(&mut peer, uri).await;
        assert_eq!(read["result"]["contents"][0][member], expected, "{read}");
        assert_eq!(read["result"]["contents"][0]["uri"], uri);
    }
    let missing = read(&mut peer, "squares:/x").await;
    assert_eq!(missing["error"]["data"]["name"], "RESOURCE_NOT_FOUND", "{missing}");
    let failed = read(&mut peer, "squares:/18446744073709551615").await;
    assert!(failed.to_string().contains("too large to be squared"), "{failed}");
}

/// Variables of a template are completed like arguments of a prompt.
#[tokio::test]
async fn variables_are_completed() {
    let mut peer = connect().await;
    for (uri, variable, expected) in [
        ("files:/{folder}/{+path}", "folder", json!(["x.d"])),
        ("files:/{folder}/{+path}", "path", json!([])),
    ] {
        let completed = complete(&mut peer, uri, variable).await;
        assert_eq!(completed["result"]["completion"]["values"], expected, "{variable}");
    }
    for (uri, variable) in [("files:/{folder}/{+path}", "other"), ("about:motto", "x")] {
        let refused = complete(&mut peer, uri, variable).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
}

async fn connect() -> Peer {
    let all = resources![motto, who, bytes, square, file];
    let server = Server::builder("resources", "1.0.0").resources(all).build().unwrap();
    let mut peer = memory::connect(&server);
    peer.initialize(Revision::V2025_11_25).await;
    peer
}

async fn read(peer: &mut Peer, uri: &str) -> Value {
    peer.call("resources/read", json!({"uri": uri})).await
}

async fn complete(peer: &mut Peer, uri: &str, variable: &str) -> Value {
    let params = json!({
        "ref": {"type": "ref/resource", "uri": uri},
        "argument": {"name": variable, "value": "x"},
    });
    peer.call("completion/complete", params).await
}
