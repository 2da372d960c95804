//! Attributes on a function, and the macros that list such functions.
//!
//! The function is unchanged. A marker type is generated beside it, by which `tools![…]`,
//! `prompts![…]` and `resources![…]` refer to it. It is in the type namespace only, so that a
//! variable may have the name of a tool.

use proc_macro2::TokenStream;
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{FnArg, ItemFn, Path, Token};

use crate::kind::Kind;
use crate::signature::Function;

/// Parses a function as a tool, prompt or resource.
pub(crate) fn read(kind: Kind, function: &mut ItemFn) -> syn::Result<Function> {
    if let Some(FnArg::Receiver(receiver)) = function.sig.inputs.first() {
        let message = match kind {
            Kind::Tool => {
                "a tool with `self` is a method; add `#[tool]` to its `impl` block".to_owned()
            }
            Kind::Prompt | Kind::Resource => format!(
                "a {} cannot take `self`; get shared state from `Context::state`",
                kind.noun()
            ),
        };
        return Err(syn::Error::new_spanned(receiver, message));
    }
    Function::take(kind, &mut function.sig, &function.attrs)
}

/// Generates the function and its marker type, which registers `built`.
pub(crate) fn mark(kind: Kind, function: &ItemFn, built: &TokenStream) -> TokenStream {
    let (marker, visibility) = (kind.marker(&function.sig.ident), &function.vis);
    let (collection, collect, collected) = (kind.collection(), kind.collect(), kind.collected());
    quote! {
        #function

        #[doc(hidden)]
        #[allow(non_camel_case_types, missing_docs)]
        #[derive(Clone, Copy, Debug)]
        #visibility struct #marker {}

        impl #collection for #marker {
            fn #collect(self) -> #collected {
                #collection::#collect(#built)
            }
        }
    }
}

/// Expands `tools![add, text::shout]`: functions with the attribute, by name or path.
pub(crate) fn list(kind: Kind, functions: TokenStream) -> syn::Result<TokenStream> {
    let parser = Punctuated::<Path, Token![,]>::parse_terminated;
    let mut functions = syn::parse::Parser::parse2(parser, functions)?;
    for function in &mut functions {
        if let Some(last) = function.segments.last_mut() {
            last.ident = kind.marker(&last.ident);
        }
    }
    let functions = functions.iter();
    let (collection, collect) = (kind.collection(), kind.collect());
    Ok(quote! {
        ::std::vec![#(#collection::#collect(#functions {})),*]
    })
}
