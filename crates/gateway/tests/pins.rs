//! Pins: changed and new definitions of tools are quarantined until somebody approves them.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_client::Client;
use mcp_flow_gateway::{
    ApproveError, Gateway, Isolation, PinState, Pins, ToolPatterns, UpstreamSettings,
};
use mcp_flow_server::{Context, Server, Tool};
use mcp_flow_stdio::client::Program;
use mcp_flow_testkit::wait::within;
use serde_json::{Value, json};

use crate::support::{ERAS, Setup, upstream};

fn tool(name: &str, description: &str) -> Tool {
    let text = description.to_owned();
    let builder = Tool::builder(name).description(description);
    builder.quick(move |_: &Context, _: Value| text.clone()).unwrap()
}

fn server(tools: Vec<Tool>) -> Server {
    Server::builder("tools", "1.0.0").tools(tools).build().unwrap()
}

async fn names(client: &Client) -> Vec<String> {
    client.tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

fn pinned(server: &Server, pins: Pins) -> Setup {
    let mut settings = upstream("up", server, ERAS[0]);
    settings.pins = true;
    Setup::of(Gateway::with_pins(vec![settings], pins).unwrap())
}

/// A restart of the gateway with a server whose tools have changed: what is new or changed is hidden
/// and not callable until it is approved.
#[tokio::test]
async fn changed_definitions_are_quarantined_until_approved() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a/journal.pins.json");
    let first = server(vec![tool("same", "S"), tool("changed", "before"), tool("gone", "G")]);
    let setup = pinned(&first, Pins::open(&file).unwrap());
    let client = setup.client(ERAS[0]).await;
    assert_eq!(names(&client).await, ["up.same", "up.changed", "up.gone"]);
    setup.gateway.close().await;

    let second = server(vec![tool("same", "S"), tool("changed", "after"), tool("new", "N")]);
    let setup = pinned(&second, Pins::open(&file).unwrap());
    for revision in ERAS {
        let client = setup.client(revision).await;
        // A call starts it, and lists it again.
        assert_eq!(client.call_tool("up.same", json!({})).await.unwrap().text(), "S");
        within("the list without quarantined tools", async {
            while names(&client).await != ["up.same"] {
                tokio::task::yield_now().await;
            }
        })
        .await;
        for name in ["up.changed", "changed", "up.new"] {
            let refused = client.call_tool(name, json!({})).await.unwrap_err();
            let error = refused.server().unwrap();
            assert_eq!(error.name(), Some("QUARANTINED"), "{name}");
            assert_eq!(
                (&error.data["domain"], &error.data["server"]),
                (&"gateway".into(), &"up".into())
            );
        }
    }
    let pin = setup.gateway.pins().find("up.changed").unwrap();
    assert_eq!(pin.state, PinState::Changed);
    let difference = pin.difference.unwrap();
    assert!(difference.contains("-   \"description\": \"before\""), "{difference}");
    assert!(difference.contains("+   \"description\": \"after\""), "{difference}");
    assert_eq!(setup.gateway.pins().find("up.new").unwrap().state, PinState::New);

    let client = setup.client(ERAS[1]).await;
    setup.gateway.approve("up.changed", None).unwrap().unwrap();
    assert_eq!(client.call_tool("up.changed", json!({})).await.unwrap().text(), "after");
    // Another process approves in the file.
    Pins::open(&file).unwrap().approve("up.new", None).unwrap().unwrap();
    assert_eq!(client.call_tool("up.new", json!({})).await.unwrap().text(), "N");
    assert!(setup.gateway.pins().list().iter().all(|pin| pin.state == PinState::Pinned));
    assert_eq!(setup.gateway.approve("up.nothing", None).unwrap(), None);
    setup.gateway.close().await;
}

