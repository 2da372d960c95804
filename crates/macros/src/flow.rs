//! `#[flow]` on a function, and `flows![…]`.
//!
//! The function is unchanged. A marker type is generated beside it. Its parameters after the first,
//! and the keys of the questions in its body, become arguments of the tool.

use proc_macro2::TokenStream;
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Expr, FnArg, Ident, ItemFn, LitStr, Pat, PatType, Path, Token, Type};

use crate::arguments::{Arguments, Spelling, check_object};
use crate::call::plain;
use crate::kind::{Kind, marker};
use crate::options::{Task, set, value};
use crate::parameter::Parameter;
use crate::questions::Questions;
use crate::signature::{documentation, undocumented};

pub(crate) fn expand(options: TokenStream, mut function: ItemFn) -> syn::Result<TokenStream> {
    let options = FlowOptions::parse(options)?;
    let own_name = plain(&function.sig.ident);
    let name = options.name.as_ref().map_or(own_name, LitStr::value);
    let offered = offered(&name, &mut function)?;
    let ident = &function.sig.ident;
    let description = match (options.description, documentation(&function.attrs)) {
        (Some(description), _) => quote!(.description(#description)),
        (None, Some(text)) => quote!(.description(#text)),
        (None, None) => return Err(undocumented(ident, "flow")),
    };
    let title = options.title.iter();
    let (ui, icons) = (options.ui.iter(), options.icons.iter());
    let looks = quote!(#(.ui(#ui))* #(.icon(#icons))*);
    let looks = (!looks.is_empty()).then(|| quote!(.customize(|tool| tool #looks)));
    let after_start = options.asks_after_start.then(|| quote!(.asks_after_start()));
    let early = options.early_completion.then(|| quote!(.early_completion()));
    let task = options.task.as_ref().map(Task::builder_call);
    let waits = options.waits.iter().map(seconds).collect::<syn::Result<Vec<_>>>()?;
    let questions = Questions::read(&function.block, hold(&function));
    let is_closed = questions.are_all() && !options.allow_unknown_arguments;
    let closed = is_closed.then(|| quote!(.refuse_unknown_arguments()));
    let questions = questions.declarations();
    let (marker, visibility) = (marker(ident, "flow"), &function.vis);
    Ok(quote! {
        #function

        #[doc(hidden)]
        #[allow(non_camel_case_types, missing_docs)]
        #[derive(Clone, Copy, Debug)]
        #visibility struct #marker {}

        impl ::mcp_flow::IntoFlows for #marker {
            fn into_flows(self) -> ::std::vec::Vec<::mcp_flow::OfferedFlow> {
                let offered = #offered;
                let offered = offered
                    #description
                    #(.title(#title))*
                    #after_start
                    #early
                    #task
                    #looks
                    #(.waits(::std::time::Duration::from_secs(#waits)))*
                    #closed;
                #questions
                ::std::vec![offered]
            }
        }
    })
}

/// Expands `flows![register, trips::book_trip]`: functions with `#[flow]`, by name or path.
pub(crate) fn list(functions: TokenStream) -> syn::Result<TokenStream> {
    let parser = Punctuated::<Path, Token![,]>::parse_terminated;
    let mut functions = parser.parse2(functions)?;
    for function in &mut functions {
        if let Some(last) = function.segments.last_mut() {
            last.ident = marker(&last.ident, "flow");
        }
    }
    let functions = functions.iter();
    Ok(quote! {
        ::std::vec![#(::mcp_flow::IntoFlows::into_flows(#functions {})),*]
    })
}

/// Options of `#[flow]`.
#[derive(Default)]
struct FlowOptions {
    name: Option<LitStr>,
    title: Option<Expr>,
    description: Option<Expr>,
    waits: Option<LitStr>,
    asks_after_start: bool,
    early_completion: bool,
    allow_unknown_arguments: bool,
    task: Option<Task>,
    ui: Option<Expr>,
    icons: Vec<Expr>,
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
            "waits" => set(&mut self.waits, meta, |meta| meta.value()?.parse()),
            "task" => set(&mut self.task, meta, Task::parse),
            "ui" => set(&mut self.ui, meta, value),
            "icon" => {
                self.icons.push(value(meta)?);
                Ok(())
            }
            "allow_unknown_arguments" => {
                self.allow_unknown_arguments = true;
                Ok(())
            }
            "asks_after_start" => {
                self.asks_after_start = true;
                Ok(())
            }
            "early_completion" => {
                self.early_completion = true;
                Ok(())
            }
            _ => Err(meta.error(
                "unknown option; `#[flow]` accepts name, title, description, waits, \
                 icon, ui, asks_after_start, early_completion, task and allow_unknown_arguments",
            )),
        }
    }
}

/// Name of the function's `Flow` parameter; none if it is a pattern.
fn hold(function: &ItemFn) -> Option<&Ident> {
    match function.sig.inputs.first() {
        Some(FnArg::Typed(first)) => match &*first.pat {
            Pat::Ident(pattern) => Some(&pattern.ident),
            _ => None,
        },
        _ => None,
    }
}

/// Generates an expression of type `OfferedFlow` that calls the function.
///
/// Parameters are arguments by name, like those of a tool. A single parameter may also be a type
/// that holds all arguments.
fn offered(name: &str, function: &mut ItemFn) -> syn::Result<TokenStream> {
    let signature = &mut function.sig;
    if signature.asyncness.is_none() {
        let message = "a flow must be an `async fn`";
        return Err(syn::Error::new_spanned(signature.fn_token, message));
    }
    if !signature.generics.params.is_empty() {
        let message = "a flow cannot be generic; it is resumed by its name alone";
        return Err(syn::Error::new_spanned(&signature.generics, message));
    }
    if !matches!(signature.inputs.first(), Some(FnArg::Typed(_))) {
        let message = "a flow must take `flow: Flow` as its first parameter";
        return Err(syn::Error::new_spanned(&signature.inputs, message));
    }
    let ident = signature.ident.clone();
    let given: Vec<_> = signature
        .inputs
        .iter_mut()
        .skip(1)
        .filter_map(|input| match input {
            FnArg::Typed(input) => Some(input),
            FnArg::Receiver(_) => None,
        })
        .collect();
    if let [only] = given.as_slice()
        && !matches!(&*only.pat, Pat::Ident(_))
        && !is_told(only)
    {
        // A pattern has no name for an argument.
        return Ok(whole(name, &ident, &only.ty));
    }
    let is_undecided = matches!(given.as_slice(), [only] if !is_told(only));
    let parameters: Vec<_> = given.into_iter().map(parameter).collect::<syn::Result<_>>()?;
    Ok(match parameters.as_slice() {
        [] => quote! {
            ::mcp_flow::OfferedFlow::new(#name, |flow, _: ::mcp_flow::__private::NoParams| #ident(flow))
        },
        [Parameter::All(kind)] => {
            let check = check_object(&parameters);
            let whole = whole(name, &ident, kind);
            quote!({ #check #whole })
        }
        [Parameter::One(only)] if is_undecided => {
            let kind = &only.kind;
            let whole = whole(name, &ident, kind);
            let apart = apart(name, &ident, &parameters)?;
            quote! {
                if ::mcp_flow::tool::is_one_value::<#kind>() { #apart } else { #whole }
            }
        }
        parameters => apart(name, &ident, parameters)?,
    })
}

/// Returns whether an attribute or doc comment decides if a parameter is one argument or all.
fn is_told(parameter: &PatType) -> bool {
    let words = ["doc", "param", "arguments"];
    let is_ours = |one: &syn::Attribute| words.iter().any(|word| one.path().is_ident(word));
    parameter.attrs.iter().any(is_ours)
}

fn parameter(parameter: &mut PatType) -> syn::Result<Parameter> {
    match Parameter::take(Kind::Tool, parameter)? {
        Parameter::Context { .. } => {
            let message = "a flow cannot take a `Context`, because it outlives the call that started \
                           it; use `Flow`";
            Err(syn::Error::new_spanned(parameter, message))
        }
        parameter => Ok(parameter),
    }
}

/// Generates a flow that takes all arguments as one value.
fn whole(name: &str, function: &Ident, kind: &Type) -> TokenStream {
    quote!(::mcp_flow::OfferedFlow::new(#name, #function).params::<#kind>())
}

/// Generates a flow that takes each argument as a parameter.
fn apart(name: &str, function: &Ident, parameters: &[Parameter]) -> syn::Result<TokenStream> {
    // Answers to questions may be given, too.
    let spelling = Spelling { allow_unknown: true, rename_all: None };
    let Arguments { definition, kind, pattern, values } =
        Arguments::new(parameters, function, true, &spelling)?;
    Ok(quote!({
        #definition
        ::mcp_flow::OfferedFlow::new(#name, |flow, #pattern: #kind| #function(flow, #(#values),*))
            .params::<#kind>()
    }))
}

/// Parses a duration such as `7d`, in seconds.
pub(crate) fn seconds(text: &LitStr) -> syn::Result<u64> {
    let written = text.value();
    let unit = written.chars().last().and_then(|unit| {
        let seconds = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400), ('w', 604_800)];
        seconds.into_iter().find(|(letter, _)| *letter == unit)
    });
    let number = unit.and_then(|(letter, _)| written.strip_suffix(letter)?.parse::<u64>().ok());
    let seconds = number.zip(unit).and_then(|(number, (_, unit))| number.checked_mul(unit));
    seconds.filter(|seconds| *seconds > 0).ok_or_else(|| {
        let message =
            "expected a whole number and a unit: \"90s\", \"30m\", \"12h\", \"7d\" or \"2w\"";
        syn::Error::new_spanned(text, message)
    })
}
