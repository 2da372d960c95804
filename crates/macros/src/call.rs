//! The code that calls a function.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::Ident;

use crate::arguments::{Arguments, Spelling};
use crate::signature::Function;

/// What a builder needs to call a function.
pub(crate) struct Call {
    /// The type the arguments are decoded into, unless it is the author's own.
    pub(crate) definition: TokenStream,
    /// The name of that type.
    pub(crate) arguments: TokenStream,
    /// The builder's method with the closure that calls: `.blocking::<…>(…)`.
    pub(crate) finish: TokenStream,
}

impl Call {
    /// `path` is what is called, and `state` clones what it needs besides its arguments. Async
    /// functions finish a builder by `later`.
    pub(crate) fn new(
        function: &Function,
        quick: Option<Span>,
        spelling: &Spelling,
        later: &TokenStream,
        path: &TokenStream,
        state: &TokenStream,
    ) -> syn::Result<Self> {
        if let (true, Some(span)) = (function.is_async, quick) {
            let message = "`quick` is for functions that are not async; async ones never block";
            return Err(syn::Error::new(span, message));
        }
        let context = Ident::new("context", Span::mixed_site());
        let by_value = function.is_async;
        let arguments = Arguments::new(&function.parameters, &context, by_value, spelling)?;
        let Arguments { definition, kind, pattern, values } = arguments;
        let result = &function.result;
        let given = if function.context().is_some() { quote!(#context) } else { quote!(_) };
        let finish = if function.is_async {
            quote! {
                .#later::<#kind, #result, _, _>(
                    move |#given: ::mcp_flow::Context, #pattern: #kind| {
                        #state
                        async move { #path(#(#values),*).await }
                    },
                )
            }
        } else {
            let how = if quick.is_some() { quote!(quick) } else { quote!(blocking) };
            quote! {
                .#how::<#kind, #result, _>(move |#given: &::mcp_flow::Context, #pattern: #kind| {
                    #path(#(#values),*)
                })
            }
        };
        Ok(Self { definition, arguments: kind, finish })
    }
}

/// A function's name, without the mark that tells it from a keyword.
pub(crate) fn plain(name: &Ident) -> String {
    name.to_string().trim_start_matches("r#").to_owned()
}
