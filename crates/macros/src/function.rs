//! `#[tool]` on a function.
//!
//! The function stays as it is. Beside it comes a type that `tools![…]` lists it by: one whose name
//! lies in the namespace of types only, so that a parameter or variable may be called like a tool.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::punctuated::Punctuated;
use syn::{FnArg, Ident, ItemFn, Path, Token};

use crate::options::ToolOptions;
use crate::signature::Function;
use crate::tool::build;

pub(crate) fn expand(options: TokenStream, mut function: ItemFn) -> syn::Result<TokenStream> {
    let options = ToolOptions::parse(options)?;
    if let Some(FnArg::Receiver(receiver)) = function.sig.inputs.first() {
        let message = "a tool with `self` is a method; mark its `impl` block with `#[tool]`, too";
        return Err(syn::Error::new_spanned(receiver, message));
    }
    let read = Function::take(&mut function.sig, &function.attrs)?;
    let name = &function.sig.ident;
    let tool = build("", name, &read, &options, &name.to_token_stream(), &TokenStream::new())?;
    let (marker, visibility) = (marker(name), &function.vis);
    Ok(quote! {
        #function

        #[doc(hidden)]
        #[allow(non_camel_case_types, missing_docs)]
        #[derive(Clone, Copy, Debug)]
        #visibility struct #marker {}

        impl ::mcp_flow::IntoTools for #marker {
            fn into_tools(
                self,
            ) -> ::core::result::Result<::std::vec::Vec<::mcp_flow::Tool>, ::mcp_flow::BadTool> {
                ::mcp_flow::IntoTools::into_tools(#tool)
            }
        }
    })
}

/// `tools![add, text::shout]`: functions with `#[tool]`, by their names or paths.
pub(crate) fn list(functions: TokenStream) -> syn::Result<TokenStream> {
    let parser = Punctuated::<Path, Token![,]>::parse_terminated;
    let mut functions = syn::parse::Parser::parse2(parser, functions)?;
    for function in &mut functions {
        if let Some(last) = function.segments.last_mut() {
            last.ident = marker(&last.ident);
        }
    }
    let functions = functions.iter();
    Ok(quote! {
        ::std::vec![#(::mcp_flow::IntoTools::into_tools(#functions {})),*]
    })
}

/// The type that stands for a function. The compiler names it where a function is no tool.
fn marker(function: &Ident) -> Ident {
    format_ident!("{}_marked_as_tool", function, span = function.span())
}