/// A tool has its pin by every name that people see: the one that is served, and the upstream's own, with
/// the name of the upstream in the configuration or the prefix that it becomes.
#[tokio::test]
async fn pins_go_by_all_names_of_a_tool() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pins.json");
    let setup = |server: &Server| {
        let mut settings = upstream("My Server", server, ERAS[0]);
        settings.pins = true;
        settings.rename.insert("echo".to_owned(), "say".to_owned());
        settings.expose = ToolPatterns::new(["My Server.echo", "My_Server.o*"]);
        let pins = Pins::open(&file).unwrap();
        Setup::of(Gateway::with_pins(vec![settings], pins).unwrap())
    };
    let first = setup(&server(vec![tool("echo", "before"), tool("other", "O"), tool("no", "N")]));
    let client = first.client(ERAS[0]).await;
    assert_eq!(names(&client).await, ["My_Server.say", "My_Server.other"]);
    first.gateway.close().await;

    let second = setup(&server(vec![tool("echo", "after"), tool("other", "O")]));
    let client = second.client(ERAS[0]).await;
    client.call_tool("My_Server.other", json!({})).await.unwrap();
    let refused = client.call_tool("My_Server.say", json!({})).await.unwrap_err();
    let refused = refused.server().unwrap().clone();
    assert_eq!(refused.name(), Some("QUARANTINED"), "{refused}");
    let hint = refused.data["details"].as_str().unwrap();
    assert!(hint.contains("`mcp-flow pins approve My_Server.say`"), "{hint}");
    let names = ["My_Server.say", "My Server.say", "My Server.echo", "My_Server.echo"];
    // Another process has the file alone.
    for pins in [&Pins::open(&file).unwrap(), second.gateway.pins()] {
        for name in names {
            let pin = pins.find(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!((&*pin.tool, pin.state), ("echo", PinState::Changed), "{name}");
        }
        assert_eq!(pins.find("My_Server.none"), None);
    }
    Pins::open(&file).unwrap().approve("My_Server.say", None).unwrap().unwrap();
    assert_eq!(client.call_tool("My_Server.say", json!({})).await.unwrap().text(), "after");
    second.gateway.close().await;
}

/// Lists of an earlier process are served before the upstream has started, with and without pins.
#[tokio::test]
async fn definitions_are_known_after_a_restart() {
    for pins in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pins.json");
        let gateway = |mut settings: UpstreamSettings| {
            settings.pins = pins;
            Setup::of(Gateway::with_pins(vec![settings], Pins::open(&file).unwrap()).unwrap())
        };
        let server = server(vec![tool("one", "1")]);
        let setup = gateway(upstream("up", &server, ERAS[0]));
        assert_eq!(names(&setup.client(ERAS[0]).await).await, ["up.one"]);
        setup.gateway.close().await;
        let failing = UpstreamSettings::new("up", Arc::new(Program::new("false")));
        let setup = gateway(failing);
        let client = setup.client(ERAS[0]).await;
        assert_eq!(names(&client).await, ["up.one"], "{pins}");
        let gone = client.call_tool("up.one", json!({})).await.unwrap_err();
        assert_eq!(gone.server().unwrap().name(), Some("UPSTREAM_UNAVAILABLE"));
        setup.gateway.close().await;
    }
}

#[tokio::test]
async fn tools_are_exposed_and_renamed() {
    let server = server(vec![tool("read", "R"), tool("write", "W"), tool("drop", "D")]);
    let mut settings = upstream("up", &server, ERAS[1]);
    settings.expose = mcp_flow_gateway::ToolPatterns::new(["*", "!up.drop"]);
    settings.rename.insert("write".to_owned(), "put".to_owned());
    let setup = Setup::new(vec![settings]);
    let client = setup.client(ERAS[0]).await;
    assert_eq!(names(&client).await, ["up.read", "up.put"]);
    assert_eq!(client.call_tool("up.put", json!({})).await.unwrap().text(), "W");
    for hidden in ["up.drop", "up.write"] {
        let unknown = client.call_tool(hidden, json!({})).await.unwrap_err();
        assert_eq!(unknown.server().unwrap().name(), Some("UNKNOWN_TOOL"), "{hidden}");
    }
}

/// A damaged file is reported, not overwritten.
#[test]
fn a_damaged_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pins.json");
    std::fs::write(&file, "{").unwrap();
    assert!(Pins::open(&file).unwrap_err().to_string().contains("damaged"));
}

