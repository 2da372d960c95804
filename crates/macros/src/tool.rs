//! The code that builds one tool.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Ident, LitStr};

use crate::arguments::Arguments;
use crate::options::ToolOptions;
use crate::signature::Function;

/// An expression of type `Result<Tool, BadTool>`.
///
/// It is listed as `prefix` and its name, which is the function's unless its options say another.
/// `path` is what is called, and `state` clones what it needs besides its arguments.
pub(crate) fn build(
    prefix: &str,
    name: &Ident,
    function: &Function,
    options: &ToolOptions,
    path: &TokenStream,
    state: &TokenStream,
) -> syn::Result<TokenStream> {
    if let (true, Some(span)) = (function.is_async, options.quick) {
        let message = "`quick` is for functions that are not async; async ones never block";
        return Err(syn::Error::new(span, message));
    }
    let context = Ident::new("context", Span::mixed_site());
    let by_value = function.is_async;
    let arguments = Arguments::new(&function.parameters, &context, by_value, options)?;
    let Arguments { definition, kind, pattern, values } = arguments;
    let result = &function.result;
    // Without the mark that tells a name from a keyword.
    let plain_name = || name.to_string().trim_start_matches("r#").to_owned();
    let name = format!("{prefix}{}", options.name.as_ref().map_or_else(plain_name, LitStr::value));
    let description = match (&options.description, &function.documentation) {
        (Some(description), _) => Some(quote!(.description(#description))),
        (None, Some(text)) => Some(quote!(.description(#text))),
        (None, None) => None,
    };
    let more = options.builder_calls();
    let given = if function.context().is_some() { quote!(#context) } else { quote!(_) };
    let finish = if function.is_async {
        quote! {
            .handler::<#kind, #result, _, _>(move |#given: ::mcp_flow::Context, #pattern: #kind| {
                #state
                async move { #path(#(#values),*).await }
            })
        }
    } else {
        let how = if options.quick.is_some() { quote!(quick) } else { quote!(blocking) };
        quote! {
            .#how::<#kind, #result, _>(move |#given: &::mcp_flow::Context, #pattern: #kind| {
                #path(#(#values),*)
            })
        }
    };
    Ok(quote! {{
        #definition
        ::mcp_flow::Tool::builder(#name)
            #description
            .arguments::<#kind>()
            #more
            #finish
    }})
}
