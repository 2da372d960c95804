//! `#[data]`: derives serde, a JSON Schema and tool output for a type.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Fields, Item};

pub(crate) fn expand(options: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    if !options.is_empty() {
        let message = "`#[data]` accepts no options; use serde and schemars attributes";
        return Err(syn::Error::new_spanned(options, message));
    }
    let item: Item = syn::parse2(item)?;
    let (name, generics) = match &item {
        Item::Struct(item) => (&item.ident, &item.generics),
        Item::Enum(item) => (&item.ident, &item.generics),
        other => {
            let message = "`#[data]` is allowed on structs and enums only";
            return Err(syn::Error::new_spanned(other, message));
        }
    };
    let (parameters, arguments, condition) = generics.split_for_impl();
    let mut conditions = condition.cloned();
    if !generics.params.is_empty() {
        // A generic type is serializable only if its parameters are.
        let written = syn::parse_quote!(::mcp_flow::Structured<Self>: ::mcp_flow::IntoToolOutput);
        conditions
            .get_or_insert_with(|| syn::WhereClause {
                where_token: Default::default(),
                predicates: Default::default(),
            })
            .predicates
            .push(written);
    }
    // Makes `#[arguments]` with this type a compile error.
    let shape = is_one_value(&item)
        .then(|| quote!(impl #parameters ::mcp_flow::tool::NotAnObject for #name #arguments #condition {}));
    Ok(quote! {
        #shape

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

/// Returns whether a type serializes as something else than an object; false if it has serde
/// attributes, which may change that.
fn is_one_value(item: &Item) -> bool {
    let (attributes, is_one) = match item {
        Item::Struct(item) => (
            &item.attrs,
            match &item.fields {
                Fields::Named(_) => false,
                // A newtype serializes as its field.
                Fields::Unnamed(fields) => fields.unnamed.len() != 1,
                Fields::Unit => true,
            },
        ),
        Item::Enum(item) => (
            &item.attrs,
            item.variants.iter().all(|variant| matches!(variant.fields, Fields::Unit)),
        ),
        _ => return false,
    };
    is_one && !attributes.iter().any(|attribute| attribute.path().is_ident("serde"))
}
