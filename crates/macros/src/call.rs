//! The closure that calls the author's function.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::Ident;

use crate::arguments::{Arguments, Spelling};
use crate::signature::Function;

/// The function to call, and how a builder calls it.
pub(crate) struct Called<'a> {
    pub(crate) function: &'a Function,
    /// Span of the option `quick`, if it is given.
    pub(crate) quick: Option<Span>,
    /// Builder method for an async function.
    pub(crate) later: TokenStream,
    /// Path of the function, or method call on the state.
    pub(crate) path: TokenStream,
    /// Statement that clones the shared state, if any.
    pub(crate) state: TokenStream,
}

/// Generated code for a builder.
pub(crate) struct Call {
    /// Definition of the arguments type; empty if it is the author's own.
    pub(crate) definition: TokenStream,
    /// Name of that type.
    pub(crate) arguments: TokenStream,
    /// Builder method with the closure: `.blocking::<…>(…)`.
    pub(crate) finish: TokenStream,
}

impl Called<'_> {
    /// Generates the call for a builder whose handlers take context and arguments.
    pub(crate) fn with_arguments(&self, spelling: &Spelling) -> syn::Result<Call> {
        let Arguments { definition, kind, pattern, values } = self.arguments(spelling)?;
        let finish = self.finish(&quote!(#kind,), &quote!(#pattern: #kind), &values)?;
        Ok(Call { definition, arguments: kind, finish })
    }

    /// Generates the call for a builder whose handlers take the context only.
    pub(crate) fn without_arguments(&self) -> syn::Result<Call> {
        let nothing = TokenStream::new();
        let Arguments { values, .. } = self.arguments(&Spelling::default())?;
        let finish = self.finish(&nothing, &nothing, &values)?;
        Ok(Call { definition: TokenStream::new(), arguments: TokenStream::new(), finish })
    }

    fn arguments(&self, spelling: &Spelling) -> syn::Result<Arguments> {
        let by_value = self.function.is_async;
        Arguments::new(&self.function.parameters, &context(), by_value, spelling)
    }

    fn finish(
        &self,
        types: &TokenStream,
        parameters: &TokenStream,
        values: &[TokenStream],
    ) -> syn::Result<TokenStream> {
        let Self { function, quick, later, path, state } = self;
        if let (true, Some(span)) = (function.is_async, quick) {
            let message = "`quick` is allowed on synchronous functions only";
            return Err(syn::Error::new(*span, message));
        }
        let (result, context) = (&function.result, context());
        let given = if function.context().is_some() { quote!(#context) } else { quote!(_) };
        if function.is_async {
            return Ok(quote! {
                .#later::<#types #result, _, _>(move |#given: ::mcp_flow::Context, #parameters| {
                    #state
                    async move { #path(#(#values),*).await }
                })
            });
        }
        let how = if quick.is_some() { quote!(quick) } else { quote!(blocking) };
        Ok(quote! {
            .#how::<#types #result, _>(move |#given: &::mcp_flow::Context, #parameters| {
                #path(#(#values),*)
            })
        })
    }
}

/// Hygienic variable name of the context.
fn context() -> Ident {
    Ident::new("context", Span::mixed_site())
}

/// An identifier without the `r#` of raw identifiers.
pub(crate) fn plain(name: &Ident) -> String {
    name.to_string().trim_start_matches("r#").to_owned()
}
