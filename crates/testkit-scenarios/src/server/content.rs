//! Content of results: encoded by revision, filtered and bounded.

use mcp_flow_proto::Revision;
use mcp_flow_proto::model::{Content, ResourceContents};
use mcp_flow_server::{
    ContentForm, Context, IntoToolOutput, Limits, Tool, ToolOutput, strip_control_characters,
};
use serde_json::{Value, json};

use super::Connect;
use mcp_flow_testkit::Peer;
use mcp_flow_testkit_fixture::Fixture;

/// MCP-058, MCP-059, MCP-060, MCP-061, C-25, C-26, C-40: each revision gets the content types it
/// has, and the nearest equivalent of others.
pub(crate) async fn content_is_encoded_by_revision(connect: &Connect) {
    let image = json!({"type": "image", "data": "AQ==", "mimeType": "image/png"});
    let with_url =
        json!({"type": "image", "data": "AQ==", "mimeType": "image/png", "url": "x:/a.png"});
    let image_link = json!({"type": "resource_link", "uri": "x:/b.png", "name": "b.png"});
    let audio = json!({"type": "audio", "data": "Ag==", "mimeType": "audio/wav"});
    let sound = json!({"uri": "inline:content", "mimeType": "audio/wav", "blob": "Ag=="});
    let link = json!({"type": "resource_link", "uri": "file:///d", "name": "d"});
    let text = |text: &str| json!({"type": "text", "text": text});
    let embedded = json!({"type": "resource", "resource": {"uri": "file:///c", "text": "hi"}});
    let oldest = [
        text("t"),
        with_url,
        text("b.png: x:/b.png"),
        json!({"type": "resource", "resource": sound}),
        embedded.clone(),
        text("d: file:///d"),
    ];
    let older = [
        text("t"),
        image.clone(),
        text("b.png: x:/b.png"),
        audio.clone(),
        embedded.clone(),
        text("d: file:///d"),
    ];
    let newer = [text("t"), image, image_link, audio, embedded, link];
    for (revision, expected) in
        Revision::ALL.into_iter().zip([&oldest, &older, &newer, &newer, &newer])
    {
        let fixture = Fixture::with(|builder| builder.tools(returning(everything)));
        let result = call(connect, &fixture, revision).await;
        assert_eq!(result["content"], json!(expected), "{revision}");
        assert_eq!(result["isError"], false);
    }
}

/// MCP-059, MCP-060, MCP-061, C-25, C-26: a server configured for seed 002 uses its forms in every
/// revision.
pub(crate) async fn content_in_the_forms_of_seed_002(connect: &Connect) {
    for revision in Revision::ALL {
        let fixture = Fixture::with(|builder| {
            builder.tools(returning(everything)).content_form(ContentForm::Seed002)
        });
        let result = call(connect, &fixture, revision).await;
        let sound = if revision == Revision::V2024_11_05 { "embedded" } else { "audio" };
        let expected = json!([
            {"type": "text", "text": "t"},
            {"type": "image", "url": "x:/a.png", "data": "AQ==", "mimeType": "image/png"},
            {"type": "image", "url": "x:/b.png"},
            {"type": sound, "data": "Ag==", "mimeType": "audio/wav"},
            {"type": "embedded", "data": "aGk=", "mimeType": "text/plain"},
            {"type": "resource", "uri": "file:///d"},
        ]);
        assert_eq!(result["content"], expected, "{revision}");
    }
}

/// MCP-019, MCP-028, C-24: the first content of any failure is its message, and so is
/// `errorMessage` where it exists.
pub(crate) async fn every_failure_has_a_message(connect: &Connect) {
    let broken = || ToolOutput {
        is_error: true,
        ..ToolOutput::content([Content::image([1], "image/png"), Content::text("broken")])
    };
    let silent = || ToolOutput { is_error: true, ..ToolOutput::default() };
    for revision in Revision::ALL {
        for (tool, message) in [
            (returning(broken), "broken"),
            (returning(silent), "The tool failed without saying why."),
        ] {
            let fixture = Fixture::with(|builder| builder.tools(tool));
            let result = call(connect, &fixture, revision).await;
            check_failure(&result, revision, message);
        }
    }
}

