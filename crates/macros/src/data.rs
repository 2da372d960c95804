//! `#[data]` on a type that tools take or return.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Item;

pub(crate) fn expand(options: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    if !options.is_empty() {
        let message = "`#[data]` has no options; those of serde and schemars go beside it";
        return Err(syn::Error::new_spanned(options, message));
    }
    let item: Item = syn::parse2(item)?;
    let (name, generics) = match &item {
        Item::Struct(item) => (&item.ident, &item.generics),
        Item::Enum(item) => (&item.ident, &item.generics),
        other => {
            let message = "`#[data]` goes on a struct or an enum";
            return Err(syn::Error::new_spanned(other, message));
        }
    };
    let (parameters, arguments, condition) = generics.split_for_impl();
    let mut conditions = condition.cloned();
    if !generics.params.is_empty() {
        // Whether it can be written depends on what it is filled with.
        let written = syn::parse_quote!(::mcp_flow::Structured<Self>: ::mcp_flow::IntoToolOutput);
        conditions
            .get_or_insert_with(|| syn::WhereClause {
                where_token: Default::default(),
                predicates: Default::default(),
            })
            .predicates
            .push(written);
    }
    Ok(quote! {
        #[derive(
            ::mcp_flow::__private::Serialize,
            ::mcp_flow::__private::Deserialize,
            ::mcp_flow::__private::JsonSchema,
        )]
        #[serde(crate = "::mcp_flow::__private::serde")]
        #[schemars(crate = "::mcp_flow::__private::schemars")]
        #item

        impl #parameters ::mcp_flow::IntoToolOutput for #name #arguments #conditions {
            fn into_tool_output(self) -> ::mcp_flow::ToolOutput {
                ::mcp_flow::IntoToolOutput::into_tool_output(::mcp_flow::Structured(self))
            }

            fn output_schema() -> ::core::option::Option<::mcp_flow::__private::Value> {
                <::mcp_flow::Structured<Self> as ::mcp_flow::IntoToolOutput>::output_schema()
            }
        }
    })
}
