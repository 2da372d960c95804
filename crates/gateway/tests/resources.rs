//! Resources of upstreams under their own URIs.

use std::collections::HashMap;

use futures_util::StreamExt;
use mcp_flow_client::{ChangeFilter, CompletionReference, ServerChange};
use mcp_flow_server::{Context, Resource, ResourceTemplate, Server};
use mcp_flow_testkit_fixture::Fixture;

use crate::support::{ERAS, Setup, pairs, upstream};

fn server() -> Server {
    let template = ResourceTemplate::builder("notes:/{name}")
        .complete_from("name", ["first", "second"])
        .read(async |_: Context, values: HashMap<String, String>| values["name"].clone());
    let fixed = Resource::builder("x:/a").title("A").text("hi");
    Fixture::with(|builder| builder.resources(fixed.unwrap()).resources(template.unwrap())).server
}

#[tokio::test]
async fn resources_and_templates_keep_their_uris() {
    for (client, revision) in pairs() {
        let upstream = server();
        let setup = Setup::before(&upstream, revision);
        let client = setup.client(client).await;
        let listed = client.resources().all().await.unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!((&*listed[0].uri, listed[0].description.title.as_deref()), ("x:/a", Some("A")));
        assert_eq!(client.read_text("x:/a").await.unwrap(), "hi");
        let templates = client.resource_templates().all().await.unwrap();
        assert_eq!(templates[0].uri_template, "notes:/{name}");
        assert_eq!(client.read_text("notes:/first").await.unwrap(), "first");
        let notes = CompletionReference::Template("notes:/{name}".into());
        let found = client.complete(&notes, "name", "sec", serde_json::Map::new()).await.unwrap();
        assert_eq!(found.values, ["second"]);
        let missing = client.read_resource("x:/none").await.unwrap_err();
        assert_eq!(missing.server().unwrap().name(), Some("RESOURCE_NOT_FOUND"));
    }
}

/// The first request after the start may be a read.
#[tokio::test]
async fn a_read_waits_for_the_first_list() {
    let upstream = server();
    let setup = Setup::before(&upstream, ERAS[0]);
    let client = setup.client(ERAS[1]).await;
    assert_eq!(client.read_text("x:/a").await.unwrap(), "hi");
}

#[tokio::test]
async fn the_first_upstream_with_a_uri_has_it() {
    let text = |text: &str| {
        let resource = Resource::builder("x:/a").text(text).unwrap();
        Fixture::with(|builder| builder.resources(resource)).server
    };
    let (first, second) = (text("first"), text("second"));
    let both = vec![upstream("one", &first, ERAS[0]), upstream("two", &second, ERAS[1])];
    let setup = Setup::new(both);
    let client = setup.client(ERAS[0]).await;
    assert_eq!(client.resources().all().await.unwrap().len(), 1);
    assert_eq!(client.read_text("x:/a").await.unwrap(), "first");
}

#[tokio::test]
async fn updates_reach_every_subscriber() {
    for (client, revision) in pairs() {
        let upstream = server();
        let setup = Setup::before(&upstream, revision);
        let (one, two) = (setup.client(client).await, setup.client(client).await);
        one.resources().all().await.unwrap();
        let filter = ChangeFilter::new().resource("x:/a");
        let mut ours = one.listen(filter.clone()).await.unwrap();
        let mut theirs = two.listen(filter).await.unwrap();
        // The subscription at the upstream is made in the background: changes until then are not seen.
        let change = async {
            loop {
                upstream.resource_changed("x:/a");
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            () = change => {}
            both = async { (ours.next().await, theirs.next().await) } => {
                let expected = ServerChange::Resource("x:/a".to_owned());
                assert_eq!(both.0.unwrap().unwrap(), expected);
                assert_eq!(both.1.unwrap().unwrap(), expected);
            }
        }
    }
}
