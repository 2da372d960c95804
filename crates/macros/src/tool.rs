//! `#[tool]` on a function, and the code that builds one tool.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Ident, ItemFn, LitStr};

use crate::arguments::{Arguments, Spelling, check_object};
use crate::call::{Call, Called, plain};
use crate::function::{mark, read};
use crate::kind::{Kind, marker};
use crate::needs_flows;
use crate::options::{Task, ToolOptions};
use crate::signature::{Function, undocumented};

pub(crate) fn expand(options: TokenStream, mut function: ItemFn) -> syn::Result<TokenStream> {
    let options = ToolOptions::parse(options)?;
    let read = read(Kind::Tool, &mut function)?;
    if let Some(task) = options.task.as_ref().filter(|task| task.is_possible()) {
        return flow_of(&function, &read, &options, task);
    }
    let name = &function.sig.ident;
    let tool = build("", name, &read, &options, &name.to_token_stream(), &TokenStream::new())?;
    let check = check_object(&read.parameters);
    Ok(mark(Kind::Tool, &function, &quote!({ #check #tool })))
}

/// Makes a tool whose calls can become tasks a flow of one step, which `flows![…]` lists.
fn flow_of(
    function: &ItemFn,
    read: &Function,
    options: &ToolOptions,
    task: &Task,
) -> syn::Result<TokenStream> {
    if !cfg!(feature = "flows") {
        return Err(needs_flows(&function.sig.ident));
    }
    if read.context().is_some() {
        let message = "a tool that can become a task cannot take a `Context`, because it outlives \
                       the call that started it";
        return Err(syn::Error::new_spanned(&function.sig.inputs, message));
    }
    let (common, ident) = (&options.common, &function.sig.ident);
    if let Some(span) = common.quick {
        return Err(syn::Error::new(span, "`quick` and `task` exclude each other"));
    }
    if !common.describe(read) {
        return Err(undocumented(ident, "tool"));
    }
    let spelling = Spelling {
        allow_unknown: options.allow_unknown_arguments,
        rename_all: options.rename_all.clone(),
    };
    let Arguments { definition, kind, pattern, values } =
        Arguments::new(&read.parameters, ident, read.is_async, &spelling)?;
    let name = common.name.as_ref().map_or_else(|| plain(ident), LitStr::value);
    let offered = match read.is_async {
        true => quote! {
            tool(#name, |#pattern: #kind| async move { #ident(#(#values),*).await })
        },
        false => quote!(blocking_tool(#name, |#pattern: #kind| #ident(#(#values),*))),
    };
    let (said, more) = (common.builder_calls(read), options.builder_calls());
    let (task, check) = (task.builder_call(), check_object(&read.parameters));
    let (listed, marker) = (marker(ident, "tool"), marker(ident, "flow"));
    let visibility = &function.vis;
    Ok(quote! {
        #function

        /// Not a tool of its own, so `tools![…]` reports that.
        #[doc(hidden)]
        #[allow(non_camel_case_types, missing_docs, dead_code)]
        #[derive(Clone, Copy, Debug)]
        #visibility struct #listed {}

        #[doc(hidden)]
        #[allow(non_camel_case_types, missing_docs)]
        #[derive(Clone, Copy, Debug)]
        #visibility struct #marker {}

        impl ::mcp_flow::IntoFlows for #marker {
            fn into_flows(self) -> ::std::vec::Vec<::mcp_flow::OfferedFlow> {
                #check
                #definition
                let offered = ::mcp_flow::OfferedFlow::#offered;
                ::std::vec![offered.customize(|tool| tool #said #more) #task]
            }
        }
    })
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
    if let Some(task) = options.task.as_ref().filter(|task| task.is_possible()) {
        let message = "`task` is allowed on functions only; a method shares a value that does not \
                       outlive the process";
        return Err(syn::Error::new(task.span, message));
    }
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
