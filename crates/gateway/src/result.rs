//! Results of upstreams in the form of the caller's revision.

use std::sync::Arc;

use mcp_flow_client::{ContentBlock, ReadContents};
use mcp_flow_proto::model::{Content, Meta, PromptMessage, ResourceContents, Role};
use mcp_flow_proto::{OwnedRaw, Raw, RpcError};
use mcp_flow_server::resource::Contents;
use mcp_flow_server::{Context, Outcome, PromptOutput, ToolOutput};
use serde::Deserialize;
use serde_json::Value;

use crate::definitions::strip_protocol_members;
use crate::download::{Download, spooled_contents, take_large, take_spooled};
use crate::error;
use crate::upstream::Upstream;

/// Result of `tools/call`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallOutcome {
    #[serde(default)]
    content: Option<Vec<ContentBlock>>,
    #[serde(default)]
    structured_content: Option<Value>,
    #[serde(default)]
    is_error: Option<bool>,
    #[serde(rename = "_meta", default)]
    meta: Option<Meta>,
}

/// Result of `prompts/get`.
#[derive(Deserialize)]
struct PromptOutcome {
    #[serde(default)]
    description: Option<String>,
    messages: Vec<Message>,
    #[serde(rename = "_meta", default)]
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Message {
    role: Role,
    content: ContentBlock,
}

/// Result of `resources/read`.
#[derive(Deserialize)]
struct ReadOutcome {
    contents: Vec<ReadContents>,
}

/// Replies with the result of a tool call.
pub(crate) async fn reply_tool(
    context: &Context,
    upstream: &Arc<Upstream>,
    result: &OwnedRaw,
) -> Outcome {
    let outcome: CallOutcome = decode(upstream.name(), result.as_raw())?;
    let mut content: Vec<_> = outcome.content.unwrap_or_default().into_iter().map(known).collect();
    let limits = context.limits();
    let is_too_large = result.as_raw().bytes().len() > limits.result_bytes;
    for item in &mut content {
        let bulk = match Download::in_content(upstream, item) {
            Some(download) => download.into_bulk(upstream, context),
            None => {
                upstream.links.note(item);
                let spooled = take_spooled(&upstream.spool, item);
                let mut large = || is_too_large.then(|| take_large(item, limits.inline_bytes));
                let Some(bulk) = spooled.or_else(|| large().flatten()) else { continue };
                bulk
            }
        };
        *item = match context.deliver(bulk).await {
            Ok(delivered) => delivered,
            Err(error) => return context.reply_output(&ToolOutput::failure(error.to_string())),
        };
    }
    context.reply_output(&ToolOutput {
        content,
        structured: outcome.structured_content,
        is_error: outcome.is_error.unwrap_or_default(),
        meta: own_meta(outcome.meta),
    })
}

/// Replies with the result of `prompts/get`.
pub(crate) fn reply_prompt(context: &Context, server: &str, result: Raw<'_>) -> Outcome {
    let outcome: PromptOutcome = decode(server, result)?;
    let messages = outcome.messages.into_iter();
    let messages =
        messages.map(|Message { role, content }| PromptMessage { role, content: known(content) });
    let output = PromptOutput {
        description: outcome.description,
        messages: messages.collect(),
        meta: own_meta(outcome.meta),
    };
    output.reply_to(context)
}

/// Replies with the result of `resources/read`.
pub(crate) async fn reply_resource(
    context: &Context,
    upstream: &Arc<Upstream>,
    alias: &str,
    uri: &str,
    result: &OwnedRaw,
) -> Outcome {
    let server = upstream.name();
    let uri = &*format!("{alias}{uri}");
    let outcome: ReadOutcome = decode(server, result.as_raw())?;
    if let [ReadContents::Known(ResourceContents { uri: own, meta: Some(meta), .. })] =
        &*outcome.contents
        && let Some(download) = Download::in_meta(upstream, meta)
    {
        let bulk = download.into_bulk(upstream, context).with_uri(format!("{alias}{own}"));
        return context.reply_contents(uri, Contents::Bulk(bulk)).await;
    }
    if let [ReadContents::Known(contents)] = &*outcome.contents
        && let Some(bulk) = spooled_contents(&upstream.spool, contents)
    {
        let bulk = bulk.with_uri(format!("{alias}{}", contents.uri));
        return context.reply_contents(uri, Contents::Bulk(bulk)).await;
    }
    let mut entries = Vec::with_capacity(outcome.contents.len());
    for contents in outcome.contents {
        match contents {
            ReadContents::Known(mut contents) => {
                if spooled_contents(&upstream.spool, &contents).is_some() {
                    return Err(error::unusable(server, "the resource has several large contents"));
                }
                if let Some(meta) = &mut contents.meta {
                    strip_protocol_members(meta);
                }
                // Under its own URI another upstream would be read.
                contents.uri.insert_str(0, alias);
                entries.push(contents);
            }
            ReadContents::Unknown(_) => {
                let what = "the contents of the resource are neither text nor bytes";
                return Err(error::unusable(server, what));
            }
        }
    }
    context.reply_contents(uri, Contents::Entries(entries)).await
}

/// A block as it is known here. Others become text: no revision of a caller defines them.
fn known(block: ContentBlock) -> Content {
    match block {
        ContentBlock::Known(content) => content,
        ContentBlock::Unknown(value) => Content::text(value.to_string()),
    }
}

fn own_meta(meta: Option<Meta>) -> Meta {
    let mut meta = meta.unwrap_or_default();
    strip_protocol_members(&mut meta);
    meta
}

fn decode<'a, T: Deserialize<'a>>(server: &str, result: Raw<'a>) -> Result<T, RpcError> {
    result.decode().map_err(|problem| {
        error::unusable(server, &format!("the result cannot be decoded: {problem}"))
    })
}
