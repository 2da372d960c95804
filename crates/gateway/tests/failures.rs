//! Upstreams that fail, and others that do not notice.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use mcp_flow_client::model::LogLevel;
use mcp_flow_client::{Backoff, ClientEvent};
use mcp_flow_gateway::{Gateway, UpstreamSettings};
use mcp_flow_http_client::HttpOptions;
use mcp_flow_stdio::client::Program;
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;
use serde_json::{Value, json};

use crate::support::{ERAS, Setup, pairs, upstream};

/// An upstream that a shell script plays.
pub(crate) fn script(name: &str, script: &str) -> UpstreamSettings {
    let program = Program::new("sh").arguments(["-c", script]);
    let mut settings = UpstreamSettings::new(name, Arc::new(program));
    settings.connect_timeout = Duration::from_secs(2);
    settings.call_timeout = Duration::from_secs(2);
    settings
}

/// A script that answers `initialize` and one `tools/list`, and then runs `rest`.
pub(crate) fn lists(tools: &Value, rest: &str) -> String {
    // Part of a format of `printf`.
    let tools = tools.to_string().replace('\\', "\\\\");
    let capabilities = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;
    format!(
        r#"
id() {{ printf '%s' "$1" | sed 's/.*"id":\([0-9]*\).*/\1/'; }}
while read -r line; do
  case "$line" in
    *server/discover*) printf '{{"jsonrpc":"2.0","id":%s,"error":{{"code":-32601,"message":"no"}}}}\n' "$(id "$line")";;
    *'"initialize"'*) printf '{{"jsonrpc":"2.0","id":%s,"result":{capabilities}}}\n' "$(id "$line")";;
    *tools/list*) printf '{{"jsonrpc":"2.0","id":%s,"result":{{"tools":{tools}}}}}\n' "$(id "$line")";;
    *tools/call*) {rest};;
  esac
done"#
    )
}

/// The errors of an upstream that does not start name it, and the other one works.
#[tokio::test]
async fn an_upstream_that_does_not_start_is_unavailable() {
    for bad in ["exit 3", "sleep 60", "yes", "echo '{}'; sleep 60"] {
        let fixture = Fixture::new();
        let good = upstream("good", &fixture.server, ERAS[1]);
        let setup = Setup::new(vec![script("bad", bad), good]);
        let client = setup.client(ERAS[1]).await;
        let tools = client.tools().all().await.unwrap();
        assert!(tools.iter().all(|tool| tool.name.starts_with("good.")), "{bad}");
        let sum = client.call_tool("good.math.add", json!({"a": 2, "b": 3})).await.unwrap();
        assert_eq!(sum.text(), "5");
        let error = client.call_tool("bad.any", json!({})).await.unwrap_err();
        let data = &error.server().unwrap_or_else(|| panic!("{bad}: {error}")).data;
        assert_eq!((&data["domain"], &data["server"]), (&json!("gateway"), &json!("bad")));
        assert_eq!(data["name"], "UPSTREAM_UNAVAILABLE", "{bad}");
        let status = setup.gateway.status();
        assert!(status[0].failures > 0 && status[0].last_error.is_some(), "{bad} {status:?}");
        setup.gateway.close().await;
    }
}

