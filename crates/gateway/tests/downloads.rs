//! Large content of our own servers over HTTP, which only their client can download.

use std::net::SocketAddr;
use std::sync::Arc;

use mcp_flow_client::model::Content;
use mcp_flow_client::{Client, ContentBlock, Revision, RevisionPolicy};
use mcp_flow_gateway::{Gateway, UpstreamSettings};
use mcp_flow_http_client::HttpOptions;
use mcp_flow_server::{Bulk, Context, Limits, Resource, Server, Tool};
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::failures::{lists, script};
use crate::support::{Setup, pairs};

const SIZE: usize = 3 * 1024 * 1024 + 5;

fn content() -> String {
    "x".repeat(SIZE)
}

/// A server with a tool and a resource of large content, and a tool that links to a page.
fn upstream() -> Server {
    let bytes =
        Tool::builder("bytes").handler(async |_: Context, _: Value| Bulk::bytes("xs", content()));
    let unsized_reader = Tool::builder("reader").handler(async |_: Context, _: Value| {
        Bulk::reader("xs", std::io::Cursor::new(content())).with_mime_type("text/plain")
    });
    let cut = Tool::builder("cut").handler(async |_: Context, _: Value| {
        Bulk::reader("xs", std::io::Cursor::new(content())).with_size(SIZE as u64 + 1)
    });
    let page = Tool::builder("page")
        .quick(|_: &Context, _: Value| Content::link("https://example.org/download/page", "page"));
    let resource =
        Resource::builder("x:/large").read(async |_: Context| Bulk::bytes("xs", content()));
    Fixture::with(|builder| {
        builder
            .tools(bytes.unwrap())
            .tools(unsized_reader.unwrap())
            .tools(cut.unwrap())
            .tools(page.unwrap())
            .resources(resource.unwrap())
    })
    .server
}

async fn serve(server: &Server) -> SocketAddr {
    let bound = mcp_flow_http::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let (address, server) = (bound.address(), server.clone());
    tokio::spawn(async move { bound.serve(&server, std::future::pending()).await });
    address
}

fn connector(address: SocketAddr) -> mcp_flow_http_client::HttpServer {
    let url = format!("http://{address}/mcp");
    mcp_flow_http_client::server(&url, &HttpOptions::new()).unwrap()
}

/// A gateway before the server, over HTTP.
async fn gateway(revision: Revision) -> Setup {
    let mut settings = UpstreamSettings::new("up", Arc::new(connector(serve(&upstream()).await)));
    settings.revision = RevisionPolicy::Only(revision);
    settings.pins = false;
    Setup::new(vec![settings])
}

async fn link(client: &Client, tool: &str) -> Value {
    let outcome = client.call_tool(tool, json!({})).await.unwrap();
    let [ContentBlock::Known(Content::ResourceLink(link))] = &*outcome.content else {
        panic!("{outcome:?}");
    };
    json!({"type": "resource_link", "uri": link.uri, "size": link.size})
}

async fn download(client: &Client, link: &Value) -> std::io::Result<Vec<u8>> {
    let opened = client.open_content(link).await.unwrap();
    let mut bytes = Vec::new();
    opened.into_reader().read_to_end(&mut bytes).await.map(|_| bytes)
}

/// Clients download from the gateway what it downloads from the upstream.
#[tokio::test]
async fn large_content_is_downloaded_through_the_gateway() {
    for (client_revision, server) in pairs() {
        let setup = gateway(server).await;
        let address = serve(&setup.server).await;
        let builder = Client::builder();
        let builder =
            builder.with(|options| options.revision = RevisionPolicy::Only(client_revision));
        let client = builder.connect(connector(address)).await.unwrap();
        for (tool, size) in [("up.bytes", json!(SIZE)), ("up.reader", Value::Null)] {
            let link = link(&client, tool).await;
            assert_eq!(link["size"], size, "{tool}");
            let url = link["uri"].as_str().unwrap();
            assert!(url.starts_with(&format!("http://{address}/")), "{url}");
            let bytes = within("the download", download(&client, &link)).await.unwrap();
            assert!(bytes.len() == SIZE && bytes.iter().all(|byte| *byte == b'x'), "{tool}");
        }
        let read = client.read_resource("x:/large").raw().await.unwrap();
        let url = &read["contents"][0]["_meta"]["mcp-flow/download"]["url"];
        let link_to = json!({"type": "resource_link", "uri": url});
        assert_eq!(download(&client, &link_to).await.unwrap().len(), SIZE);
        // Content that is cut off is never taken for the whole.
        let cut = link(&client, "up.cut").await;
        within("the download", download(&client, &cut)).await.unwrap_err();
        // Other links are for the caller.
        let page = link(&client, "up.page").await;
        assert_eq!(page["uri"], "https://example.org/download/page");
        client.close().await;
        setup.gateway.close().await;
    }
}

