//! `#[flow]` on a function.
//!
//! The function stays as it is. Beside it comes a type that `flows![…]` lists it by. The keys of
//! questions that are written out in it, as in `flow.ask("city", text("Where to?"))`, become
//! optional arguments of the tool it is offered as.

use proc_macro2::{Delimiter, Group, Literal, TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Expr, FnArg, Ident, ItemFn, LitStr, Path, Token, Type};

use crate::options::{set, value};
use crate::signature::documentation;

pub(crate) fn expand(options: TokenStream, function: ItemFn) -> syn::Result<TokenStream> {
    let options = FlowOptions::parse(options)?;
    let params = params(&function)?;
    let ident = &function.sig.ident;
    let plain_name = || ident.to_string().trim_start_matches("r#").to_owned();
    let name = options.name.as_ref().map_or_else(plain_name, LitStr::value);
    let offered = match &params {
        Some(params) => quote!(::mcp_flow::OfferedFlow::new(#name, #ident).params::<#params>()),
        None => quote! {
            ::mcp_flow::OfferedFlow::new(#name, |flow, _: ::mcp_flow::__private::NoParams| #ident(flow))
        },
    };
    let description = match (options.description, documentation(&function.attrs)) {
        (Some(description), _) => Some(quote!(.description(#description))),
        (None, Some(text)) => Some(quote!(.description(#text))),
        (None, None) => None,
    };
    let title = options.title.iter();
    let after_start = options.asks_after_start.then(|| quote!(.asks_after_start()));
    let early = options.early_completion.then(|| quote!(.early_completion()));
    let mut keys = Vec::new();
    find_keys(quote::ToTokens::to_token_stream(&function.block), &mut keys);
    let keys = keys.iter().map(Key::call);
    let (marker, visibility) = (marker(ident), &function.vis);
    Ok(quote! {
        #function

        #[doc(hidden)]
        #[allow(non_camel_case_types, missing_docs)]
        #[derive(Clone, Copy, Debug)]
        #visibility struct #marker {}

        impl ::mcp_flow::IntoFlows for #marker {
            fn into_flows(self) -> ::std::vec::Vec<::mcp_flow::OfferedFlow> {
                ::std::vec![#offered #description #(.title(#title))* #after_start #early #(#keys)*]
            }
        }
    })
}

/// `flows![register, trips::book_trip]`: functions with `#[flow]`, by their names or paths.
pub(crate) fn list(functions: TokenStream) -> syn::Result<TokenStream> {
    let parser = Punctuated::<Path, Token![,]>::parse_terminated;
    let mut functions = parser.parse2(functions)?;
    for function in &mut functions {
        if let Some(last) = function.segments.last_mut() {
            last.ident = marker(&last.ident);
        }
    }
    let functions = functions.iter();
    Ok(quote! {
        ::std::vec![#(::mcp_flow::IntoFlows::into_flows(#functions {})),*]
    })
}

/// What is written between the parentheses of `#[flow(...)]`.
#[derive(Default)]
struct FlowOptions {
    name: Option<LitStr>,
    title: Option<Expr>,
    description: Option<Expr>,
    asks_after_start: bool,
    early_completion: bool,
}

impl FlowOptions {
    fn parse(options: TokenStream) -> syn::Result<Self> {
        let mut parsed = Self::default();
        syn::meta::parser(|meta| parsed.read(&meta)).parse2(options)?;
        Ok(parsed)
    }

    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let word = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match word.as_str() {
            "name" => set(&mut self.name, meta, |meta| meta.value()?.parse()),
            "title" => set(&mut self.title, meta, value),
            "description" => set(&mut self.description, meta, value),
            "asks_after_start" => {
                self.asks_after_start = true;
                Ok(())
            }
            "early_completion" => {
                self.early_completion = true;
                Ok(())
            }
            _ => Err(meta.error(
                "unknown option; a flow has name, title, description, asks_after_start and \
                 early_completion",
            )),
        }
    }
}

/// The type of a flow's parameters, if it has any.
fn params(function: &ItemFn) -> syn::Result<Option<Type>> {
    let signature = &function.sig;
    if signature.asyncness.is_none() {
        let message = "a flow waits for answers, so it is an `async fn`";
        return Err(syn::Error::new_spanned(signature.fn_token, message));
    }
    if !signature.generics.params.is_empty() {
        let message = "a flow cannot be generic; it is taken up again by its name alone";
        return Err(syn::Error::new_spanned(&signature.generics, message));
    }
    let mut inputs = signature.inputs.iter();
    let params = match (inputs.next(), inputs.next(), inputs.next()) {
        (Some(FnArg::Typed(_)), None, None) => None,
        (Some(FnArg::Typed(_)), Some(FnArg::Typed(params)), None) => Some((*params.ty).clone()),
        _ => {
            let message = "a flow takes `flow: Flow`, and its parameters as one type if it has any";
            return Err(syn::Error::new_spanned(&signature.inputs, message));
        }
    };
    Ok(params)
}

/// A question that is written out in a flow.
struct Key {
    key: Literal,
    kind: Option<String>,
    message: Option<Literal>,
}

impl Key {
    fn call(&self) -> TokenStream {
        let Self { key, kind, message } = self;
        let description = message.iter();
        let kind = match kind.as_deref() {
            Some("text") => quote!("type": "string",),
            Some("confirm") => quote!("type": "boolean",),
            Some("number") => quote!("type": "number",),
            Some("integer") => quote!("type": "integer",),
            Some("date") => quote!("type": "string", "format": "date",),
            _ => quote!(),
        };
        quote! {
            .key(#key, ::mcp_flow::__private::json!({#kind #("description": #description)*}))
        }
    }
}

/// Finds `.ask("key", kind("message"…)…)` wherever it is written.
fn find_keys(tokens: TokenStream, found: &mut Vec<Key>) {
    let mut is_ask = false;
    for token in tokens {
        if let TokenTree::Group(group) = &token {
            if is_ask
                && group.delimiter() == Delimiter::Parenthesis
                && let Some(key) = read_key(group)
            {
                found.push(key);
            }
            find_keys(group.stream(), found);
        }
        is_ask = matches!(&token, TokenTree::Ident(ident) if ident == "ask");
    }
}

fn read_key(group: &Group) -> Option<Key> {
    let mut tokens = group.stream().into_iter();
    let key = text(tokens.next()?)?;
    let mut kind = None;
    for token in tokens {
        match token {
            // The last word before the parentheses, whatever path leads to it.
            TokenTree::Ident(ident) => kind = Some(ident.to_string()),
            TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => {
                let message = group.stream().into_iter().next().and_then(text);
                let is_question = kind.as_deref().is_some_and(|kind| KINDS.contains(&kind));
                return Some(Key { key, message: message.filter(|_| is_question), kind });
            }
            TokenTree::Punct(_) => {}
            _ => break,
        }
    }
    Some(Key { key, kind: None, message: None })
}

fn text(token: TokenTree) -> Option<Literal> {
    match token {
        TokenTree::Literal(literal) if literal.to_string().starts_with('"') => Some(literal),
        _ => None,
    }
}

/// The functions that make questions.
const KINDS: [&str; 8] =
    ["text", "choice", "confirm", "number", "integer", "date", "file", "custom"];

/// The type that stands for a function. The compiler names it where a function is no flow.
fn marker(function: &Ident) -> Ident {
    format_ident!("{}_marked_as_flow", function, span = function.span())
}