/// A definition that changed while nobody was connected is not called either, though its approved
/// one is listed until the upstream has started: after a restart of the gateway, and after an idle
/// stop.
#[tokio::test]
async fn the_first_call_on_a_connection_waits_for_its_definitions() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pins.json");
    for revision in ERAS {
        let _ = std::fs::remove_file(&file);
        let first = server(vec![tool("changed", "before")]);
        let setup = pinned(&first, Pins::open(&file).unwrap());
        assert_eq!(names(&setup.client(revision).await).await, ["up.changed"]);
        setup.gateway.close().await;

        let second = server(vec![tool("changed", "after")]);
        for isolation in [Isolation::Shared, Isolation::Principal] {
            let mut settings = upstream("up", &second, revision);
            (settings.pins, settings.isolation) = (true, isolation);
            let pins = Pins::open(&file).unwrap();
            let setup = Setup::of(Gateway::with_pins(vec![settings], pins).unwrap());
            let client = setup.client(revision).await;
            let refused = client.call_tool("up.changed", json!({})).await.unwrap_err();
            assert_eq!(refused.server().unwrap().name(), Some("QUARANTINED"), "{isolation:?}");
            setup.gateway.close().await;
        }
    }
}

#[tokio::test]
async fn definitions_are_compared_again_after_an_idle_stop() {
    for revision in ERAS {
        let up = server(vec![tool("changed", "before"), tool("same", "S")]);
        let mut settings = upstream("up", &up, revision);
        (settings.pins, settings.idle_timeout) = (true, Duration::from_millis(10));
        let setup = Setup::new(vec![settings]);
        let client = setup.client(revision).await;
        assert_eq!(names(&client).await, ["up.changed", "up.same"]);
        let stopped = async {
            while setup.gateway.status()[0].connections > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        within("the idle stop", stopped).await;
        up.remove_tool("changed");
        up.add_tools(vec![tool("changed", "after")]).unwrap();
        let refused = client.call_tool("up.changed", json!({})).await.unwrap_err();
        assert_eq!(refused.server().unwrap().name(), Some("QUARANTINED"), "{revision}");
        assert_eq!(client.call_tool("up.same", json!({})).await.unwrap().text(), "S");
        let listed = async {
            while names(&client).await != ["up.same"] {
                tokio::task::yield_now().await;
            }
        };
        within("a list without the changed tool", listed).await;
    }
}

/// Tools that come after an empty list are new, and what was never approved leaves nothing behind.
#[tokio::test]
async fn tools_after_an_empty_list_are_new() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pins.json");
    let listing = async |tools: Vec<Tool>| {
        let setup = pinned(&server(tools), Pins::open(&file).unwrap());
        let client = setup.client(ERAS[0]).await;
        client.tools().all().await.unwrap();
        let settled = async {
            while setup.gateway.status()[0].connections == 0 {
                tokio::task::yield_now().await;
            }
        };
        within("its first list", settled).await;
        setup
    };
    listing(Vec::new()).await.gateway.close().await;
    for name in ["late", "later"] {
        let setup = listing(vec![tool(name, "L")]).await;
        let pinned = async {
            while setup.gateway.pins().list().iter().all(|pin| pin.tool != name) {
                tokio::task::yield_now().await;
            }
        };
        within("its list", pinned).await;
        let pins = setup.gateway.pins().list();
        assert_eq!(pins.len(), 1, "{pins:?}");
        assert_eq!((&*pins[0].tool, pins[0].state), (name, PinState::New));
        setup.gateway.close().await;
    }
}

/// Only the definition that a person saw is approved.
#[tokio::test]
async fn an_approval_is_bound_to_what_was_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pins.json");
    let mut shown = None;
    for description in ["first", "second", "third"] {
        let setup = pinned(&server(vec![tool("tool", description)]), Pins::open(&file).unwrap());
        let client = setup.client(ERAS[0]).await;
        let outcome = client.call_tool("up.tool", json!({})).await;
        assert_eq!(outcome.is_ok(), description == "first");
        if description != "first" {
            let pins = setup.gateway.pins();
            within("the changed definition", async {
                while pins.find("up.tool").unwrap().quarantined == shown {
                    tokio::task::yield_now().await;
                }
            })
            .await;
        }
        let pin = setup.gateway.pins().find("up.tool").unwrap();
        if let Some(shown) = &shown {
            let refused = setup.gateway.approve("up.tool", Some(shown)).unwrap_err();
            assert!(matches!(refused, ApproveError::Changed(_)), "{refused}");
            assert_eq!(setup.gateway.pins().find("up.tool").unwrap().state, PinState::Changed);
            setup.gateway.approve("up.tool", pin.quarantined.as_deref()).unwrap().unwrap();
            assert_eq!(client.call_tool("up.tool", json!({})).await.unwrap().text(), "third");
        }
        shown = pin.quarantined;
        setup.gateway.close().await;
    }
}
