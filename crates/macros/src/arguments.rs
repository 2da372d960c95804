//! The type a function's arguments are decoded into.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, LitStr, Type};

use crate::parameter::{Argument, Parameter};

/// How the arguments of a function are spelled, as its attribute says.
#[derive(Default)]
pub(crate) struct Spelling {
    /// Those it does not have are left alone.
    pub(crate) allow_unknown: bool,
    pub(crate) rename_all: Option<LitStr>,
}

/// The type, and how to get from its value to the values of a function's parameters.
pub(crate) struct Arguments {
    /// The type's definition, unless it is the author's own.
    pub(crate) definition: TokenStream,
    pub(crate) kind: TokenStream,
    /// Takes a value of the type apart.
    pub(crate) pattern: TokenStream,
    /// What the function is called with, in order.
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
                // A context taken by value is cloned, which costs a count.
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
                let message = "`#[arguments]` stands for all of them; it cannot have others beside";
                Err(syn::Error::new_spanned(kind, message))
            }
            Some(kind) if spelling.allow_unknown || spelling.rename_all.is_some() => {
                let message = "with `#[arguments]` the type itself says how it is read; use the \
                               attributes of serde on it";
                Err(syn::Error::new_spanned(kind, message))
            }
            Some(kind) => {
                let (kind, pattern) = (quote!(#kind), quote!(#whole));
                Ok(Self { definition: TokenStream::new(), kind, pattern, values: calls })
            }
        }
    }
}

/// Compiles only if the type that holds all arguments, if there is one, may be an object with a member
/// for each.
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
                "`#[arguments]` is for a type with named fields, since arguments are an object with \
                 a member for each; take a single value as a plain parameter"
            );
        };
    })
}

/// What an argument is called on its way to the function: a name that hides nothing.
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
    // Said first and in words, before the derived code says it in its own.
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
