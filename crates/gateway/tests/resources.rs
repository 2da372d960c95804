//! Resources of upstreams under their own URIs.

use std::collections::HashMap;

use futures_util::StreamExt;
use mcp_flow_client::{ChangeFilter, CompletionReference, ServerChange};
use mcp_flow_gateway::Isolation;
use mcp_flow_server::{Context, Resource, ResourceTemplate, Server};
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;

use crate::failures::{lists, script};
use crate::hostile::Agreeable;
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

/// The others have it with their name before it, and operators see that.
#[tokio::test]
async fn the_first_upstream_with_a_uri_has_it() {
    let text = |text: &'static str| {
        let resource = Resource::builder("x:/a").text(text).unwrap();
        let template = ResourceTemplate::builder("notes:/{name}")
            .complete_from("name", [text])
            .read(async move |_: Context, _: HashMap<String, String>| text.to_owned());
        let template = template.unwrap();
        Fixture::with(|builder| builder.resources(resource).resources(template)).server
    };
    let (first, second) = (text("first"), text("second"));
    let both = vec![upstream("one", &first, ERAS[0]), upstream("two", &second, ERAS[1])];
    let setup = Setup::new(both);
    let client = setup.client(ERAS[0]).await;
    let listed = client.resources().all().await.unwrap();
    let listed: Vec<_> = listed.into_iter().map(|resource| resource.uri).collect();
    assert_eq!(listed, ["x:/a", "two+x:/a"]);
    for (uri, text) in [
        ("x:/a", "first"),
        ("two+x:/a", "second"),
        ("notes:/1", "first"),
        ("two+notes:/1", "second"),
    ] {
        assert_eq!(client.read_text(uri).await.unwrap(), text, "{uri}");
        let read = client.read_resource(uri).raw().await.unwrap();
        assert_eq!(read["contents"][0]["uri"], uri, "{read}");
    }
    let alias = CompletionReference::Template("two+notes:/{name}".into());
    let found = client.complete(&alias, "name", "", serde_json::Map::new()).await.unwrap();
    assert_eq!(found.values, ["second"]);
    let collisions = setup.gateway.status().into_iter().map(|upstream| upstream.collisions);
    assert_eq!(collisions.collect::<Vec<_>>(), [0, 2]);
    let filter = ChangeFilter::new().resource("two+x:/a");
    let mut changes = client.listen(filter).await.unwrap();
    let change = changed(&second, "x:/a");
    let heard = async { changes.next().await.unwrap().unwrap() };
    let heard = tokio::select! { () = change => unreachable!(), heard = within("a change", heard) => heard };
    assert_eq!(heard, ServerChange::Resource("two+x:/a".to_owned()));
}

