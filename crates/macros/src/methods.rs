//! `#[tool]` on the `impl` block of a type with state, and on methods in it.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::parse::Parser;
use syn::{Attribute, FnArg, Ident, ImplItem, ImplItemFn, ItemImpl, LitStr, Meta, ReceiverKind};

use crate::arguments::check_object;
use crate::kind::Kind;
use crate::options::{ToolOptions, set};
use crate::signature::Function;
use crate::tool::build;

pub(crate) fn expand(options: TokenStream, mut block: ItemImpl) -> syn::Result<TokenStream> {
    let prefix = prefix(options)?;
    if let Some((path, _)) = &block.trait_ {
        let message = "mark an `impl` block of the type itself, not of a trait";
        return Err(syn::Error::new_spanned(path, message));
    }
    // A constant, which the check of a type is, cannot name the parameters of the block.
    let is_plain = block.generics.params.is_empty();
    let mut tools = Vec::new();
    for item in &mut block.items {
        if let ImplItem::Fn(method) = item
            && let Some(options) = take_attribute(method)?
        {
            let tool = tool(method, &options, &prefix, is_plain)?;
            // A method that is not compiled is no tool.
            let conditions = method.attrs.iter().filter(|one| one.path().is_ident("cfg"));
            tools.push(quote! {
                #(#conditions)*
                tools.extend(::mcp_flow::IntoTools::into_tools(#tool)?);
            });
        }
    }
    if tools.is_empty() {
        let message = "no method is marked with `#[tool]`, so there is nothing to offer";
        return Err(syn::Error::new_spanned(&block.self_ty, message));
    }
    let (generics, _, condition) = block.generics.split_for_impl();
    let kind = &block.self_ty;
    Ok(quote! {
        #block

        impl #generics ::mcp_flow::tool::ToolCollection for #kind #condition {
            fn tools(
                self: ::std::sync::Arc<Self>,
            ) -> ::core::result::Result<::std::vec::Vec<::mcp_flow::Tool>, ::mcp_flow::BadTool> {
                let mut tools = ::std::vec::Vec::new();
                #(#tools)*
                ::core::result::Result::Ok(tools)
            }
        }

        impl #generics ::mcp_flow::IntoTools for #kind #condition {
            fn into_tools(
                self,
            ) -> ::core::result::Result<::std::vec::Vec<::mcp_flow::Tool>, ::mcp_flow::BadTool> {
                ::mcp_flow::IntoTools::into_tools(::std::sync::Arc::new(self))
            }
        }
    })
}

/// `#[tool(prefix = "…")]`: what the names of all methods begin with.
fn prefix(options: TokenStream) -> syn::Result<String> {
    let mut prefix: Option<LitStr> = None;
    let parser = syn::meta::parser(|meta| {
        if meta.path.is_ident("prefix") {
            return set(&mut prefix, &meta, |meta| meta.value()?.parse());
        }
        Err(meta.error("unknown option; a block of tools has prefix"))
    });
    parser.parse2(options)?;
    Ok(prefix.map(|prefix| prefix.value()).unwrap_or_default())
}

/// Takes `#[tool(…)]` away from a method, if it has one, and reads it.
fn take_attribute(method: &mut ImplItemFn) -> syn::Result<Option<ToolOptions>> {
    // By its last word, since it may be written with the path of its crate.
    let is_ours =
        |one: &Attribute| one.path().segments.last().is_some_and(|word| word.ident == "tool");
    let Some(index) = method.attrs.iter().position(is_ours) else { return Ok(None) };
    let options = match method.attrs.remove(index).meta {
        Meta::List(list) => list.tokens,
        _ => TokenStream::new(),
    };
    ToolOptions::parse(options).map(Some)
}

fn tool(
    method: &mut ImplItemFn,
    options: &ToolOptions,
    prefix: &str,
    is_plain: bool,
) -> syn::Result<TokenStream> {
    let shares_self = match method.sig.inputs.first() {
        Some(FnArg::Receiver(receiver)) => {
            if !matches!(receiver.kind, ReceiverKind::Reference(_, _, None)) {
                let message = "a tool is called by many at once: take `&self`, and keep what \
                               changes in a `Mutex` or an atomic";
                return Err(syn::Error::new_spanned(receiver, message));
            }
            true
        }
        _ => false,
    };
    let function = Function::take(Kind::Tool, &mut method.sig, &method.attrs)?;
    let (name, state) = (&method.sig.ident, Ident::new("state", Span::mixed_site()));
    let check = check_object(&function.parameters).filter(|_| is_plain);
    if !shares_self {
        let tool =
            build(prefix, name, &function, options, &quote!(Self::#name), &TokenStream::new())?;
        return Ok(quote!({ #check #tool }));
    }
    let clone = quote!(let #state = ::std::sync::Arc::clone(&#state););
    let tool = build(prefix, name, &function, options, &quote!(#state.#name), &clone)?;
    Ok(quote!({
        #check
        let #state = ::std::sync::Arc::clone(&self);
        #tool
    }))
}
