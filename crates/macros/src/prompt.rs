//! `#[prompt]` on a function.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{ItemFn, LitStr};

use crate::arguments::Spelling;
use crate::call::{Call, Called, plain};
use crate::function::{mark, read};
use crate::kind::Kind;
use crate::options::CommonOptions;
use crate::parameter::Parameter;

pub(crate) fn expand(options: TokenStream, mut function: ItemFn) -> syn::Result<TokenStream> {
    let options = CommonOptions::parse(Kind::Prompt, options)?;
    let read = read(Kind::Prompt, &mut function)?;
    let called = Called {
        function: &read,
        quick: options.quick,
        later: quote!(get),
        path: function.sig.ident.to_token_stream(),
        state: TokenStream::new(),
    };
    let Call { definition, finish, .. } = called.with_arguments(&Spelling::default())?;
    let name = options.name.as_ref().map_or_else(|| plain(&function.sig.ident), LitStr::value);
    let said = options.builder_calls(&read);
    let arguments = read.parameters.iter().filter_map(|parameter| match parameter {
        Parameter::One(argument) => argument.said_of_prompt(),
        Parameter::Context { .. } | Parameter::All(_) => None,
    });
    let prompt = quote! {{
        #definition
        ::mcp_flow::Prompt::builder(#name)
            #said
            #(.argument(#arguments))*
            #finish
    }};
    Ok(mark(Kind::Prompt, &function, &prompt))
}
