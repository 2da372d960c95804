//! The attributes of MCP Flow. Use them through the `mcp-flow` crate, where they are documented.
//!
//! One mechanism carries them all: `signature` reads a function, `options` what its attribute
//! says, `arguments` makes the type its arguments are decoded into; then `function` and `methods`
//! write the code that registers it.

mod arguments;
mod data;
mod function;
mod methods;
mod options;
mod parameter;
mod signature;
mod tool;

use proc_macro::TokenStream;

/// Makes a function a tool. See the guide in the `mcp-flow` crate.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    finish(function::expand(options.into(), item.into()))
}

/// Makes methods of a type tools that share its value. See the guide in the `mcp-flow` crate.
#[proc_macro_attribute]
pub fn tools(options: TokenStream, item: TokenStream) -> TokenStream {
    finish(methods::expand(options.into(), item.into()))
}

/// Makes a type one that tools can take and return. See the guide in the `mcp-flow` crate.
#[proc_macro_attribute]
pub fn data(options: TokenStream, item: TokenStream) -> TokenStream {
    finish(data::expand(options.into(), item.into()))
}

fn finish(expanded: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}
