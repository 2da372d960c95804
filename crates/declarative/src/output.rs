//! Output of tools: from the bytes of a program or a response to a result.

use mcp_flow_proto::Raw;
use mcp_flow_proto::decode_error::json_problem;
use mcp_flow_schema::{CheckError, Schema};
use mcp_flow_server::bulk::Bulk;
use mcp_flow_server::handler::Reply;
use mcp_flow_server::tool::Failure;
use mcp_flow_server::{Context, IntoToolOutput, ToolOutput};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::model::{DeclaredTool, OutputForm};

/// Result of a tool.
#[derive(Debug)]
pub(crate) enum Produced {
    Output(ToolOutput),
    /// A payload that is delivered as the connection can.
    Bulk(Bulk),
}

/// Result or failure of a tool.
#[derive(Debug)]
pub(crate) struct ToolResult(pub(crate) Result<Produced, Failure>);

impl IntoToolOutput for ToolResult {
    fn into_tool_output(self) -> ToolOutput {
        match self.0 {
            Ok(Produced::Output(output)) => output,
            Ok(Produced::Bulk(bulk)) => bulk.into_tool_output(),
            Err(failure) => failure.into_output(),
        }
    }

    fn into_reply(self, context: &Context) -> Reply {
        match self.0 {
            Ok(Produced::Bulk(bulk)) => bulk.into_reply(context),
            other => Self(other).into_tool_output().into_reply(context),
        }
    }
}

/// Receives the lines of an output, numbered from 1.
pub(crate) type Progress<'a> = &'a (dyn Fn(f64, &str) + Send + Sync);

/// Reads an output in the form that the tool declares.
pub(crate) async fn read(
    mut reader: impl AsyncRead + Send + Unpin + 'static,
    tool: &DeclaredTool,
    form: OutputForm,
    mime_type: Option<&str>,
    progress: Progress<'_>,
) -> Result<Produced, Failure> {
    let rules = &tool.output;
    if form == OutputForm::File {
        let name = rules.name.as_deref().unwrap_or(&tool.name);
        let bulk = Bulk::reader(name, reader);
        let mime_type = rules.mime_type.as_deref().or(mime_type);
        return Ok(Produced::Bulk(match mime_type {
            Some(mime_type) => bulk.with_mime_type(mime_type),
            None => bulk,
        }));
    }
    let limit = rules.limit.unwrap_or(LIMIT);
    let collected = collect(&mut reader, limit, form, progress).await?;
    match form {
        OutputForm::Json => parse(tool, &collected).map(Produced::Output),
        _ => Ok(Produced::Output(ToolOutput::text(text(collected)?))),
    }
}

async fn collect(
    reader: &mut (impl AsyncRead + Send + Unpin),
    limit: u64,
    form: OutputForm,
    progress: Progress<'_>,
) -> Result<Vec<u8>, Failure> {
    let mut collected = Vec::new();
    let mut buffer = vec![0; CHUNK];
    let mut lines = 0.0;
    // Start of the line that is not complete yet.
    let mut line = 0;
    loop {
        let length = match reader.read(&mut buffer).await {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) => return Err(failed(&error, &collected)),
        };
        if (collected.len() + length) as u64 > limit {
            let message = format!(
                "the output is longer than {limit} bytes, so the tool was stopped; ask for less, or \
                 let its author set `output.limit` or `as: file`"
            );
            return Err(Failure::new("OUTPUT_TOO_LONG", message));
        }
        collected.extend_from_slice(&buffer[..length]);
        if form == OutputForm::Lines {
            while let Some(end) = collected[line..].iter().position(|byte| *byte == b'\n') {
                lines += 1.0;
                progress(lines, String::from_utf8_lossy(&collected[line..line + end]).trim_end());
                line += end + 1;
            }
        }
    }
    if form == OutputForm::Lines && line < collected.len() {
        progress(lines + 1.0, &String::from_utf8_lossy(&collected[line..]));
    }
    Ok(collected)
}

/// Describes a program that failed, with the beginning of its output.
fn failed(error: &std::io::Error, collected: &[u8]) -> Failure {
    let output = String::from_utf8_lossy(collected);
    let output = output.trim();
    let shown = mcp_flow_proto::text::truncate(output, SHOWN);
    let message = if shown.is_empty() { error.to_string() } else { format!("{error}\n{shown}") };
    Failure::new("FAILED", message)
}

fn text(bytes: Vec<u8>) -> Result<String, Failure> {
    let text = String::from_utf8(bytes).map_err(|_| {
        let message = "the output is not UTF-8; its author can use `as: file`";
        Failure::new("NOT_TEXT", message)
    })?;
    Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
}

fn parse(tool: &DeclaredTool, bytes: &[u8]) -> Result<ToolOutput, Failure> {
    let whole: Value = serde_json::from_slice(bytes).map_err(|error| {
        let shown = String::from_utf8_lossy(bytes);
        let shown = mcp_flow_proto::text::truncate(shown.trim(), SHOWN);
        let problem = json_problem(&error);
        Failure::new("NOT_JSON", format!("the output is not JSON: {problem}\n{shown}"))
    })?;
    let value = pick(tool, whole)?;
    check(tool, &value)?;
    Ok(ToolOutput::structured(value))
}

/// Returns the part of a value that the tool returns.
pub(crate) fn pick(tool: &DeclaredTool, whole: Value) -> Result<Value, Failure> {
    match tool.output.pick.as_deref() {
        None => Ok(whole),
        Some(pointer) => whole.pointer(pointer).cloned().ok_or_else(|| {
            Failure::new("NOT_FOUND", format!("the output has nothing at {pointer}"))
        }),
    }
}

/// Checks a value against the schema of the output.
pub(crate) fn check(tool: &DeclaredTool, value: &Value) -> Result<(), Failure> {
    let Some(schema) = &tool.output.schema else { return Ok(()) };
    let unusable = |reason: String| Failure::new("OUTPUT_INVALID", reason);
    let schema = Schema::compile(schema).map_err(unusable)?;
    let text = value.to_string();
    match schema.check(Raw::Json(&text)) {
        Ok(()) => Ok(()),
        Err(CheckError::Unreadable(error)) => Err(unusable(error.to_string())),
        Err(CheckError::Violations(violations)) => {
            // The sentences are about arguments.
            let sentences = violations.iter().map(|one| match one.pointer.is_empty() {
                true => one.sentence.replacen(mcp_flow_schema::WHOLE, "the output", 1),
                false => one.sentence.clone(),
            });
            let sentences: Vec<_> = sentences.collect();
            let message = format!("the output violates its schema: {}", sentences.join("; "));
            Err(unusable(message))
        }
    }
}

/// Limit on an output without a limit of its own.
const LIMIT: u64 = 4 * 1024 * 1024;

const CHUNK: usize = 16 * 1024;

/// Characters of an output that a failure shows.
const SHOWN: usize = 4 * 1024;