/// The first request for something of an upstream that could not be listed says so, whatever it is for,
/// and with the only upstream, a list as well: an empty one would say that there is nothing.
#[tokio::test]
async fn an_upstream_that_was_never_listed_is_no_empty_one() {
    let endless = lists(&json!([{"name": "t"}]), ":");
    let endless = endless.replace(r#"{"tools":["#, r#"{"nextCursor":"again","tools":["#);
    for (bad, expected) in [("sleep 60", "UPSTREAM_UNAVAILABLE"), (&endless, "UPSTREAM_ERROR")] {
        let bad_one = || {
            let mut settings = script("bad", bad);
            settings.connect_timeout = Duration::from_millis(500);
            settings
        };
        for revision in ERAS {
            let named = |error: mcp_flow_client::Error| {
                let error = error.server().unwrap_or_else(|| panic!("{bad}: {error}")).clone();
                assert_eq!(error.data["server"], "bad", "{bad}: {error}");
                error.name().unwrap_or_default().to_owned()
            };
            // The first request finds nothing started.
            for is_tool in [true, false] {
                let setup = Setup::new(vec![bad_one()]);
                let client = setup.client(revision).await;
                let failed = match is_tool {
                    true => client.call_tool("bad.any", json!({})).await.map(drop),
                    false => client.get_prompt("bad.any", [("a", "b")]).await.map(drop),
                };
                assert_eq!(named(failed.unwrap_err()), expected, "{bad} {is_tool}");
                setup.gateway.close().await;
            }
            let (gateway, server) = Gateway::relay(bad_one(), |_| ()).await.unwrap();
            let server = server.build().unwrap();
            gateway.attach(&server);
            let setup = Setup { gateway, server };
            let client = setup.client(revision).await;
            for failed in [
                client.call_tool("any", json!({})).await.map(drop),
                client.get_prompt("any", [("a", "b")]).await.map(drop),
                client.read_resource("x:/any").await.map(drop),
                client.tools().all().await.map(drop),
                client.prompts().all().await.map(drop),
                client.resources().all().await.map(drop),
                client.resource_templates().all().await.map(drop),
            ] {
                assert_eq!(named(failed.unwrap_err()), expected, "{bad}");
            }
            setup.gateway.close().await;
        }
    }
}

/// Lists come from what was listed last while an upstream is gone, and calls say that it is.
#[tokio::test]
async fn a_lost_upstream_keeps_its_definitions() {
    for client_revision in ERAS {
        let tools = json!([{"name": "die", "inputSchema": {"type": "object"}}]);
        let setup = Setup::new(vec![script("up", &lists(&tools, "exit 1"))]);
        let client = setup.client(client_revision).await;
        assert_eq!(client.tools().all().await.unwrap()[0].name, "up.die");
        let lost = client.call_tool("up.die", json!({})).await.unwrap_err();
        let error = lost.server().unwrap();
        assert_eq!(error.name(), Some("UPSTREAM_LOST"), "{error}");
        assert_eq!(
            (&error.data["domain"], &error.data["server"]),
            (&json!("gateway"), &json!("up"))
        );
        assert_eq!(client.tools().all().await.unwrap()[0].name, "up.die");
        setup.gateway.close().await;
    }
}

#[tokio::test]
async fn a_call_without_response_ends() {
    let tools = json!([{"name": "hang"}]);
    let setup = Setup::new(vec![script("up", &lists(&tools, ":"))]);
    let client = setup.client(ERAS[0]).await;
    let lost = client.call_tool("up.hang", json!({})).await.unwrap_err();
    assert_eq!(lost.server().unwrap().name(), Some("UPSTREAM_LOST"));
    setup.gateway.close().await;
}

/// Responses with other ids, and twice, belong to nobody.
#[tokio::test]
async fn stray_responses_are_ignored() {
    let tools = json!([{"name": "stray"}]);
    let reply = |id: &str, text: &str| {
        format!(
            r#"printf '{{"jsonrpc":"2.0","id":%s,"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}\n' "{id}""#
        )
    };
    let own = r#"$(id "$line")"#;
    let rest = [reply("9999", "x"), reply(own, "mine"), reply(own, "again")].join(";");
    let setup = Setup::new(vec![script("up", &lists(&tools, &rest))]);
    let client = setup.client(ERAS[1]).await;
    for _ in 0..3 {
        let outcome = client.call_tool("up.stray", json!({})).await.unwrap();
        assert_eq!(outcome.text(), "mine");
    }
    setup.gateway.close().await;
}

/// Names that are invalid, too long, or taken are mapped; a schema that nobody understands hides no
/// tool.
#[tokio::test]
async fn invalid_names_are_mapped() {
    let long = "x".repeat(300);
    let tools = json!([
        {"name": "a b"}, {"name": "a\u{1b}b"}, {"name": "a_b"}, {"name": long},
        {"name": "odd", "inputSchema": {"type": "object", "$ref": "http://x"}},
        {"title": "without a name"},
    ]);
    let setup = Setup::new(vec![script("up", &lists(&tools, ":"))]);
    let client = setup.client(ERAS[0]).await;
    let names: Vec<_> =
        client.tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(&names[..3], ["up.a_b", "up.a_b-2", "up.a_b-3"]);
    assert_eq!((names[3].len(), &*names[4]), (128, "up.odd"));
    assert_eq!(names.len(), 5);
    setup.gateway.close().await;
}

/// An input schema that makes clients reject the whole list is served as one that accepts any object.
#[tokio::test]
async fn schemas_that_hide_the_tools_of_others_are_replaced() {
    let any = json!({"type": "object"});
    let good = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": true},
        "required": ["a"], "additionalProperties": false});
    // Clients take no schemas that are not objects.
    let mut mended = good.clone();
    mended["properties"]["b"] = json!({});
    for (schema, served) in [
        (json!({"type": "string"}), &any),
        (json!({"properties": {}}), &any),
        (json!({"type": ["object", "null"]}), &any),
        (json!({"type": "object", "properties": 7}), &any),
        (json!({"type": "object", "properties": []}), &any),
        (json!({"type": "object", "properties": {"a": "string"}}), &any),
        (json!({"type": "object", "required": 7}), &any),
        (json!({"type": "object", "required": ["a", 7]}), &any),
        (json!(7), &any),
        (json!(null), &any),
        (good.clone(), &mended),
    ] {
        let output = json!({"type": "object", "properties": 7});
        let tools = json!([{"name": "odd", "inputSchema": schema, "outputSchema": output},
            {"name": "next", "inputSchema": good, "outputSchema": good}]);
        let setup = Setup::new(vec![script("up", &lists(&tools, ":"))]);
        for revision in ERAS {
            let client = setup.client(revision).await;
            let tools = client.tools().all().await.unwrap();
            let [odd, next] = tools.as_slice() else { panic!("{schema}: {tools:?}") };
            assert_eq!(json!(odd.input_schema), *served, "{schema}");
            assert!(odd.output_schema.is_none(), "{schema}");
            assert_eq!(
                (json!(next.input_schema), json!(next.output_schema)),
                (mended.clone(), mended.clone())
            );
        }
        setup.gateway.close().await;
    }
}

