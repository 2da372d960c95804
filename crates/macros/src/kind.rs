//! What a function is made into.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Ident;

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

    /// The type that stands for a function. The compiler names it where a function is none.
    pub(crate) fn marker(self, function: &Ident) -> Ident {
        format_ident!("{}_marked_as_{}", function, self.noun(), span = function.span())
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
