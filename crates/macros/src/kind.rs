//! What a function is made into.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Ident;

/// The type that stands for a function with this attribute. All that the compiler says where the
/// attribute was forgotten is that it cannot find this name, so the name says what to do.
pub(crate) fn marker(function: &Ident, attribute: &str) -> Ident {
    format_ident!("{}_needs_the_attribute_{}", function, attribute, span = function.span())
}

/// What an attribute makes of a function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tool,
    Prompt,
    Resource,
}

impl Kind {
    /// What it is called in messages.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
        }
    }

    /// The type that stands for a function.
    pub(crate) fn marker(self, function: &Ident) -> Ident {
        marker(function, self.noun())
    }

    /// The trait by which it is registered.
    pub(crate) fn collection(self) -> TokenStream {
        match self {
            Self::Tool => quote!(::mcp_flow::IntoTools),
            Self::Prompt => quote!(::mcp_flow::IntoPrompts),
            Self::Resource => quote!(::mcp_flow::IntoResources),
        }
    }

    /// The function of that trait.
    pub(crate) fn collect(self) -> TokenStream {
        match self {
            Self::Tool => quote!(into_tools),
            Self::Prompt => quote!(into_prompts),
            Self::Resource => quote!(into_resources),
        }
    }

    /// What that function returns.
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