/// Errors that callers get have neither the command nor the address nor the output of an
/// upstream, which may have secrets; the operator's status has all of it.
#[tokio::test]
async fn failures_tell_callers_no_secrets() {
    let program = |text: &str| {
        let mut settings = script("up", text);
        let program = Program::new("sh").arguments(["-c", text, "--api-key=s3cr3t"]);
        settings.connector = Arc::new(program);
        settings
    };
    let address = || {
        let address = "http://127.0.0.1:1/s3cr3t?key=s3cr3t";
        let endpoint = mcp_flow_http_client::server(address, &HttpOptions::new()).unwrap();
        UpstreamSettings::new("up", Arc::new(endpoint))
    };
    let lost = lists(&json!([{"name": "t"}]), "echo s3cr3t >&2; exit 3");
    for (settings, name, expected) in [
        (program("exit 3"), "UPSTREAM_UNAVAILABLE", "exit status: 3"),
        (program("echo s3cr3t >&2; exit 3"), "UPSTREAM_UNAVAILABLE", "exit status: 3"),
        (program(&lost), "UPSTREAM_LOST", "exit status: 3"),
        (address(), "UPSTREAM_UNAVAILABLE", "refused"),
    ] {
        let setup = Setup::new(vec![settings]);
        let client = setup.client(ERAS[1]).await;
        let mut last = None;
        // The last ones find the breaker open.
        for _ in 0..5 {
            let failed = client.call_tool("up.t", json!({})).await.unwrap_err();
            let error = failed.server().unwrap().clone();
            let text = format!("{} {}", error.message, error.data);
            assert!(!text.contains("s3cr3t"), "{text}");
            last = last.or(Some((error, text)));
        }
        let (error, text) = last.unwrap();
        assert_eq!(error.name(), Some(name), "{text}");
        assert!(text.contains(expected), "{text}");
        let status = setup.gateway.status();
        let known = format!("{:?} {:?}", status[0].errors, status[0].last_error);
        assert!(known.contains("s3cr3t"), "{known}");
        setup.gateway.close().await;
    }
}

/// An upstream that exits when it is told a log level, or when it was just connected, fails calls and
/// hangs none; the caller learns how it exited.
#[tokio::test]
async fn an_upstream_that_exits_while_it_is_connected_hangs_nobody() {
    let tools = json!([{"name": "t"}]);
    let reply = r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}\n' "$(id "$line")""#;
    let logging = lists(&tools, reply).replace("\"tools\":{}", "\"tools\":{},\"logging\":{}");
    let logging = logging.replace("*tools/call*)", "*logging/setLevel*) exit 3;;\n*tools/call*)");
    let setup = Setup::new(vec![script("up", &logging)]);
    let client = setup.client(ERAS[1]).await;
    client.tools().all().await.unwrap();
    client.set_log_level(LogLevel::Info).await.unwrap();
    for _ in 0..4 {
        let called = within("the call", client.call_tool("up.t", json!({})).into_future()).await;
        called.unwrap();
    }
    setup.gateway.close().await;

    let exits =
        lists(&tools, reply).replace("*tools/list*)", "*initialized*) exit 3;;\n*tools/list*)");
    let setup = Setup::new(vec![script("up", &exits)]);
    let client = setup.client(ERAS[1]).await;
    for _ in 0..4 {
        let failed = within("the call", client.call_tool("up.t", json!({})).into_future()).await;
        let error = failed.unwrap_err().server().unwrap().clone();
        assert_eq!(error.name(), Some("UPSTREAM_UNAVAILABLE"), "{error}");
        assert!(error.data["details"].as_str().unwrap().contains("exit status: 3"), "{error:?}");
    }
    setup.gateway.close().await;
}