/// Without a side channel content arrives in the message, up to the limit of a result.
#[tokio::test]
async fn large_content_arrives_in_messages_where_there_are_no_downloads() {
    for (client_revision, server) in pairs() {
        let setup = gateway(server).await;
        let client = setup.client(client_revision).await;
        for tool in ["up.bytes", "up.reader"] {
            let outcome = client.call_tool(tool, json!({})).await.unwrap();
            assert_eq!(outcome.text().len(), SIZE, "{tool}");
        }
        let cut = client.call_tool("up.cut", json!({})).await.unwrap();
        assert!(cut.is_error && cut.text().contains("cannot be read"), "{}", cut.text());
        assert_eq!(client.read_text("x:/large").await.unwrap().len(), SIZE);
        setup.gateway.close().await;
    }
}

/// Large content in messages that are longer than the gateway keeps in memory is spooled, and downloaded
/// by callers, up to a limit.
#[tokio::test]
async fn results_longer_than_a_message_are_spooled() {
    let text = Tool::builder("text").handler(async |context: Context, _: Value| {
        context.progress(1.0, None, None);
        content()
    });
    let image = Tool::builder("image")
        .quick(|_: &Context, _: Value| Content::image(content().into_bytes(), "image/png"));
    let resource = Resource::builder("x:/text").text(content()).unwrap();
    let with =
        Fixture::with(|builder| builder.tools([text.unwrap(), image.unwrap()]).resources(resource));
    let reply = format!(
        r#"printf '{{"jsonrpc":"2.0","id":%s,"result":{{"content":[{{"type":"text","text":"' "$(id "$line")"; head -c {SIZE} /dev/zero | tr '\0' x; printf '"}}]}}}}\n'"#
    );
    let program = lists(&json!([{"name": "text"}]), &reply);
    for (client_revision, server) in pairs() {
        let connector_of = async || Arc::new(connector(serve(&with.server).await));
        let mut remote = UpstreamSettings::new("remote", connector_of().await);
        let mut full = UpstreamSettings::new("full", connector_of().await);
        let mut local = script("local", &program);
        for settings in [&mut remote, &mut full] {
            settings.revision = RevisionPolicy::Only(server);
        }
        for settings in [&mut remote, &mut full, &mut local] {
            settings.result_limit = 1 << 20;
            settings.call_timeout = std::time::Duration::from_secs(60);
        }
        full.spool_limit = SIZE as u64 - 1;
        let gateway = Gateway::new(vec![remote, local, full]).unwrap();
        let server = gateway.add_to(Server::builder("gateway", "1.0.0")).build().unwrap();
        gateway.attach(&server);
        let builder = Client::builder();
        let builder =
            builder.with(|options| options.revision = RevisionPolicy::Only(client_revision));
        let client = builder.connect(connector(serve(&server).await)).await.unwrap();
        for name in ["remote.text", "remote.image", "local.text"] {
            let link = link(&client, name).await;
            assert_eq!(link["size"], json!(SIZE), "{name}");
            let bytes = within("the download", download(&client, &link)).await.unwrap();
            assert!(bytes.len() == SIZE && bytes.iter().all(|byte| *byte == b'x'), "{name}");
        }
        // With progress, it arrives as an event.
        let outcome = client.call_tool("remote.text", json!({})).start().await.unwrap();
        let [ContentBlock::Known(Content::ResourceLink(link))] = &*outcome.content else {
            panic!("{outcome:?}");
        };
        let link = json!({"type": "resource_link", "uri": link.uri, "size": link.size});
        assert_eq!(download(&client, &link).await.unwrap().len(), SIZE);
        let read = client.read_resource("x:/text").raw().await.unwrap();
        let url = &read["contents"][0]["_meta"]["mcp-flow/download"]["url"];
        let link = json!({"type": "resource_link", "uri": url});
        assert_eq!(download(&client, &link).await.unwrap().len(), SIZE);
        let failed = client.call_tool("full.text", json!({})).await.unwrap_err();
        let error = failed.server().unwrap();
        assert_eq!(error.name(), Some("UPSTREAM_ERROR"), "{error}");
        assert!(error.data["details"].to_string().contains("limit of 3145732 bytes"), "{error:?}");
        client.close().await;
        gateway.close().await;
    }
}

/// A result of another maker's server that exceeds the limit of the gateway is downloaded.
#[tokio::test]
async fn results_above_the_limit_become_downloads() {
    for (client_revision, server) in pairs() {
        let text = Tool::builder("text").quick(|_: &Context, _: Value| content());
        let upstream = Fixture::with(|builder| builder.tools(text.unwrap())).server;
        let gateway = Gateway::new(vec![crate::support::upstream("up", &upstream, server)]);
        let gateway = gateway.unwrap();
        let limits = Limits { result_bytes: SIZE / 2, ..Limits::default() };
        let builder = Server::builder("gateway", "1.0.0").limits(limits);
        let server = gateway.add_to(builder).build().unwrap();
        gateway.attach(&server);
        let builder = Client::builder();
        let builder =
            builder.with(|options| options.revision = RevisionPolicy::Only(client_revision));
        let client = builder.connect(connector(serve(&server).await)).await.unwrap();
        let link = link(&client, "up.text").await;
        assert_eq!(download(&client, &link).await.unwrap().len(), SIZE);
        client.close().await;
        gateway.close().await;
    }
}