/// A template that matches nearly everything takes no URI from a narrower one of another upstream, and
/// what is no URI, or no template of one, is not listed.
#[tokio::test]
async fn the_narrowest_template_has_a_uri() {
    let text = |template: &str, text: &'static str| {
        let template = ResourceTemplate::builder(template)
            .read(async move |_: Context, _: HashMap<String, String>| text.to_owned());
        Fixture::with(|builder| builder.resources(template.unwrap())).server
    };
    let wide = text("note://{+rest}", "wide");
    let narrow = text("note://day/{day}", "narrow");
    let odd = lists(&serde_json::json!([]), ":");
    let odd = odd.replace(r#""tools":{}"#, r#""resources":{}"#);
    let reply = |result: &str| {
        format!(r#"printf '{{"jsonrpc":"2.0","id":%s,"result":{result}}}\n' "$(id "$line")""#)
    };
    let resources = r#"{"resources":[{"uri":"","name":"a"},{"uri":"no scheme","name":"b"},{"uri":"x:\\u001b[31mx","name":"c"},{"uri":"x:/fine","name":"d"}]}"#;
    let templates = r#"{"resourceTemplates":[{"uriTemplate":"{+any}","name":"a"},{"uriTemplate":"{scheme}://a","name":"b"},{"uriTemplate":"","name":"c"},{"uriTemplate":"odd://{x}","name":"d"}]}"#;
    let odd = odd.replace(
        "*tools/list*)",
        &format!(
            "*resources/list*) {};;\n*resources/templates/list*) {};;\n*tools/list*)",
            reply(resources),
            reply(templates)
        ),
    );
    let setup = Setup::new(vec![
        script("odd", &odd),
        upstream("wide", &wide, ERAS[0]),
        upstream("narrow", &narrow, ERAS[1]),
    ]);
    for revision in ERAS {
        let client = setup.client(revision).await;
        let listed = client.resources().all().await.unwrap();
        let uris: Vec<_> = listed.iter().map(|resource| resource.uri.as_str()).collect();
        assert_eq!(uris, ["x:/fine"]);
        let listed = client.resource_templates().all().await.unwrap();
        let templates: Vec<_> = listed.iter().map(|known| known.uri_template.as_str()).collect();
        assert_eq!(templates, ["odd://{x}", "note://{+rest}", "note://day/{day}"]);
        assert_eq!(client.read_text("note://day/1").await.unwrap(), "narrow");
        assert_eq!(client.read_text("note://else").await.unwrap(), "wide");
    }
    setup.gateway.close().await;
}

/// Reports changes of a resource for ever: the subscription at the upstream is made in the background, and
/// changes until then are not seen.
async fn changed(upstream: &Server, uri: &str) {
    loop {
        upstream.resource_changed(uri);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// A subscription that begins while the upstream is down is made once it is back, and subscribers read
/// again.
#[tokio::test]
async fn subscriptions_outlive_a_failed_start() {
    let folder = tempfile::tempdir().unwrap();
    let (down, listed) = (folder.path().join("down"), folder.path().join("listed"));
    let reply = |result: &str| {
        format!(r#"printf '{{"jsonrpc":"2.0","id":%s,"result":{result}}}\n' "$(id "$line")""#)
    };
    let program = format!(
        r#"
test -e {down} && exit 3
id() {{ printf '%s' "$1" | sed 's/.*"id":\([0-9]*\).*/\1/'; }}
while read -r line; do
  case "$line" in
    *server/discover*) printf '{{"jsonrpc":"2.0","id":%s,"error":{{"code":-32601,"message":"no"}}}}\n' "$(id "$line")";;
    *'"initialize"'*) {initialized};;
    *resources/list*) {resources};;
    *resources/templates/list*) {templates}; test -e {listed} || {{ touch {listed} {down}; exit 0; }};;
    *resources/subscribe*) {subscribed};;
  esac
done"#,
        down = down.display(),
        listed = listed.display(),
        initialized = reply(
            r#"{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true}},"serverInfo":{"name":"s","version":"1"}}"#
        ),
        resources = reply(r#"{"resources":[{"uri":"x:/a","name":"a"}]}"#),
        templates = reply(r#"{"resourceTemplates":[]}"#),
        subscribed = reply("{}"),
    );
    let setup = Setup::new(vec![script("up", &program)]);
    let client = setup.client(ERAS[1]).await;
    assert_eq!(client.resources().all().await.unwrap().len(), 1);
    let mut changes = client.listen(ChangeFilter::new().resource("x:/a")).await.unwrap();
    within("the failed start", async {
        while setup.gateway.status()[0].failures == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    std::fs::remove_file(&down).unwrap();
    let heard = within("the announcement", changes.next()).await.unwrap().unwrap();
    assert_eq!(heard, ServerChange::Resource("x:/a".to_owned()));
    setup.gateway.close().await;
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
        let both = async { (ours.next().await, theirs.next().await) };
        tokio::select! {
            () = changed(&upstream, "x:/a") => {}
            both = within("both changes", both) => {
                let expected = ServerChange::Resource("x:/a".to_owned());
                assert_eq!(both.0.unwrap().unwrap(), expected);
                assert_eq!(both.1.unwrap().unwrap(), expected);
            }
        }
    }
}

/// A call and a subscription of one caller share a connection, so that it hears of what the call has
/// changed, also if the call has the connection to itself.
#[tokio::test]
async fn changes_that_a_call_makes_reach_its_caller() {
    let folder = tempfile::tempdir().unwrap();
    let subscribed = folder.path().join("subscribed");
    let reply = |result: &str| {
        format!(r#"printf '{{"jsonrpc":"2.0","id":%s,"result":{result}}}\n' "$(id "$line")""#)
    };
    let updated = r#"printf '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:/a"}}\n'"#;
    let call = format!("test -n \"$own\" && {updated}; {}", reply(r#"{"content":[]}"#));
    let program = lists(&serde_json::json!([{"name": "change"}]), &call)
        .replace(r#""tools":{}"#, r#""tools":{},"resources":{"subscribe":true}"#)
        .replace(
            "    *tools/call*)",
            &format!(
                "    *resources/list*) {};;\n    *resources/subscribe*) own=1; touch {}; {};;\n    \
                 *resources/templates/list*) {};;\n    *tools/call*)",
                reply(r#"{"resources":[{"uri":"x:/a","name":"a"}]}"#),
                subscribed.display(),
                reply("{}"),
                reply(r#"{"resourceTemplates":[]}"#),
            ),
        );
    for isolation in [Isolation::Shared, Isolation::Session, Isolation::Principal] {
        for revision in ERAS {
            let mut settings = script("up", &program);
            settings.isolation = isolation;
            let setup = Setup::new(vec![settings]);
            let client = setup.client_with(revision, Agreeable).await;
            let mut changes = client.listen(ChangeFilter::new().resource("x:/a")).await.unwrap();
            within("the subscription", async {
                while std::fs::remove_file(&subscribed).is_err() {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            client.call_tool("up.change", serde_json::json!({})).await.unwrap();
            let heard = within(format!("the change, {isolation:?} {revision}"), changes.next());
            let heard = heard.await.unwrap().unwrap();
            assert_eq!(heard, ServerChange::Resource("x:/a".to_owned()));
            setup.gateway.close().await;
        }
    }
}
