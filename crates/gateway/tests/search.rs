//! Search instead of long lists.

use mcp_flow_client::Client;
use mcp_flow_gateway::{ApprovalRules, Gateway};
use mcp_flow_server::permissions::{AccessRule, Names};
use mcp_flow_server::{Context, Permissions, Server, Tool};
use mcp_flow_stdio::client::in_process;
use serde_json::{Value, json};

use crate::support::{ERAS, Setup, upstream};

fn server(count: usize) -> Server {
    let mut tools: Vec<_> = (0..count)
        .map(|number| {
            let builder = Tool::builder(format!("tool_{number}")).description("Does something");
            builder.quick(move |_: &Context, _: Value| number.to_string()).unwrap()
        })
        .collect();
    let weather = Tool::builder("forecast").description("Tells the weather of tomorrow");
    tools.push(
        weather
            .quick(|_: &Context, given: Value| {
                format!("rain in {}", given["city"].as_str().unwrap_or("?"))
            })
            .unwrap(),
    );
    Server::builder("tools", "1.0.0").tools(tools).build().unwrap()
}

async fn names(client: &Client) -> Vec<String> {
    client.tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

#[tokio::test]
async fn long_lists_become_a_search() {
    for (count, is_searched) in [(3, false), (4, true), (100, true)] {
        for revision in ERAS {
            let up = server(count);
            let gateway = Gateway::new(vec![upstream("up", &up, revision)]).unwrap();
            gateway.search_above(4);
            let setup = Setup::of(gateway);
            let client = setup.client(revision).await;
            let listed = names(&client).await;
            if !is_searched {
                assert_eq!(listed.len(), count + 1, "{listed:?}");
                continue;
            }
            assert_eq!(listed, ["search_tools", "call_tool"]);
            let found =
                client.call_tool("search_tools", json!({"query": "weather"})).await.unwrap();
            let found = found.structured.unwrap();
            assert_eq!(found["tools"][0]["name"], "up.forecast", "{found}");
            let call = json!({"name": "up.forecast", "arguments": {"city": "Oslo"}});
            let outcome = client.call_tool("call_tool", call).await.unwrap();
            assert_eq!(outcome.text(), "rain in Oslo");
            for name in ["up.none", "call_tool", "search_tools"] {
                assert!(
                    client.call_tool("call_tool", json!({"name": name})).await.is_err(),
                    "{name}"
                );
            }
        }
    }
}

/// Search and calls follow the permissions of the caller, and approvals.
#[tokio::test]
async fn a_search_finds_only_what_the_caller_may_call() {
    let up = server(20);
    let mut settings = upstream("up", &up, ERAS[0]);
    settings.approve = ApprovalRules::new(["tool_1"]);
    settings.answer_timeout = std::time::Duration::from_millis(1);
    let gateway = Gateway::new(vec![settings]).unwrap();
    gateway.search_above(5);
    let rule = AccessRule {
        principals: Names::all(),
        tools: Names::new(["search_tools", "call_tool", "up.tool_*"]),
        ..AccessRule::default()
    };
    let server = Server::builder("gateway", "1.0.0").permissions(Permissions::new(vec![rule]));
    let server = gateway.add_to(server).build().unwrap();
    gateway.attach(&server);
    let client = Client::builder().connect(in_process(&server)).await.unwrap();
    assert_eq!(names(&client).await, ["search_tools", "call_tool"]);
    let found = client.call_tool("search_tools", json!({"query": "weather"})).await.unwrap();
    assert_eq!(found.structured.unwrap()["tools"], json!([]));
    let hidden = client.call_tool("call_tool", json!({"name": "up.forecast"})).await.unwrap_err();
    assert_eq!(hidden.server().unwrap().name(), Some("UNKNOWN_TOOL"));
    let refused = client.call_tool("call_tool", json!({"name": "up.tool_1"})).await.unwrap_err();
    assert_eq!(refused.server().unwrap().name(), Some("NOT_APPROVED"));
}
