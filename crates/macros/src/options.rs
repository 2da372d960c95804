//! What is written between the parentheses of `#[tool(...)]`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::{Expr, Ident, LitBool, LitStr, Token};

/// How a tool is listed and run, as its attribute says.
#[derive(Default)]
pub(crate) struct ToolOptions {
    pub(crate) name: Option<LitStr>,
    pub(crate) title: Option<Expr>,
    pub(crate) description: Option<Expr>,
    pub(crate) quick: Option<Span>,
    pub(crate) allow_unknown_arguments: bool,
    pub(crate) rename_all: Option<LitStr>,
    categories: Vec<Expr>,
    hints: Vec<(Ident, bool)>,
    meta: Vec<(TokenStream, Expr)>,
}

impl ToolOptions {
    pub(crate) fn parse(options: TokenStream) -> syn::Result<Self> {
        let mut parsed = Self::default();
        let parser = syn::meta::parser(|meta| parsed.read(&meta));
        parser.parse2(options)?;
        Ok(parsed)
    }

    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let word = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match word.as_str() {
            "name" => set(&mut self.name, meta, |meta| meta.value()?.parse()),
            "title" => set(&mut self.title, meta, value),
            "description" => set(&mut self.description, meta, value),
            "rename_all" => set(&mut self.rename_all, meta, |meta| meta.value()?.parse()),
            "quick" => {
                self.quick = Some(span(meta));
                Ok(())
            }
            "allow_unknown_arguments" => {
                self.allow_unknown_arguments = true;
                Ok(())
            }
            "category" => {
                self.categories.push(value(meta)?);
                Ok(())
            }
            "read_only" | "destructive" | "idempotent" | "open_world" => {
                let hint = Ident::new(&format!("{word}_hint"), span(meta));
                self.hints.push((hint, flag(meta)?));
                Ok(())
            }
            "meta" => meta.parse_nested_meta(|entry| {
                let name = entry.path.require_ident()?.to_string();
                self.meta.push((name.into_token_stream(), value(&entry)?));
                Ok(())
            }),
            _ => Err(meta.error(
                "unknown option; a tool has name, title, description, quick, category, read_only, \
                 destructive, idempotent, open_world, rename_all, allow_unknown_arguments and meta",
            )),
        }
    }

    /// The calls on a tool's builder that say all this.
    pub(crate) fn builder_calls(&self) -> TokenStream {
        let Self { title, categories, hints, meta, .. } = self;
        let title = title.iter();
        let names = meta.iter().map(|(name, _)| name);
        let values = meta.iter().map(|(_, value)| value);
        let hints = (!hints.is_empty()).then(|| {
            let names = hints.iter().map(|(name, _)| name);
            let values = hints.iter().map(|(_, value)| value);
            quote! {
                .annotations(::mcp_flow::model::ToolAnnotations {
                    #(#names: ::core::option::Option::Some(#values),)*
                    ..::core::default::Default::default()
                })
            }
        });
        quote! {
            #(.title(#title))*
            #(.category(#categories))*
            #(.meta(#names, ::mcp_flow::__private::json!(#values)))*
            #hints
        }
    }
}

/// Sets an option that may be given once.
pub(crate) fn set<T>(
    option: &mut Option<T>,
    meta: &ParseNestedMeta<'_>,
    parse: impl FnOnce(&ParseNestedMeta<'_>) -> syn::Result<T>,
) -> syn::Result<()> {
    if option.is_some() {
        return Err(meta.error("this is said twice"));
    }
    *option = Some(parse(meta)?);
    Ok(())
}

/// The expression after the equals sign.
pub(crate) fn value(meta: &ParseNestedMeta<'_>) -> syn::Result<Expr> {
    meta.value()?.parse()
}

/// `word` or `word = true` or `word = false`.
fn flag(meta: &ParseNestedMeta<'_>) -> syn::Result<bool> {
    if !meta.input.peek(Token![=]) {
        return Ok(true);
    }
    Ok(meta.value()?.parse::<LitBool>()?.value)
}

fn span(meta: &ParseNestedMeta<'_>) -> Span {
    syn::spanned::Spanned::span(&meta.path)
}