/// A relay that waits for its server to come says why it is not there.
#[tokio::test]
async fn a_relay_says_why_its_server_has_not_started() {
    let mut settings = script("up", "exit 3");
    settings.connect_timeout = Duration::from_secs(600);
    settings.reconnect = Backoff { initial_attempts: 1000, ..settings.reconnect };
    let (gateway, server) = within("the relay", Gateway::relay(settings, |_| ())).await.unwrap();
    let server = server.build().unwrap();
    gateway.attach(&server);
    let setup = Setup { gateway, server };
    let client = setup.client(ERAS[0]).await;
    let failed = client.tools().all().await.unwrap_err();
    let error = failed.server().unwrap();
    assert_eq!(error.name(), Some("UPSTREAM_UNAVAILABLE"), "{error}");
    let details = error.data["details"].as_str().unwrap();
    assert!(details.contains("not started yet") && details.contains("exit status: 3"), "{details}");
    setup.gateway.close().await;
}

/// After three failed starts, nobody waits for another.
#[tokio::test]
async fn the_breaker_opens_after_three_failed_starts() {
    let fixture = Fixture::new();
    let tools = json!([{"name": "t"}]);
    let once = tempfile::tempdir().unwrap();
    let flag = once.path().join("started");
    let first = lists(&tools, "exit 1");
    let flag = flag.display();
    let setup = Setup::new(vec![
        script("up", &format!("test -e {flag} && exit 3; touch {flag}; {first}")),
        upstream("good", &fixture.server, ERAS[0]),
    ]);
    let client = setup.client(ERAS[0]).await;
    client.tools().all().await.unwrap();
    let mut retry = None;
    for _ in 0..8 {
        let error = client.call_tool("up.t", json!({})).await.unwrap_err();
        let error = error.server().unwrap().clone();
        if error.name() == Some("UPSTREAM_UNAVAILABLE") {
            retry = retry.or(error.data["retryAfterMs"].as_u64());
        }
    }
    assert!(retry.is_some(), "the breaker is open");
    assert!(client.call_tool("good.who", json!({})).await.is_ok());
    setup.gateway.close().await;
}

/// Inbound credentials never reach an upstream: what it learns of the caller is the gateway.
#[tokio::test]
async fn the_upstream_sees_the_gateway_as_its_client() {
    for (client, server) in pairs() {
        let fixture = Fixture::new();
        let setup = Setup::before(&fixture.server, server);
        let client = setup.client(client).await;
        let who = client.call_tool("up.who", json!({})).await.unwrap().structured.unwrap();
        assert_eq!(who["principal"], "local");
        assert_eq!(who["revision"], server.name());
    }
}

/// The URLs of an error are where clients look for them, and the caller hears when they are done.
#[tokio::test]
async fn errors_that_need_a_url_reach_the_caller_as_they_are() {
    let tools = json!([{"name": "pay"}]);
    let error = r#"printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"first pay","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://h","message":"Pay"}]}}}\n' "$(id "$line")""#;
    let done = r#"printf '{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}}\n'"#;
    let result = r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}\n' "$(id "$line")""#;
    let rest = format!("if test -n \"$asked\"; then {done}; {result}; else asked=1; {error}; fi");
    for revision in ERAS {
        let setup = Setup::new(vec![script("up", &lists(&tools, &rest))]);
        let client = setup.client(revision).await;
        let mut events = client.events();
        let failed = client.call_tool("up.pay", json!({})).await.unwrap_err();
        let error = failed.server().unwrap();
        assert_eq!(error.code, -32042);
        assert_eq!(error.data["elicitations"][0]["elicitationId"], "e1", "{error}");
        assert_eq!(error.data["server"], "up");
        client.call_tool("up.pay", json!({})).await.unwrap();
        let notified = async {
            loop {
                if let ClientEvent::Other { method, params } = events.next().await.unwrap() {
                    break (method, params);
                }
            }
        };
        if !revision.is_stateless() {
            let (method, params) = within("the notification", notified).await;
            assert_eq!(method, "notifications/elicitation/complete");
            assert_eq!(params["elicitationId"], "e1");
        }
        setup.gateway.close().await;
    }
}
