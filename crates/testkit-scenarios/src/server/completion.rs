//! Completion of prompt arguments and template variables.

use mcp_flow_proto::Revision;
use mcp_flow_server::{Context, ResourceTemplate};
use serde_json::{Value, json};

use super::Connect;
use super::handshake::call;
use super::prompts::open;
use mcp_flow_testkit_fixture::{Fixture, prompts};

/// Values are completed from lists and by functions, at most a hundred at once, for prompt
/// arguments and template variables.
pub(crate) async fn arguments_are_completed(connect: &Connect) {
    let first_hundred: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    for revision in Revision::ALL {
        let mut peer = open(connect, &fixture(), revision).await;
        for (reference, argument, value, settled, values, total) in [
            (prompt(), "language", "r", json!({}), json!(["rust", "ruby"]), 2),
            (prompt(), "language", "y", json!({}), json!(["python", "ruby"]), 2),
            (prompt(), "language", "cobol", json!({}), json!([]), 0),
            (prompt(), "framework", "", json!({}), json!([]), 0),
            (prompt(), "framework", "fla", json!({"language": "python"}), json!(["flask"]), 1),
            (prompt(), "framework", "", json!({"language": "rust", "x": 7}), json!(["axum"]), 1),
            (prompt(), "number", "", json!({}), json!(first_hundred), 250),
            (prompt(), "number", "24", json!({}), numbers(), 11),
            (prompt(), "free", "x", json!({}), json!([]), 0),
            (template(), "planet", "m", json!({}), json!(["Mars", "Mercury"]), 2),
            (template(), "moon", "", json!({"planet": "Mars"}), json!(["Mars I"]), 1),
            (template(), "moon", "", json!({}), json!([]), 0),
        ] {
            let mut params =
                json!({"ref": reference, "argument": {"name": argument, "value": value}});
            if settled != json!({}) {
                params["context"] = json!({"arguments": settled});
            }
            let reply = call(&mut peer, revision, "completion/complete", params).await;
            let has_more = total > 100;
            assert_eq!(
                reply["result"]["completion"],
                json!({"values": values, "total": total, "hasMore": has_more}),
                "{argument} {value}: {reply}"
            );
            let stands_alone = reply["result"].get("resultType").is_some();
            assert_eq!(stands_alone, revision.is_stateless());
        }
    }
}

/// Invalid completion requests are explained.
pub(crate) async fn invalid_completions_are_explained(connect: &Connect) {
    let revision = Revision::V2025_11_25;
    let mut peer = open(connect, &fixture(), revision).await;
    let argument = json!({"name": "language", "value": "r"});
    let unknown = json!({"name": "nope", "value": ""});
    for (params, word) in [
        (json!({}), "ref is required"),
        (json!({"ref": {"type": "ref/tool"}, "argument": argument}), "ref/prompt or ref/resource"),
        (json!({"ref": prompt()}), "argument is required"),
        (json!({"ref": prompt(), "argument": {"name": "language"}}), "argument.value is required"),
        (json!({"ref": prompt(), "argument": unknown}), "nope is not an argument"),
        (json!({"ref": template(), "argument": unknown}), "there is planet, moon"),
        (
            json!({"ref": {"type": "ref/prompt", "name": "gone"}, "argument": argument}),
            "Unknown prompt: gone",
        ),
        (
            json!({"ref": {"type": "ref/resource", "uri": "x:/{gone}"}, "argument": argument}),
            "not a resource template",
        ),
        (
            json!({"ref": prompt(), "argument": argument, "context": {"arguments": []}}),
            "context.arguments must be an object",
        ),
        (
            json!({"ref": prompt(), "argument": argument,
                "context": {"arguments": {"language": 7}}}),
            "language must be a string",
        ),
    ] {
        let error = call(&mut peer, revision, "completion/complete", params.clone()).await;
        assert_eq!(error["error"]["code"], -32602, "{params}: {error}");
        assert!(error.to_string().contains(word), "{params}: {error}");
    }
}

fn fixture() -> Fixture {
    Fixture::with(|builder| {
        let planets = ResourceTemplate::builder("planets:/{planet}/{moon}")
            .complete_from("planet", ["Earth", "Mars", "Mercury"])
            .complete("moon", |_, _, resolved| {
                resolved
                    .get("planet")
                    .map(|planet| format!("{planet} I"))
                    .into_iter()
                    .collect::<Vec<_>>()
            })
            .read(async |_: Context, _: Value| "round");
        builder.prompts(prompts()).resources(planets)
    })
}

fn prompt() -> Value {
    json!({"type": "ref/prompt", "name": "pick"})
}

fn template() -> Value {
    json!({"type": "ref/resource", "uri": "planets:/{planet}/{moon}"})
}

fn numbers() -> Value {
    json!(["24", "240", "241", "242", "243", "244", "245", "246", "247", "248", "249"])
}
