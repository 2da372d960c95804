//! `#[tool]` on an `impl` block and its methods: tools that share a value.

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
        let message = "use `#[tool]` on an inherent `impl` block, not on a trait implementation";
        return Err(syn::Error::new_spanned(path, message));
    }
    // The check is a constant, which cannot use the generic parameters of the block.
    let is_plain = block.generics.params.is_empty();
    let mut tools = Vec::new();
    for item in &mut block.items {
        if let ImplItem::Fn(method) = item
            && let Some(options) = take_attribute(method)?
        {
            let tool = tool(method, &options, &prefix, is_plain)?;
            // A method excluded by `cfg` is not registered.
            let conditions = method.attrs.iter().filter(|one| one.path().is_ident("cfg"));
            tools.push(quote! {
                #(#conditions)*
                tools.extend(::mcp_flow::IntoTools::into_tools(#tool)?);
            });
        }
    }
    if tools.is_empty() {
        let message = "no method has the attribute `#[tool]`";
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

/// Parses `#[tool(prefix = "…")]`, the prefix of the methods' names.
fn prefix(options: TokenStream) -> syn::Result<String> {
    let mut prefix: Option<LitStr> = None;
    let parser = syn::meta::parser(|meta| {
        if meta.path.is_ident("prefix") {
            return set(&mut prefix, &meta, |meta| meta.value()?.parse());
        }
        Err(meta.error("unknown option; an `impl` block accepts prefix"))
    });
    parser.parse2(options)?;
    Ok(prefix.map(|prefix| prefix.value()).unwrap_or_default())
}

/// Removes and parses the `#[tool(…)]` attribute of a method, if it has one.
fn take_attribute(method: &mut ImplItemFn) -> syn::Result<Option<ToolOptions>> {
    // The attribute may be written with a path, as `mcp_flow::tool`.
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
                let message = "a tool is called concurrently: take `&self`, and keep mutable state \
                               in a `Mutex` or an atomic";
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
