//! The generated type that a function's arguments are decoded into.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, LitStr, Type};

use crate::parameter::{Argument, Parameter};

/// Options for decoding the arguments, from the attribute.
#[derive(Default)]
pub(crate) struct Spelling {
    /// Ignore unknown arguments instead of rejecting them.
    pub(crate) allow_unknown: bool,
    pub(crate) rename_all: Option<LitStr>,
}

/// The arguments type, and the code that passes its fields to the function.
pub(crate) struct Arguments {
    /// Definition of the type; empty if it is the author's own.
    pub(crate) definition: TokenStream,
    pub(crate) kind: TokenStream,
    /// Pattern that destructures a value of the type.
    pub(crate) pattern: TokenStream,
    /// Expressions for the function's parameters, in order.
    pub(crate) values: Vec<TokenStream>,
}

impl Arguments {
    pub(crate) fn new(
        parameters: &[Parameter],
        context: &Ident,
        by_value: bool,
        spelling: &Spelling,
    ) -> syn::Result<Self> {
        let whole = Ident::new("arguments", Span::mixed_site());
        let mut calls = Vec::new();
        let mut fields = Vec::new();
        let mut own: Option<&Type> = None;
        for parameter in parameters {
            calls.push(match parameter {
                // A context taken by value is cloned, which is a reference count.
                Parameter::Context { by_reference: true } if by_value => quote!(&#context),
                Parameter::Context { by_reference: true } => quote!(#context),
                Parameter::Context { by_reference: false } => quote!(#context.clone()),
                Parameter::All(kind) => {
                    own = Some(kind);
                    quote!(#whole)
                }
                Parameter::One(argument) => {
                    let value = value(fields.len());
                    fields.push(argument);
                    quote!(#value)
                }
            });
        }
        match own {
            None => {
                let names = fields.iter().map(|field| &field.name);
                let values = (0..fields.len()).map(value);
                let pattern = quote!(FunctionArguments { #(#names: #values),* });
                let kind = quote!(FunctionArguments);
                Ok(Self { definition: define(&fields, spelling)?, kind, pattern, values: calls })
            }
            Some(kind) if !fields.is_empty() => {
                let message = "`#[arguments]` takes all arguments; remove the other parameters";
                Err(syn::Error::new_spanned(kind, message))
            }
            Some(kind) if spelling.allow_unknown || spelling.rename_all.is_some() => {
                let message = "with `#[arguments]` the type defines how it is decoded; use serde \
                               attributes on it";
                Err(syn::Error::new_spanned(kind, message))
            }
            Some(kind) => {
                let (kind, pattern) = (quote!(#kind), quote!(#whole));
                Ok(Self { definition: TokenStream::new(), kind, pattern, values: calls })
            }
        }
    }
}

/// Generates a compile-time check that the type of `#[arguments]`, if any, can be a JSON object.
pub(crate) fn check_object(parameters: &[Parameter]) -> Option<TokenStream> {
    let kind = parameters.iter().find_map(|parameter| match parameter {
        Parameter::All(kind) => Some(kind),
        _ => None,
    })?;
    Some(quote_spanned! {kind.span()=>
        const _: () = {
            #[allow(unused_imports)]
            use ::mcp_flow::tool::MayBeObject as _;
            ::core::assert!(
                ::mcp_flow::tool::Shape::<#kind>::MAY_BE_OBJECT,
                "`#[arguments]` needs a type with named fields, because arguments are a JSON object; \
                 take a single value as a plain parameter"
            );
        };
    })
}

/// Hygienic variable name of an argument.
fn value(index: usize) -> Ident {
    Ident::new(&format!("value_{index}"), Span::mixed_site())
}

fn define(fields: &[&Argument], spelling: &Spelling) -> syn::Result<TokenStream> {
    let mut definitions = Vec::new();
    let mut functions = Vec::new();
    for field in fields {
        let (definition, function) = field.field()?;
        definitions.push(definition);
        functions.push(function);
    }
    let rename_all = spelling.rename_all.iter();
    let refuse_unknown = (!spelling.allow_unknown).then(|| quote!(#[serde(deny_unknown_fields)]));
    // Checked first, for a clearer error than that of the derived code.
    let checks = fields.iter().map(|field| {
        let kind = &field.kind;
        quote_spanned!(kind.span()=> ::mcp_flow::tool::check_argument::<#kind>();)
    });
    Ok(quote! {
        #(#checks)*
        #[derive(::mcp_flow::__private::Deserialize, ::mcp_flow::__private::JsonSchema)]
        #[serde(crate = "::mcp_flow::__private::serde")]
        #[schemars(crate = "::mcp_flow::__private::schemars")]
        #(#[serde(rename_all = #rename_all)])*
        #refuse_unknown
        struct FunctionArguments {
            #(#definitions,)*
        }
        #(#functions)*
    })
}
