//! Parsed function signatures: doc comment, parameters and return type.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{
    Attribute, Expr, ExprLit, FnArg, GenericParam, Ident, Lit, Meta, ReturnType, Safety, Signature,
    Type,
};

use crate::kind::Kind;
use crate::parameter::Parameter;

/// A parsed function.
pub(crate) struct Function {
    pub(crate) is_async: bool,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) result: TokenStream,
    /// Doc comment as text.
    pub(crate) documentation: Option<String>,
}

impl Function {
    /// Parses a function and removes the attributes of this crate from its parameters. `self` is
    /// ignored.
    pub(crate) fn take(
        kind: Kind,
        signature: &mut Signature,
        attributes: &[Attribute],
    ) -> syn::Result<Self> {
        check_callable(kind, signature)?;
        let parameters: Vec<Parameter> = signature
            .inputs
            .iter_mut()
            .filter_map(|parameter| match parameter {
                FnArg::Typed(parameter) => Some(parameter),
                FnArg::Receiver(_) => None,
            })
            .map(|parameter| Parameter::take(kind, parameter))
            .collect::<syn::Result<_>>()?;
        let contexts =
            parameters.iter().filter(|parameter| matches!(parameter, Parameter::Context { .. }));
        if contexts.count() > 1 {
            let message = "only one `Context` parameter is allowed";
            return Err(syn::Error::new_spanned(&signature.inputs, message));
        }
        Ok(Self {
            is_async: signature.asyncness.is_some(),
            parameters,
            result: result(kind, &signature.output)?,
            documentation: documentation(attributes),
        })
    }

    /// Returns whether the context is taken by reference; `None` if the function does not take it.
    pub(crate) fn context(&self) -> Option<bool> {
        self.parameters.iter().find_map(|parameter| match parameter {
            Parameter::Context { by_reference } => Some(*by_reference),
            _ => None,
        })
    }
}

fn check_callable(kind: Kind, signature: &Signature) -> syn::Result<()> {
    let noun = kind.noun();
    let mut generics = signature.generics.params.iter();
    if generics.any(|one| !matches!(one, GenericParam::Lifetime(_))) {
        let message = format!("a {noun} cannot be generic; its schema needs concrete types");
        return Err(syn::Error::new_spanned(&signature.generics, message));
    }
    if let Safety::Unsafe(word) = &signature.safety {
        let message = format!("a {noun} cannot be unsafe");
        return Err(syn::Error::new_spanned(word, message));
    }
    if let Some(rest) = &signature.variadic {
        let message = format!("a {noun} cannot be variadic");
        return Err(syn::Error::new_spanned(rest, message));
    }
    Ok(())
}

fn result(kind: Kind, output: &ReturnType) -> syn::Result<TokenStream> {
    match output {
        ReturnType::Default => Ok(quote!(())),
        ReturnType::Type(_, returned) if matches!(**returned, Type::ImplTrait(_)) => {
            let noun = kind.noun();
            let message =
                format!("use a concrete return type; a {noun} cannot return `impl Trait`");
            Err(syn::Error::new_spanned(returned, message))
        }
        ReturnType::Type(_, returned) => match &**returned {
            Type::Reference(reference)
                if reference.lifetime.as_ref().is_none_or(|life| life.ident != "static") =>
            {
                let message = "return an owned value, such as a `String`";
                Err(syn::Error::new_spanned(returned, message))
            }
            returned => Ok(quote!(#returned)),
        },
    }
}

/// The error for a missing description.
pub(crate) fn undocumented(name: &Ident, noun: &str) -> syn::Error {
    let message = format!(
        "a {noun} needs a description, by which models choose it; add a doc comment to the \
         function, or `#[{noun}(description = \"…\")]`"
    );
    syn::Error::new_spanned(name, message)
}

/// Text of the doc comment, without the leading space of each line.
pub(crate) fn documentation(attributes: &[Attribute]) -> Option<String> {
    let lines: Vec<String> = attributes
        .iter()
        .filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
                Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) => Some(line.value()),
                _ => None,
            },
            _ => None,
        })
        .map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned())
        .collect();
    let text = lines.join("\n").trim().to_owned();
    (!text.is_empty()).then_some(text)
}
