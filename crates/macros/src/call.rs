//! The code that calls a function.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::Ident;

use crate::arguments::{Arguments, Spelling};
use crate::signature::Function;

/// A function, and how a builder comes to call it.
pub(crate) struct Called<'a> {
    pub(crate) function: &'a Function,
    /// Where it is said that the function returns at once, if it is.
    pub(crate) quick: Option<Span>,
    /// The method that finishes a builder with an async function.
    pub(crate) later: TokenStream,
    /// What is called.
    pub(crate) path: TokenStream,
    /// Clones what it needs besides its arguments.
    pub(crate) state: TokenStream,
}

/// What a builder needs to call a function.
pub(crate) struct Call {
    /// The type the arguments are decoded into, unless it is the author's own.
    pub(crate) definition: TokenStream,
    /// The name of that type.
    pub(crate) arguments: TokenStream,
    /// The builder's method with the closure that calls: `.blocking::<…>(…)`.
    pub(crate) finish: TokenStream,
}

impl Called<'_> {
    /// For a builder whose functions take the context and the arguments.
    pub(crate) fn with_arguments(&self, spelling: &Spelling) -> syn::Result<Call> {
        let Arguments { definition, kind, pattern, values } = self.arguments(spelling)?;
        let finish = self.finish(&quote!(#kind,), &quote!(#pattern: #kind), &values)?;
        Ok(Call { definition, arguments: kind, finish })
    }

    /// For a builder whose functions take the context and nothing else.
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
            let message = "`quick` is for functions that are not async; async ones never block";
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

/// What the context is called on its way to the function: a name that hides nothing.
fn context() -> Ident {
    Ident::new("context", Span::mixed_site())
}

/// A function's name, without the mark that tells it from a keyword.
pub(crate) fn plain(name: &Ident) -> String {
    name.to_string().trim_start_matches("r#").to_owned()
}
