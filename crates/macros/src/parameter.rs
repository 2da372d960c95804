//! Function parameters: an argument, all arguments, or the call's context.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{
    Attribute, Expr, ExprLit, ExprRange, Ident, Lit, Pat, PatType, RangeLimits, Token, Type,
};

use crate::call::plain;
use crate::kind::Kind;
use crate::options::{set, value, word};

/// A function parameter.
#[expect(clippy::large_enum_variant, reason = "a function has a handful of them")]
pub(crate) enum Parameter {
    /// The call's `Context`.
    Context { by_reference: bool },
    /// All arguments at once, decoded into one type.
    All(Type),
    /// One argument.
    One(Argument),
}

/// An argument, which becomes a field of the arguments type.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    pub(crate) kind: Type,
    documentation: Vec<Attribute>,
    options: ArgumentOptions,
}

#[derive(Default)]
struct ArgumentOptions {
    name: Option<Expr>,
    description: Option<Expr>,
    default: Option<Default>,
    range: Option<ExprRange>,
    length: Option<ExprRange>,
    pattern: Option<Expr>,
    example: Option<Expr>,
    complete: Option<Expr>,
    secret: bool,
}

enum Default {
    OfType,
    Value(Expr),
}

impl Parameter {
    /// Parses a parameter and removes the attributes of this crate.
    pub(crate) fn take(kind: Kind, parameter: &mut PatType) -> syn::Result<Self> {
        let attributes = std::mem::take(&mut parameter.attrs);
        let mut documentation = Vec::new();
        let mut options = ArgumentOptions::default();
        let mut has_options = None;
        let mut all = false;
        for attribute in attributes {
            if attribute.path().is_ident("doc") {
                documentation.push(attribute);
            } else if attribute.path().is_ident("param") {
                attribute.parse_nested_meta(|meta| options.read(kind, &meta))?;
                has_options = Some(attribute);
            } else if attribute.path().is_ident("arguments") {
                attribute.meta.require_path_only()?;
                all = true;
            } else {
                parameter.attrs.push(attribute);
            }
        }
        let is_context = context(&parameter.ty);
        if let Some(options) = has_options.filter(|_| all || is_context.is_some()) {
            let message = "`#[param]` is allowed on single arguments only";
            return Err(syn::Error::new_spanned(options, message));
        }
        if let Some(by_reference) = is_context {
            return Ok(Self::Context { by_reference });
        }
        let kind = owned(&parameter.ty)?;
        if all {
            return Ok(Self::All(kind));
        }
        let name = name(parameter)?;
        Ok(Self::One(Argument { name, kind, documentation, options }))
    }
}

impl ArgumentOptions {
    fn read(&mut self, kind: Kind, meta: &syn::meta::ParseNestedMeta<'_>) -> syn::Result<()> {
        let word = word(meta);
        // URI variables are decoded without a schema, so validation options do not apply.
        if kind == Kind::Resource && !["name", "complete"].contains(&word.as_str()) {
            return Err(meta.error("unknown option; a URI variable accepts name and complete"));
        }
        match word.as_str() {
            "name" => set(&mut self.name, meta, value),
            "description" => set(&mut self.description, meta, value),
            "pattern" => set(&mut self.pattern, meta, value),
            "example" => set(&mut self.example, meta, value),
            "range" => set(&mut self.range, meta, |meta| meta.value()?.parse()),
            "length" => set(&mut self.length, meta, |meta| meta.value()?.parse()),
            "default" => set(&mut self.default, meta, |meta| {
                let has_value = meta.input.peek(Token![=]);
                Ok(if has_value { Default::Value(value(meta)?) } else { Default::OfType })
            }),
            "complete" if kind != Kind::Tool => set(&mut self.complete, meta, value),
            "secret" if kind == Kind::Prompt => {
                self.secret = true;
                Ok(())
            }
            _ if kind == Kind::Prompt => Err(meta.error(
                "unknown option; a parameter accepts name, description, default, range, length, \
                 pattern, example, complete and secret",
            )),
            _ => Err(meta.error(
                "unknown option; a parameter accepts name, description, default, range, length, \
                 pattern and example",
            )),
        }
    }
}

impl Argument {
    /// Name on the wire, if it is a literal.
    pub(crate) fn given_name(&self) -> Option<String> {
        match &self.options.name {
            None => Some(plain(&self.name)),
            Some(Expr::Lit(ExprLit { lit: Lit::Str(name), .. })) => Some(name.value()),
            Some(_) => None,
        }
    }

