//! Tool, prompt or resource: the traits and types that each attribute refers to.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Ident;

/// Name of the marker type of a function. If the attribute is missing, the compiler reports this
/// name as not found, so the name says what to do.
pub(crate) fn marker(function: &Ident, attribute: &str) -> Ident {
    format_ident!("{}_needs_the_attribute_{}", function, attribute, span = function.span())
}

/// Attribute on a function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tool,
    Prompt,
    Resource,
}

impl Kind {
    /// Name in error messages.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
        }
    }

    /// Name of the marker type of a function.
    pub(crate) fn marker(self, function: &Ident) -> Ident {
        marker(function, self.noun())
    }

    /// The trait that registers it.
    pub(crate) fn collection(self) -> TokenStream {
        match self {
            Self::Tool => quote!(::mcp_flow::IntoTools),
            Self::Prompt => quote!(::mcp_flow::IntoPrompts),
            Self::Resource => quote!(::mcp_flow::IntoResources),
        }
    }

    /// The method of that trait.
    pub(crate) fn collect(self) -> TokenStream {
        match self {
            Self::Tool => quote!(into_tools),
            Self::Prompt => quote!(into_prompts),
            Self::Resource => quote!(into_resources),
        }
    }

    /// The return type of that method.
    pub(crate) fn collected(self) -> TokenStream {
        let (item, error) = match self {
            Self::Tool => (quote!(::mcp_flow::Tool), quote!(::mcp_flow::BadTool)),
            Self::Prompt => (quote!(::mcp_flow::Prompt), quote!(::mcp_flow::BadPrompt)),
            Self::Resource => {
                (quote!(::mcp_flow::resource::Offered), quote!(::mcp_flow::BadResource))
            }
        };
        quote!(::core::result::Result<::std::vec::Vec<#item>, #error>)
    }
}
