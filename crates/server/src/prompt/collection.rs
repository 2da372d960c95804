//! Conversion into lists of prompts.

use super::{BadPrompt, Prompt};
use crate::collection::collection;

/// A source of prompts: one prompt, several, or a type with prompts.
///
/// Implemented for [`Prompt`], for what `prompts![…]` lists, and for tuples, lists and results of
/// those.
///
/// ```
/// use mcp_flow_server::{Prompt, Server};
///
/// let hello = Prompt::builder("hello").template("Say hello.");
/// let bye = Prompt::builder("bye").template("Say goodbye.");
/// let server = Server::builder("polite", "1.0.0").prompts((hello, bye)).build().unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a prompt",
    label = "no prompt, and no collection of prompts",
    note = "mark the function with `#[prompt]`",
    note = "functions are listed by name: `.prompts(prompts![review, explain])`"
)]
pub trait IntoPrompts {
    /// The prompts, in listing order.
    fn into_prompts(self) -> Result<Vec<Prompt>, BadPrompt>;
}

collection!(IntoPrompts::into_prompts -> Prompt, BadPrompt);