    /// Builder call that sets the completion function, if there is one.
    pub(crate) fn completion(&self) -> Option<TokenStream> {
        let function = self.options.complete.as_ref()?;
        let name = self.name_expression();
        Some(quote!(.complete(#name, #function)))
    }

    fn name_expression(&self) -> TokenStream {
        let plain = plain(&self.name);
        self.options.name.as_ref().map_or_else(|| quote!(#plain), |name| quote!(#name))
    }

    /// Builder expression for the prompt options of an argument, if it has any.
    pub(crate) fn said_of_prompt(&self) -> Option<TokenStream> {
        let ArgumentOptions { complete, secret, .. } = &self.options;
        let name = self.name_expression();
        let secret = secret.then(|| quote!(.secret()));
        let complete = complete.as_ref().map(|function| quote!(.complete(#function)));
        let is_said = secret.is_some() || complete.is_some();
        is_said
            .then(|| quote!(::mcp_flow::prompt::PromptParameter::optional(#name) #secret #complete))
    }

    /// The struct field, and the functions that its attributes refer to.
    pub(crate) fn field(&self) -> syn::Result<(TokenStream, TokenStream)> {
        let Self { name, kind, documentation, options } = self;
        let ArgumentOptions { name: other_name, description, default, range, length, .. } = options;
        let (pattern, example) = (options.pattern.iter(), options.example.iter());
        let (other_name, description) = (other_name.iter(), description.iter());
        let range = range.as_ref().map(|range| bounds("range", range)).transpose()?;
        let length = length.as_ref().map(|length| bounds("length", length)).transpose()?;
        let (default, function) = match default {
            None => (None, None),
            Some(Default::OfType) => (Some(quote!(#[serde(default)])), None),
            Some(Default::Value(value)) => {
                let function = quote::format_ident!("default_{name}");
                let path = function.to_string();
                // A string literal is converted to the type of the field.
                let value = match value {
                    Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => quote!(#text.into()),
                    other => quote!(#other),
                };
                let body = quote!(fn #function() -> #kind { #value });
                (Some(quote!(#[serde(default = #path)])), Some(body))
            }
        };
        let field = quote! {
            #(#documentation)*
            #(#[schemars(description = #description)])*
            #(#[serde(rename = #other_name)])*
            #(#[schemars(regex(pattern = #pattern))])*
            #(#[schemars(example = &#example)])*
            #range
            #length
            #default
            #name: #kind
        };
        Ok((field, function.unwrap_or_default()))
    }
}

/// Converts `from..=to`, `from..` or `..=to` to a schemars attribute.
fn bounds(word: &str, range: &ExprRange) -> syn::Result<TokenStream> {
    if matches!(range.limits, RangeLimits::HalfOpen(_)) && range.end.is_some() {
        let message = format!("a {word} must include its end; write `{word} = from..=to`");
        return Err(syn::Error::new_spanned(range, message));
    }
    let word = Ident::new(word, proc_macro2::Span::call_site());
    let from = range.start.iter().map(|from| quote!(min = #from));
    let to = range.end.iter().map(|to| quote!(max = #to));
    let bounds = from.chain(to);
    Ok(quote!(#[schemars(#word(#(#bounds),*))]))
}

/// Returns whether the context is taken by reference; `None` if the type is not `Context`.
fn context(kind: &Type) -> Option<bool> {
    match kind {
        Type::Path(path) if path.path.segments.last()?.ident == "Context" => Some(false),
        Type::Reference(reference) => context(&reference.elem).map(|_| true),
        _ => None,
    }
}

/// The type of an argument, which must be owned.
fn owned(kind: &Type) -> syn::Result<Type> {
    match kind {
        Type::Reference(reference) => {
            let message = match &*reference.elem {
                Type::Path(path) if path.path.is_ident("str") => {
                    "take a `String` instead of `&str`"
                }
                Type::Slice(_) => "take a `Vec` instead of a slice",
                _ => "an argument cannot be a reference; take an owned value",
            };
            Err(syn::Error::new_spanned(kind, message))
        }
        Type::ImplTrait(_) => {
            let message = "use a concrete type; `impl Trait` has no schema";
            Err(syn::Error::new_spanned(kind, message))
        }
        kind => Ok(kind.clone()),
    }
}

fn name(parameter: &PatType) -> syn::Result<Ident> {
    match &*parameter.pat {
        Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => {
            Ok(pattern.ident.clone())
        }
        pattern => {
            let message = "use a plain name for the parameter; it becomes the argument's name";
            Err(syn::Error::new_spanned(pattern, message))
        }
    }
}
