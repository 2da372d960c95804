//! One tool or many, wherever tools are asked for.

use std::sync::Arc;

use super::{BadTool, Tool};

/// What tools can be added from: one tool, several, or something that has tools.
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
    note = "functions are listed by name: `.tools(tools![add, divide])`"
)]
pub trait IntoTools {
    /// The tools, in the order they are to be listed.
    fn into_tools(self) -> Result<Vec<Tool>, BadTool>;
}

/// A type with methods that are tools; implemented by `#[tool]`.
pub trait ToolCollection: Send + Sync + 'static {
    /// The tools, all sharing the value they are methods of.
    fn tools(self: Arc<Self>) -> Result<Vec<Tool>, BadTool>;
}

impl<T: ToolCollection> IntoTools for Arc<T> {
    fn into_tools(self) -> Result<Vec<Tool>, BadTool> {
        self.tools()
    }
}

impl IntoTools for Tool {
    fn into_tools(self) -> Result<Vec<Tool>, BadTool> {
        Ok(vec![self])
    }
}

impl<T: IntoTools> IntoTools for Result<T, BadTool> {
    fn into_tools(self) -> Result<Vec<Tool>, BadTool> {
        self?.into_tools()
    }
}

impl<T: IntoTools> IntoTools for Vec<T> {
    fn into_tools(self) -> Result<Vec<Tool>, BadTool> {
        let mut all = Vec::with_capacity(self.len());
        for tools in self {
            all.extend(tools.into_tools()?);
        }
        Ok(all)
    }
}

impl<T: IntoTools, const N: usize> IntoTools for [T; N] {
    fn into_tools(self) -> Result<Vec<Tool>, BadTool> {
        Vec::from(self).into_tools()
    }
}

macro_rules! tuples {
    ($($first:ident $($rest:ident)*)?) => {
        // Seventeen of these would bury the sentence that says what to do.
        #[diagnostic::do_not_recommend]
        impl<$($first: IntoTools, $($rest: IntoTools,)*)?> IntoTools for ($($first, $($rest,)*)?) {
            #[allow(non_snake_case, reason = "a type parameter names its value, too")]
            fn into_tools(self) -> Result<Vec<Tool>, BadTool> {
                let ($($first, $($rest,)*)?) = self;
                #[allow(unused_mut, reason = "an empty tuple adds nothing")]
                let mut all = Vec::new();
                $(all.extend($first.into_tools()?); $(all.extend($rest.into_tools()?);)*)?
                Ok(all)
            }
        }
        $(tuples!($($rest)*);)?
    };
}

// Tuples may hold tuples, so there is no end to how many tools can be listed.
tuples!(A B C D E F G H I J K L M N O P);
