//! `#[tool]` on a function.
//!
//! The function becomes a value of a type of its own, under the same name, which can be listed in
//! `.tools((…))` and, by dereferencing to the function, still be called like one.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{FnArg, Item, ItemFn};

use crate::options::ToolOptions;
use crate::parameter::Parameter;
use crate::signature::Function;
use crate::tool::build;

pub(crate) fn expand(options: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let options = ToolOptions::parse(options)?;
    let mut function = match syn::parse2(item)? {
        Item::Fn(function) => function,
        Item::Impl(block) => {
            let message = "mark the block with `#[tools]`, and the methods in it with `#[tool]`";
            return Err(syn::Error::new_spanned(block.self_ty, message));
        }
        other => {
            let message = "a tool is a function, or a method in a block marked with `#[tools]`";
            return Err(syn::Error::new_spanned(other, message));
        }
    };
    if let Some(FnArg::Receiver(receiver)) = function.sig.inputs.first() {
        let message = "a tool with `self` is a method; mark its `impl` block with `#[tools]`";
        return Err(syn::Error::new_spanned(receiver, message));
    }
    let read = Function::take(&mut function.sig, &function.attrs)?;
    let name = &function.sig.ident;
    let tool = build("", name, &read, &options, &name.to_token_stream(), &TokenStream::new())?;
    let call = callable(&function, &read);
    let (visibility, attributes) = (&function.vis, &function.attrs);
    let documentation = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    let mut inner = function.clone();
    inner.vis = syn::Visibility::Inherited;
    Ok(quote! {
        #(#documentation)*
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug)]
        #visibility struct #name;

        const _: () = {
            #inner

            impl ::mcp_flow::IntoTools for #name {
                fn into_tools(
                    self,
                ) -> ::core::result::Result<::std::vec::Vec<::mcp_flow::Tool>, ::mcp_flow::BadTool> {
                    ::mcp_flow::IntoTools::into_tools(#tool)
                }
            }

            #call
        };
    })
}

/// What lets the value be called: it dereferences to a pointer to the function.
fn callable(function: &ItemFn, read: &Function) -> TokenStream {
    let name = &function.sig.ident;
    let kinds: Vec<_> = function
        .sig
        .inputs
        .iter()
        .zip(&read.parameters)
        .map(|(input, parameter)| match (input, parameter) {
            (FnArg::Typed(input), Parameter::One(_) | Parameter::All(_)) => {
                input.ty.to_token_stream()
            }
            (_, Parameter::Context { by_reference: false }) => quote!(::mcp_flow::Context),
            _ => quote!(&'call ::mcp_flow::Context),
        })
        .collect();
    let names: Vec<_> =
        (0..kinds.len()).map(|index| quote::format_ident!("value_{index}")).collect();
    let result = &read.result;
    let borrows = read.context() == Some(true);
    // Without anything borrowed there is no lifetime a caller could choose.
    let lifetime = if borrows { quote!('call) } else { quote!('static) };
    let (generics, for_all) =
        if borrows { (quote!(<'call>), quote!(for<'call>)) } else { Default::default() };
    let call = quote!(#name(#(#names),*));
    let (output, call) = if read.is_async {
        let future = quote!(dyn ::core::future::Future<Output = #result> + Send + #lifetime);
        let output = quote!(::core::pin::Pin<::std::boxed::Box<#future>>);
        (output, quote!(::std::boxed::Box::pin(#call)))
    } else {
        (result.clone(), call)
    };
    quote! {
        impl ::core::ops::Deref for #name {
            type Target = #for_all fn(#(#kinds),*) -> #output;

            fn deref(&self) -> &Self::Target {
                #[allow(clippy::too_many_arguments)]
                fn call #generics (#(#names: #kinds),*) -> #output {
                    #call
                }
                const CALL: #for_all fn(#(#kinds),*) -> #output = call;
                &CALL
            }
        }
    }
}
