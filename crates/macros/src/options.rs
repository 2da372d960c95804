//! Options of the attributes, in their parentheses.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::{Expr, Ident, LitBool, LitStr, Token};

use crate::kind::Kind;
use crate::signature::Function;

/// Options that tools, prompts and resources have in common.
#[derive(Default)]
pub(crate) struct CommonOptions {
    pub(crate) name: Option<LitStr>,
    pub(crate) quick: Option<Span>,
    title: Option<Expr>,
    description: Option<Expr>,
    icons: Vec<Expr>,
    meta: Vec<(TokenStream, Expr)>,
}

impl CommonOptions {
    /// Parses an attribute that has only the common options.
    pub(crate) fn parse(kind: Kind, options: TokenStream) -> syn::Result<Self> {
        let mut parsed = Self::default();
        let parser = syn::meta::parser(|meta| {
            let noun = kind.noun();
            let unknown = || {
                format!(
                    "unknown option; `#[{noun}]` accepts name, title, description, icon, quick and \
                     meta"
                )
            };
            if parsed.read(&meta)? { Ok(()) } else { Err(meta.error(unknown())) }
        });
        parser.parse2(options)?;
        Ok(parsed)
    }

    /// Parses an option; false if it is not a common one.
    pub(crate) fn read(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<bool> {
        match word(meta).as_str() {
            "name" => set(&mut self.name, meta, |meta| meta.value()?.parse())?,
            "title" => set(&mut self.title, meta, value)?,
            "description" => set(&mut self.description, meta, value)?,
            "icon" => self.icons.push(value(meta)?),
            "quick" => self.quick = Some(span(meta)),
            "meta" => meta.parse_nested_meta(|entry| {
                let name = entry.path.require_ident()?.to_string();
                self.meta.push((name.into_token_stream(), value(&entry)?));
                Ok(())
            })?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns whether there is a description: the option or the function's doc comment.
    pub(crate) fn describe(&self, function: &Function) -> bool {
        self.description.is_some() || function.documentation.is_some()
    }

    /// Builder calls for the common options. The description defaults to the function's doc
    /// comment.
    pub(crate) fn builder_calls(&self, function: &Function) -> TokenStream {
        let Self { title, description, icons, meta, .. } = self;
        let description = match (description, &function.documentation) {
            (Some(description), _) => Some(quote!(.description(#description))),
            (None, Some(text)) => Some(quote!(.description(#text))),
            (None, None) => None,
        };
        let title = title.iter();
        let names = meta.iter().map(|(name, _)| name);
        let values = meta.iter().map(|(_, value)| value);
        quote! {
            #description
            #(.title(#title))*
            #(.icon(#icons))*
            #(.meta(#names, ::mcp_flow::__private::json!(#values)))*
        }
    }
}

/// Options of `#[tool]`.
#[derive(Default)]
pub(crate) struct ToolOptions {
    pub(crate) common: CommonOptions,
    pub(crate) allow_unknown_arguments: bool,
    pub(crate) rename_all: Option<LitStr>,
    pub(crate) task: Option<Task>,
    ui: Option<Expr>,
    visibility: Option<Visibility>,
    categories: Vec<Expr>,
    hints: Vec<(Ident, bool)>,
}

impl ToolOptions {
    pub(crate) fn parse(options: TokenStream) -> syn::Result<Self> {
        let mut parsed = Self::default();
        let parser = syn::meta::parser(|meta| parsed.read(&meta));
        parser.parse2(options)?;
        Ok(parsed)
    }

    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        if self.common.read(meta)? {
            return Ok(());
        }
        let word = word(meta);
        match word.as_str() {
            "rename_all" => set(&mut self.rename_all, meta, |meta| meta.value()?.parse()),
            "task" => set(&mut self.task, meta, Task::parse),
            "ui" => set(&mut self.ui, meta, value),
            "visibility" => set(&mut self.visibility, meta, Visibility::parse),
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
            _ => Err(meta.error(
                "unknown option; `#[tool]` accepts name, title, description, icon, quick, category, \
                 read_only, destructive, idempotent, open_world, rename_all, task, ui, visibility, \
                 allow_unknown_arguments and meta",
            )),
        }
    }

    /// Builder calls for the options that only tools have.
    pub(crate) fn builder_calls(&self) -> TokenStream {
        let Self { categories, hints, ui, visibility, .. } = self;
        let (ui, visibility) = (ui.iter(), visibility.iter().map(|one| &one.callers));
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
            #(.category(#categories))*
            #(.ui(#ui))*
            #(.visible_to([#visibility]))*
            #hints
        }
    }
}

/// Value of the option `visibility`.
struct Visibility {
    /// The callers, as a list of variants.
    callers: TokenStream,
}

impl Visibility {
    fn parse(meta: &ParseNestedMeta<'_>) -> syn::Result<Self> {
        let written: LitStr = meta.value()?.parse()?;
        let callers = match written.value().as_str() {
            "app" => quote!(::mcp_flow::model::Visibility::App),
            "model" => quote!(::mcp_flow::model::Visibility::Model),
            _ => {
                let message = "expected \"app\" or \"model\"; without the option it is for both";
                return Err(syn::Error::new_spanned(written, message));
            }
        };
        Ok(Self { callers })
    }
}

/// Value of the option `task`.
pub(crate) struct Task {
    pub(crate) span: Span,
    /// Name of the variant of `TaskMode`.
    mode: &'static str,
}

impl Task {
    pub(crate) fn parse(meta: &ParseNestedMeta<'_>) -> syn::Result<Self> {
        let written: LitStr = meta.value()?.parse()?;
        let mode = match written.value().as_str() {
            "never" => "Never",
            "auto" => "Auto",
            "always" => "Always",
            "required" => "Required",
            _ => {
                let message = "expected \"never\", \"auto\", \"always\" or \"required\"";
                return Err(syn::Error::new_spanned(written, message));
            }
        };
        Ok(Self { span: span(meta), mode })
    }

    /// Returns whether calls can become tasks.
    pub(crate) fn is_possible(&self) -> bool {
        self.mode != "Never"
    }

    /// Builder call of a flow.
    pub(crate) fn builder_call(&self) -> TokenStream {
        let mode = Ident::new(self.mode, self.span);
        quote!(.task(::mcp_flow::TaskMode::#mode))
    }
}

/// Name of the option.
pub(crate) fn word(meta: &ParseNestedMeta<'_>) -> String {
    meta.path.get_ident().map(ToString::to_string).unwrap_or_default()
}

/// Sets an option; an error if it is set already.
pub(crate) fn set<T>(
    option: &mut Option<T>,
    meta: &ParseNestedMeta<'_>,
    parse: impl FnOnce(&ParseNestedMeta<'_>) -> syn::Result<T>,
) -> syn::Result<()> {
    if option.is_some() {
        return Err(meta.error("duplicate option"));
    }
    *option = Some(parse(meta)?);
    Ok(())
}

/// Parses the expression after the equals sign.
pub(crate) fn value(meta: &ParseNestedMeta<'_>) -> syn::Result<Expr> {
    meta.value()?.parse()
}

/// Parses `option`, `option = true` or `option = false`.
fn flag(meta: &ParseNestedMeta<'_>) -> syn::Result<bool> {
    if !meta.input.peek(Token![=]) {
        return Ok(true);
    }
    Ok(meta.value()?.parse::<LitBool>()?.value)
}

fn span(meta: &ParseNestedMeta<'_>) -> Span {
    syn::spanned::Spanned::span(&meta.path)
}