/// PAT-035: filters apply to all output: texts, failures and everything else, in their order.
pub(crate) async fn output_filters_are_applied(connect: &Connect) {
    let dirty = "\u{1b}[31mred\u{1b}[0m\u{7}\n";
    for revision in Revision::ALL {
        for tool in [
            returning(move || dirty.to_owned()),
            returning(move || Content::text(dirty)),
            returning(move || Err::<(), _>(dirty)),
        ] {
            let fixture = Fixture::with(|builder| {
                builder.tools(tool).filter_output(strip_control_characters).filter_output(
                    |context, output| {
                        assert_eq!(context.principal().name(), "local");
                        let seen = output.content[0] == Content::text("red\n");
                        output.content.push(Content::text(if seen { "clean" } else { "dirty" }));
                    },
                )
            });
            let result = call(connect, &fixture, revision).await;
            assert_eq!(
                result["content"],
                json!([{"type": "text", "text": "red\n"}, {"type": "text", "text": "clean"}])
            );
            if result["isError"] == true {
                check_failure(&result, revision, "red\n");
            }
        }
    }
}

/// PAT-035, MCP-028: a filter that panics fails the call whose output it was given, and no other.
pub(crate) async fn a_panic_in_a_filter_fails_only_its_call(connect: &Connect) {
    let fixture = Fixture::with(|builder| {
        builder.filter_output(|_, output| {
            let text = &output.content[0];
            let refused = [Content::text("7"), Content::text("reported")];
            assert!(!refused.contains(text), "secret detail");
        })
    });
    let mut peer = connect(fixture.server.clone()).await;
    peer.initialize(Revision::V2025_11_25).await;
    for (tool, arguments) in [("math.add", json!({"a": 3, "b": 4})), ("report", json!({}))] {
        let refused = peer.call_tool(tool, arguments).await;
        assert_eq!(refused["result"]["_meta"]["error"]["code"], -32603, "{tool}: {refused}");
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }
    let served = peer.call_tool("math.add", json!({"a": 3, "b": 5})).await;
    assert_eq!(served["result"]["content"][0]["text"], "8");
}

/// PAT-035: a result above the limit is replaced by a failure with its size, the limit and what to
/// do.
pub(crate) async fn an_oversized_result_becomes_a_failure(connect: &Connect) {
    let limits = || Limits { result_bytes: 10_000, ..Limits::default() };
    for revision in Revision::ALL {
        for (tool, fits) in [
            (returning(|| "x".repeat(9_000)), true),
            (returning(|| "x".repeat(10_000)), false),
            (returning(|| Content::image(vec![0; 9_000], "image/png")), false),
            (returning(|| Err::<(), _>("x".repeat(20_000))), false),
        ] {
            let fixture = Fixture::with(|builder| builder.tools(tool).limits(limits()));
            let result = call(connect, &fixture, revision).await;
            assert_eq!(result["isError"], !fits, "{revision}");
            if !fits {
                let message = result["content"][0]["text"].as_str().unwrap();
                assert!(message.contains("at most 10000 bytes. Ask for less"), "{message}");
                check_failure(&result, revision, message);
                assert!(result.to_string().len() < 1_000);
            }
        }
    }
}

fn everything() -> Vec<Content> {
    vec![
        Content::text("t"),
        Content::image_with_url([1], "image/png", "x:/a.png"),
        Content::image_url("x:/b.png"),
        Content::audio([2], "audio/wav"),
        Content::embedded(ResourceContents::text("file:///c", "hi")),
        Content::link("file:///d", "d"),
    ]
}

/// The tool `returns`, with this result.
fn returning<R: IntoToolOutput>(value: impl Fn() -> R + Send + Sync + 'static) -> Tool {
    let tool = Tool::builder("returns").quick(move |_: &Context, _: Value| value());
    tool.expect("the tool is good")
}

/// Calls `returns` as a client of this revision.
async fn call(connect: &Connect, fixture: &Fixture, revision: Revision) -> Value {
    let mut peer: Peer = connect(fixture.server.clone()).await;
    let mut params = json!({"name": "returns"});
    if revision.is_stateless() {
        params["_meta"] = mcp_flow_testkit::stateless_meta();
    } else {
        peer.initialize(revision).await;
    }
    peer.call("tools/call", params).await["result"].clone()
}

fn check_failure(result: &Value, revision: Revision, message: &str) {
    let old = revision == Revision::V2024_11_05;
    let (old_place, new_place) = (result.get("errorMessage"), result["_meta"].get("errorMessage"));
    let message = Some(json!(message));
    assert_eq!(result["isError"], true, "{revision}");
    assert_eq!(result["content"][0].get("text"), message.as_ref(), "{revision}");
    assert_eq!(if old { old_place } else { new_place }, message.as_ref(), "{revision}");
    assert_eq!(if old { new_place } else { old_place }, None, "{revision}");
}
