//! `#[tool]` on a function, and the code that builds one tool.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Ident, ItemFn, LitStr};

use crate::arguments::{Spelling, check_object};
use crate::call::{Call, Called, plain};
use crate::function::{mark, read};
use crate::kind::Kind;
use crate::options::ToolOptions;
use crate::signature::{Function, undocumented};

pub(crate) fn expand(options: TokenStream, mut function: ItemFn) -> syn::Result<TokenStream> {
    let options = ToolOptions::parse(options)?;
    let read = read(Kind::Tool, &mut function)?;
    let name = &function.sig.ident;
    let tool = build("", name, &read, &options, &name.to_token_stream(), &TokenStream::new())?;
    let check = check_object(&read.parameters);
    Ok(mark(Kind::Tool, &function, &quote!({ #check #tool })))
}

/// Generates an expression of type `Result<Tool, BadTool>`.
///
/// The tool's name is `prefix` and the option `name`, or else the function's name. `path` is
/// called; `state` clones the shared state.
pub(crate) fn build(
    prefix: &str,
    name: &Ident,
    function: &Function,
    options: &ToolOptions,
    path: &TokenStream,
    state: &TokenStream,
) -> syn::Result<TokenStream> {
    let common = &options.common;
    let spelling = Spelling {
        allow_unknown: options.allow_unknown_arguments,
        rename_all: options.rename_all.clone(),
    };
    let (path, state) = (path.clone(), state.clone());
    let called = Called { function, quick: common.quick, later: quote!(handler), path, state };
    let Call { definition, arguments, finish } = called.with_arguments(&spelling)?;
    if !common.describe(function) {
        return Err(undocumented(name, "tool"));
    }
    let given_name = common.name.as_ref().map_or_else(|| plain(name), LitStr::value);
    let name = format!("{prefix}{given_name}");
    let (said, more) = (common.builder_calls(function), options.builder_calls());
    Ok(quote! {{
        #definition
        ::mcp_flow::Tool::builder(#name)
            .arguments::<#arguments>()
            #said
            #more
            #finish
    }})
}
