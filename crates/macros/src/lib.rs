//! Attribute macros of MCP Flow. Use them through the `mcp-flow` crate, where they are documented.
//!
//! `signature` parses a function and `options` its attribute; `arguments` generates the type that
//! arguments are decoded into and `call` the code that calls the function; `tool`, `prompt` and
//! `resource` generate the builder, `function` and `methods` the registration.

mod arguments;
mod call;
mod data;
mod flow;
mod function;
mod kind;
mod methods;
mod options;
mod parameter;
mod prompt;
mod questions;
mod resource;
mod signature;
mod tool;

use proc_macro::TokenStream;
use syn::Item;

use kind::Kind;

/// Makes a function a tool, or methods of an `impl` block tools that share a value.
///
/// See the guide in the `mcp-flow` crate.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    let item = syn::parse_macro_input!(item as Item);
    finish(match item {
        Item::Fn(function) => tool::expand(options.into(), function),
        Item::Impl(block) => methods::expand(options.into(), block),
        other => {
            let message = "`#[tool]` is allowed on functions and inherent `impl` blocks only";
            Err(syn::Error::new_spanned(other, message))
        }
    })
}

/// Lists functions with `#[tool]` by name or path: `tools![add, text::shout]`.
#[proc_macro]
pub fn tools(functions: TokenStream) -> TokenStream {
    finish(function::list(Kind::Tool, functions.into()))
}

/// Makes a function a prompt. See the guide in the `mcp-flow` crate.
#[proc_macro_attribute]
pub fn prompt(options: TokenStream, item: TokenStream) -> TokenStream {
    let item = syn::parse_macro_input!(item as Item);
    finish(match item {
        Item::Fn(function) => prompt::expand(options.into(), function),
        other => Err(syn::Error::new_spanned(other, "`#[prompt]` is allowed on functions only")),
    })
}

/// Lists functions with `#[prompt]` by name or path: `prompts![review, text::translate]`.
#[proc_macro]
pub fn prompts(functions: TokenStream) -> TokenStream {
    finish(function::list(Kind::Prompt, functions.into()))
}

/// Makes a function a resource or a resource template: `#[resource("notes:/{day}")]`. See the guide
/// in the `mcp-flow` crate.
#[proc_macro_attribute]
pub fn resource(options: TokenStream, item: TokenStream) -> TokenStream {
    let item = syn::parse_macro_input!(item as Item);
    finish(match item {
        Item::Fn(function) => resource::expand(options.into(), function),
        other => Err(syn::Error::new_spanned(other, "`#[resource]` is allowed on functions only")),
    })
}

/// Lists functions with `#[resource]` by name or path: `resources![motto, files::log]`.
#[proc_macro]
pub fn resources(functions: TokenStream) -> TokenStream {
    finish(function::list(Kind::Resource, functions.into()))
}

/// Makes an async function a flow: a durable tool that can ask questions. See the guide in the
/// `mcp-flow` crate.
#[proc_macro_attribute]
pub fn flow(options: TokenStream, item: TokenStream) -> TokenStream {
    let item = syn::parse_macro_input!(item as Item);
    finish(match item {
        Item::Fn(function) if !cfg!(feature = "flows") => Err(needs_flows(&function.sig.ident)),
        Item::Fn(function) => flow::expand(options.into(), function),
        other => Err(syn::Error::new_spanned(other, "`#[flow]` is allowed on functions only")),
    })
}

/// Lists functions with `#[flow]` by name or path: `flows![register, trips::book_trip]`.
#[proc_macro]
pub fn flows(functions: TokenStream) -> TokenStream {
    let functions = proc_macro2::TokenStream::from(functions);
    finish(match cfg!(feature = "flows") {
        true => flow::list(functions),
        false => Err(needs_flows(functions)),
    })
}

/// Derives all that a type needs to be a tool's argument or result. See the guide in the `mcp-flow`
/// crate.
#[proc_macro_attribute]
pub fn data(options: TokenStream, item: TokenStream) -> TokenStream {
    finish(data::expand(options.into(), item.into()))
}

fn needs_flows(tokens: impl quote::ToTokens) -> syn::Error {
    let message = "flows need the feature `flows` of the crate mcp-flow; \
                   enable it with `cargo add mcp-flow --features flows`";
    syn::Error::new_spanned(tokens, message)
}

fn finish(expanded: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}
