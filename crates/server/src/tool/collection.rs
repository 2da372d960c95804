//! Conversion into lists of tools.

use std::sync::Arc;

use super::{BadTool, Tool};
use crate::collection::collection;

/// A source of tools: one tool, several, or a type with tools.
///
/// Implemented for [`Tool`], for what `tools![…]` lists, for types with `#[tool]` on their `impl`
/// block, and for tuples, lists and results of those.
///
/// ```
/// use mcp_flow_server::{Context, Server, Tool};
/// use serde_json::Value;
///
/// let hello = Tool::builder("hello").quick(|_: &Context, _: Value| "hello");
/// let bye = Tool::builder("bye").quick(|_: &Context, _: Value| "bye");
/// let server = Server::builder("polite", "1.0.0").tools((hello, bye)).build().unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "no tool, and no collection of tools",
    note = "mark the function or the `impl` block with `#[tool]`",
    note = "functions are listed by name: `.tools(tools![add, divide])`",
    note = "a function with the option `task` is a flow: `.flows(flows![add])`"
)]
pub trait IntoTools {
    /// The tools, in listing order.
    fn into_tools(self) -> Result<Vec<Tool>, BadTool>;
}

/// A type with methods that are tools; implemented by `#[tool]`.
pub trait ToolCollection: Send + Sync + 'static {
    /// The tools, all sharing this value.
    fn tools(self: Arc<Self>) -> Result<Vec<Tool>, BadTool>;
}

impl<T: ToolCollection> IntoTools for Arc<T> {
    fn into_tools(self) -> Result<Vec<Tool>, BadTool> {
        self.tools()
    }
}

collection!(IntoTools::into_tools -> Tool, BadTool);
