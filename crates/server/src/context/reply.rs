//! From what a tool gives back to the bytes of its result.

use std::borrow::Cow;

use mcp_flow_proto::model::{Content, ContentForm};
use mcp_flow_proto::{Encoding, RpcError, write};
use serde::Serialize;

use super::Context;
use crate::handler::{Outcome, Payload};
use crate::revision::{Dialect, with_wire_output};
use crate::tool::{ToolOutput, direct};

impl Context {
    /// Encodes a result for the connection the call came in on.
    pub fn reply<T: Serialize + ?Sized>(&self, result: &T) -> Outcome {
        let encoding = self.call.shared.encoding();
        encoding.encode(result).map(|bytes| Payload::new(bytes, encoding)).map_err(|error| {
            tracing::error!(%error, "a result could not be encoded");
            RpcError::internal()
        })
    }

    /// Answers with a result that is JSON already; where another encoding is spoken it is translated.
    pub fn reply_json(&self, json: String) -> Outcome {
        Ok(Payload::new(json.into_bytes(), Encoding::Json))
    }

    /// Encodes a text, which is what most tools return, the quick way where there is one.
    pub fn reply_text(&self, text: String) -> Outcome {
        let server = self.server();
        if self.is_plain() {
            let info = self.revision().is_stateless().then(|| server.info_text());
            let bytes = write::text_result(&text, info);
            return self.within_limit(Payload::new(bytes, Encoding::Json));
        }
        self.reply_output(&ToolOutput::text(text))
    }

    /// Encodes data that a tool has as JSON already, and the same as a text, the quick way where
    /// there is one. Callers whose revision knows no data get the text. What the tool's output
    /// schema promises is for the tool to keep.
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

    /// Whether nothing is to be done with a result but to write it as JSON.
    fn is_plain(&self) -> bool {
        self.call.shared.encoding() == Encoding::Json
            && self.server().output_filters().is_empty()
            && !self.is_direct()
    }

    /// Encodes a tool's output as the caller's revision has it, after the server's filters. One
    /// that is too large to be sent becomes a failure that says so.
    pub fn reply_output(&self, output: &ToolOutput) -> Outcome {
        if output.is_error
            && let Some(error) = self.missing_capability().or_else(|| self.refusal())
        {
            return Err(error);
        }
        let mut output = Cow::Borrowed(output);
        for filter in self.server().output_filters() {
            filter(self, output.to_mut());
        }
        self.embed_small_links(&mut output);
        if self.breaks_its_promise(&output) {
            tracing::error!(tool = ?self.tool(), "a result breaks the tool's output schema");
            output = Cow::Owned(ToolOutput::failure(BROKEN_PROMISE));
        }
        self.encode_output(&output).and_then(|payload| self.within_limit(payload))
    }

    /// Returns the reply to a call whose code panicked: a failed result, if it was a tool's, as for
    /// any other fault of a tool (MCP-028, C-63). Nothing of what went wrong is told.
    pub(crate) fn panicked(&self) -> Outcome {
        let error = RpcError::internal();
        let server = self.server();
        if self.tool().is_none() || self.is_direct() || server.dialect() != Dialect::Official {
            return Err(error);
        }
        let mut output = ToolOutput::failure(PANICKED);
        let wire = serde_json::to_value(error.wire(self.revision())).unwrap_or_default();
        output.meta.insert("error".to_owned(), wire);
        // Not by the filters: it may be one of them that panicked.
        self.encode_output(&output)
    }

    /// Puts small resources of ours in the place of links to them, where the caller's revision has
    /// no links (C-26).
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

    /// Whether a result is something else than the tool says it returns.
    fn breaks_its_promise(&self, output: &ToolOutput) -> bool {
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
        tracing::warn!(size, limit, "a tool's result was too large to be sent");
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
                // Texts, pictures and links say best themselves what they are.
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

const PANICKED: &str = "The tool broke off because of a fault of its own, and gave no result. Other \
                        calls are not affected.";

/// The largest resource that is embedded where a link was meant.
const SMALL: usize = 64 * 1024;

const BROKEN_PROMISE: &str = "The tool's result is not what its output schema says, so it was not \
                              sent. This is a fault of the tool, not of the call.";
