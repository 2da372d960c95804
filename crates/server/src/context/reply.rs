//! Encoding of a tool's output as the outcome of its call.

use std::borrow::Cow;

use mcp_flow_proto::model::{Content, ContentForm};
use mcp_flow_proto::{Encoding, RpcError, write};
use serde::Serialize;

use super::Context;
use crate::handler::{Outcome, Payload};
use crate::revision::with_wire_output;
use crate::tool::{ToolOutput, direct};

impl Context {
    /// Encodes a result for the connection the call came in on.
    pub fn reply<T: Serialize + ?Sized>(&self, result: &T) -> Outcome {
        self.call.encode(result)
    }

    /// Returns a result that is JSON already; it is converted if the connection has another encoding.
    pub fn reply_json(&self, json: String) -> Outcome {
        Ok(Payload::new(json.into_bytes(), Encoding::Json))
    }

    /// Encodes a text, which is what most tools return, directly where possible.
    pub fn reply_text(&self, text: String) -> Outcome {
        let server = self.server();
        if self.is_plain() {
            let info = self.revision().is_stateless().then(|| server.info_text());
            let bytes = write::text_result(&text, info);
            return self.within_limit(Payload::new(bytes, Encoding::Json));
        }
        self.reply_output(&ToolOutput::text(text))
    }

    /// Encodes structured output that is JSON already, and the same as text, directly where
    /// possible. Callers whose revision has no structured output get the text. It is not checked
    /// against the tool's output schema.
    pub fn reply_structured(&self, json: String) -> Outcome {
        let server = self.server();
        if self.is_direct() && server.output_filters().is_empty() {
            return self.reply_json(json).and_then(|payload| self.within_limit(payload));
        }
        if !self.revision().features().structured_content && !self.is_direct() {
            return self.reply_text(json);
        }
        if self.is_plain() {
            let info = self.revision().is_stateless().then(|| server.info_text());
            let bytes = write::structured_result(&json, info);
            return self.within_limit(Payload::new(bytes, Encoding::Json));
        }
        let structured = serde_json::from_str(&json).ok();
        self.reply_output(&ToolOutput { structured, ..ToolOutput::text(json) })
    }

    /// Returns whether a result only has to be written as JSON.
    fn is_plain(&self) -> bool {
        self.call.connection.output.encoding() == Encoding::Json
            && self.server().output_filters().is_empty()
            && !self.is_direct()
    }

    /// Encodes a tool's output in the form of the caller's revision, after the server's filters. One
    /// that exceeds the result limit becomes a failure.
    pub fn reply_output(&self, output: &ToolOutput) -> Outcome {
        if output.is_error
            && let Some(error) = self
                .rounds()
                .missing_capability()
                .or_else(|| self.call.handler.failure.get().cloned())
        {
            return Err(error);
        }
        let mut output = Cow::Borrowed(output);
        for filter in self.server().output_filters() {
            filter(self, output.to_mut());
        }
        self.embed_small_links(&mut output);
        if self.violates_schema(&output) {
            let tool = self.tool().map(|tool| tool.definition().name.clone());
            tracing::error!(tool, "a result violates the tool's output schema");
            output = Cow::Owned(ToolOutput::failure(SCHEMA_VIOLATED));
        }
        self.encode_output(&output).and_then(|payload| self.within_limit(payload))
    }

    /// The outcome of a call whose handler panicked: a failed result, if it was a tool's, as for any
    /// other failure of a tool (MCP-028, C-63). Details of the panic are not revealed.
    pub(crate) fn panicked(&self) -> Outcome {
        let error = RpcError::internal();
        let server = self.server();
        let is_result = server.dialect().reports_panics_as_results();
        if self.tool().is_none() || self.is_direct() || !is_result {
            return Err(error);
        }
        let mut output = ToolOutput::failure(PANICKED);
        let wire = serde_json::to_value(error.wire(self.revision())).unwrap_or_default();
        output.meta.insert("error".to_owned(), wire);
        // Without the filters: one of them may have panicked.
        self.encode_output(&output)
    }

    /// Replaces links to small resources of this server by their contents, where the caller's
    /// revision has no links (C-26).
    fn embed_small_links(&self, output: &mut Cow<'_, ToolOutput>) {
        let server = self.server();
        let has_links = self.revision().features().resource_links;
        if has_links || server.content_form() != ContentForm::Official {
            return;
        }
        for index in 0..output.content.len() {
            if let Content::ResourceLink(link) = &output.content[index]
                && let Some(resource) = server.catalog().peek(self, &link.uri, SMALL)
            {
                output.to_mut().content[index] = Content::embedded(resource);
            }
        }
    }

    /// Returns whether a result violates the tool's output schema.
    fn violates_schema(&self, output: &ToolOutput) -> bool {
        let Some(structured) = output.structured.as_ref().filter(|_| !output.is_error) else {
            return false;
        };
        self.tool().is_some_and(|tool| !tool.may_return(structured))
    }

    fn within_limit(&self, payload: Payload) -> Outcome {
        let (size, limit) = (payload.bytes.len(), self.limits().result_bytes);
        if size <= limit { Ok(payload) } else { self.reject_result(size, limit) }
    }

    #[cold]
    fn reject_result(&self, size: usize, limit: usize) -> Outcome {
        tracing::warn!(size, limit, "a tool's result exceeds the limit");
        self.encode_output(&ToolOutput::failure(format!(
            "The result is {size} bytes long and was not sent, because this server sends at most \
             {limit} bytes. Ask for less at once, for example for a part of it."
        )))
    }

    fn encode_output(&self, output: &ToolOutput) -> Outcome {
        if self.is_direct() {
            match &output.structured {
                _ if output.is_error => return Err(direct::failure(output)),
                Some(data) => return self.reply(data),
                // Other content is described best by itself.
                None => {}
            }
        }
        let server = self.server();
        let server_info = || server.info_value().clone();
        with_wire_output(output, self.revision(), server.content_form(), server_info, |wire| {
            self.reply(wire).map(|payload| Payload { failed: output.is_error, ..payload })
        })
    }
}

const PANICKED: &str = "The tool failed because of an internal error, and returned no result. Other \
                        calls are not affected.";

/// Largest resource embedded in place of a link, in bytes.
const SMALL: usize = 64 * 1024;

const SCHEMA_VIOLATED: &str = "The tool's result violates its output schema, so it was not \
                               sent. This is an error of the tool, not of the call.";
