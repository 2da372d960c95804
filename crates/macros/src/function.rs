//! An attribute on a function.
//!
//! The function stays as it is. Beside it comes a type that `tools![…]` and its kin list it by: one
//! whose name lies in the namespace of types only, so that a parameter or variable may be called
//! like a tool.

use proc_macro2::TokenStream;
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{FnArg, ItemFn, Path, Token};

use crate::kind::Kind;
use crate::signature::Function;

/// Reads a function for what it is to become.
pub(crate) fn read(kind: Kind, function: &mut ItemFn) -> syn::Result<Function> {
    if let Some(FnArg::Receiver(receiver)) = function.sig.inputs.first() {
        let message = match kind {
            Kind::Tool => {
                "a tool with `self` is a method; mark its `impl` block with `#[tool]`, too"
                    .to_owned()
            }
            Kind::Prompt | Kind::Resource => format!(
                "a {} is a function without `self`; take what it shares from the context, by \
                 `Context::extension`",
                kind.noun()
            ),
        };
        return Err(syn::Error::new_spanned(receiver, message));
    }
    Function::take(kind, &mut function.sig, &function.attrs)
}

/// The function, and the type that registers what `built` builds.
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

/// `tools![add, text::shout]`: marked functions, by their names or paths.
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
