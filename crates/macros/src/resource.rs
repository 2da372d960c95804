//! `#[resource("uri")]` on a function: a resource, or a template if the URI has variables.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Expr, ItemFn, LitStr, Token};

use crate::arguments::Spelling;
use crate::call::{Call, Called, plain};
use crate::flow::seconds;
use crate::function::{mark, read};
use crate::kind::Kind;
use crate::options::{CommonOptions, set, value, word};
use crate::parameter::{Argument, Parameter};
use crate::signature::Function;

pub(crate) fn expand(options: TokenStream, mut function: ItemFn) -> syn::Result<TokenStream> {
    let Options { uri, mime_type, cache, common } = syn::parse2(options)?;
    let read = read(Kind::Resource, &mut function)?;
    let variables = variables(&uri)?;
    check(&uri, &variables, &read)?;
    let called = Called {
        function: &read,
        quick: common.quick,
        later: quote!(read),
        path: function.sig.ident.to_token_stream(),
        state: TokenStream::new(),
    };
    let Call { definition, finish, .. } = if variables.is_empty() {
        called.without_arguments()?
    } else {
        called.with_arguments(&Spelling::default())?
    };
    let builder = if variables.is_empty() { quote!(Resource) } else { quote!(ResourceTemplate) };
    let name = common.name.as_ref().map_or_else(|| plain(&function.sig.ident), LitStr::value);
    let said = common.builder_calls(&read);
    let mime_type = mime_type.iter();
    let cache = cache.builder_call()?;
    let completions = arguments(&read).filter_map(Argument::completion);
    let resource = quote! {{
        #definition
        ::mcp_flow::#builder::builder(#uri)
            .name(#name)
            #said
            #(.mime_type(#mime_type))*
            #cache
            #(#completions)*
            #finish
    }};
    Ok(mark(Kind::Resource, &function, &resource))
}

/// Options of `#[resource]`: `"uri", name = value, …`
struct Options {
    uri: LitStr,
    mime_type: Option<Expr>,
    cache: CacheOptions,
    common: CommonOptions,
}

/// Options `ttl` and `cache_scope`.
#[derive(Default)]
struct CacheOptions {
    ttl: Option<LitStr>,
    scope: Option<LitStr>,
}

impl CacheOptions {
    fn builder_call(&self) -> syn::Result<Option<TokenStream>> {
        let hint = match self.scope.as_ref().map(|scope| (scope.value(), scope)) {
            None => quote!(private),
            Some((name, _)) if name == "private" => quote!(private),
            Some((name, _)) if name == "public" => quote!(public),
            Some((_, scope)) => {
                let message = "expected \"public\" or \"private\"";
                return Err(syn::Error::new_spanned(scope, message));
            }
        };
        match (&self.ttl, &self.scope) {
            (Some(ttl), _) => {
                let seconds = seconds(ttl)?;
                Ok(Some(quote! {
                    .cache(::mcp_flow::model::CacheHint::#hint(
                        ::std::time::Duration::from_secs(#seconds)
                    ))
                }))
            }
            (None, Some(scope)) => {
                let message = "`cache_scope` needs `ttl`, the time for which contents are fresh";
                Err(syn::Error::new_spanned(scope, message))
            }
            (None, None) => Ok(None),
        }
    }
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if !input.peek(LitStr) {
            let message = "expected a URI: `#[resource(\"notes:/today\")]`, or a template: \
                           `#[resource(\"notes:/{day}\")]`";
            return Err(syn::Error::new(input.span(), message));
        }
        let uri = input.parse()?;
        let (mut mime_type, mut common) = (None, CommonOptions::default());
        let mut cache = CacheOptions::default();
        if input.parse::<Option<Token![,]>>()?.is_some() {
            let rest: TokenStream = input.parse()?;
            let parser = syn::meta::parser(|meta| {
                match word(&meta).as_str() {
                    "mime_type" => return set(&mut mime_type, &meta, value),
                    "ttl" => return set(&mut cache.ttl, &meta, |meta| meta.value()?.parse()),
                    "cache_scope" => {
                        return set(&mut cache.scope, &meta, |meta| meta.value()?.parse());
                    }
                    _ => {}
                }
                if common.read(&meta)? {
                    return Ok(());
                }
                Err(meta.error(
                    "unknown option; `#[resource]` accepts name, title, description, icon, \
                     mime_type, ttl, cache_scope, quick and meta",
                ))
            });
            syn::parse::Parser::parse2(parser, rest)?;
        }
        Ok(Self { uri, mime_type, cache, common })
    }
}

/// Names of the variables, written `{name}` or `{+name}`. The builder validates the template.
fn variables(uri: &LitStr) -> syn::Result<Vec<String>> {
    let text = uri.value();
    let mut names = Vec::new();
    let mut rest = text.as_str();
    while let Some((_, expression)) = rest.split_once('{') {
        let Some((name, after)) = expression.split_once('}') else {
            return Err(syn::Error::new_spanned(uri, "unclosed brace in the URI template"));
        };
        names.push(name.trim_start_matches('+').to_owned());
        rest = after;
    }
    Ok(names)
}

/// Checks that every variable has a parameter and every parameter a variable.
fn check(uri: &LitStr, variables: &[String], function: &Function) -> syn::Result<()> {
    let is_whole =
        function.parameters.iter().any(|parameter| matches!(parameter, Parameter::All(_)));
    if is_whole {
        return Ok(());
    }
    for argument in arguments(function) {
        let name = argument.given_name();
        if name.as_ref().is_some_and(|name| !variables.contains(name)) {
            let message = "the URI has no variable of this name; add it in braces";
            return Err(syn::Error::new_spanned(&argument.name, message));
        }
    }
    let taken: Vec<_> = arguments(function).filter_map(Argument::given_name).collect();
    // A name that is not a literal may match any variable.
    let all_known = taken.len() == arguments(function).count();
    match variables.iter().find(|name| all_known && !taken.contains(name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!("the variable {{{name}}} has no parameter; add one of that name");
            Err(syn::Error::new_spanned(uri, message))
        }
    }
}

fn arguments(function: &Function) -> impl Iterator<Item = &Argument> {
    function.parameters.iter().filter_map(|parameter| match parameter {
        Parameter::One(argument) => Some(argument),
        Parameter::Context { .. } | Parameter::All(_) => None,
    })
}
