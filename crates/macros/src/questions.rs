//! The questions that are written out in a flow, as in `flow.ask("city", text("Where to?"))`.
//!
//! Their keys become optional arguments of the tool the flow is offered as. As far as the questions
//! themselves are made of constants, they are repeated where the flow is registered, so that a value
//! given for a later question can be refused at the start.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{
    Block, Expr, ExprCall, ExprLit, ExprMethodCall, Ident, Lit, LitStr, PathArguments, Token,
};

/// Questions found in the body of a flow.
#[derive(Default)]
pub(crate) struct Questions {
    asked: Vec<Asked>,
    /// Whether the flow may ask for keys that are not written out here.
    asks_others: bool,
}

/// A question that is written out.
struct Asked {
    key: LitStr,
    kind: Option<String>,
    message: Option<LitStr>,
    /// The question without what only the running flow knows.
    constant: Option<TokenStream>,
}

impl Questions {
    /// Reads the body of a function that calls its hold on the session by this name.
    pub(crate) fn read(block: &Block, flow: Option<&Ident>) -> Self {
        let body = block.to_token_stream();
        let mut questions = Self::default();
        // Names of items in the body mean nothing where the flow is registered.
        let may_name = !holds(&body, &|token| ITEMS.iter().any(|word| is_word(token, word)));
        questions.find(body.clone(), may_name);
        questions.asks_others |= flow.is_some_and(|flow| is_passed_on(body, flow));
        questions
    }

    /// Returns whether every key the flow can ask for is known.
    pub(crate) fn are_all(&self) -> bool {
        !self.asks_others
    }

    /// The calls on an `OfferedFlow` that tell of the questions.
    pub(crate) fn calls(&self) -> Vec<TokenStream> {
        let told = |asked: &Asked| {
            let Asked { key, constant, .. } = asked;
            let constant = constant.as_ref().map(ToString::to_string);
            // Of a key that is asked for in several ways, none holds in every case.
            let is_same = |other: &Asked| {
                other.key.value() != key.value()
                    || other.constant.as_ref().map(ToString::to_string) == constant
            };
            let question = asked.constant.as_ref().filter(|_| self.asked.iter().all(is_same));
            let question = question.map(|question| quote!(.question(#key, &#question)));
            let listed = asked.listed();
            quote!(#listed #question)
        };
        self.asked.iter().map(told).collect()
    }

    /// Finds `.ask("key", kind("message"…)…)` wherever it is written.
    fn find(&mut self, tokens: TokenStream, may_name: bool) {
        let mut is_ask = false;
        for token in tokens {
            if let TokenTree::Group(group) = &token {
                if is_ask && group.delimiter() == Delimiter::Parenthesis {
                    match Asked::read(group, may_name) {
                        Some(asked) => self.asked.push(asked),
                        None => self.asks_others = true,
                    }
                }
                self.find(group.stream(), may_name);
            }
            is_ask = is_word(&token, "ask");
        }
    }
}

impl Asked {
    fn read(group: &Group, may_name: bool) -> Option<Self> {
        let parser = Punctuated::<Expr, Token![,]>::parse_terminated;
        let parts = parser.parse2(group.stream()).ok()?;
        let mut parts = parts.iter();
        let key = text(parts.next()?)?.clone();
        let plain = Self { key: key.clone(), kind: None, message: None, constant: None };
        let Some((call, methods)) = parts.next().and_then(chain) else { return Some(plain) };
        let Expr::Path(path) = &*call.func else { return Some(plain) };
        let Some(last) = path.path.segments.last() else { return Some(plain) };
        let kind = last.ident.to_string();
        if !KINDS.contains(&kind.as_str()) {
            return Some(plain);
        }
        let message = call.args.first().and_then(text).cloned();
        let constant = constant(call, &last.arguments, &methods, &key, may_name);
        Some(Self { kind: Some(kind), message, constant, ..plain })
    }

    fn listed(&self) -> TokenStream {
        let Self { key, kind, message, .. } = self;
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

/// Takes `text("…").length(…).optional()` apart: the call that makes the question, and the methods
/// after it.
fn chain(question: &Expr) -> Option<(&ExprCall, Vec<&ExprMethodCall>)> {
    let mut methods = Vec::new();
    let mut rest = question;
    loop {
        match rest {
            Expr::Call(call) => {
                methods.reverse();
                return Some((call, methods));
            }
            Expr::MethodCall(method) => {
                methods.push(method);
                rest = &method.receiver;
            }
            _ => return None,
        }
    }
}

/// The question as far as it is constant: one that takes all that the real one takes, and perhaps
/// more. None where leaving something out could make it take less.
fn constant(
    call: &ExprCall,
    generics: &PathArguments,
    methods: &[&ExprMethodCall],
    key: &LitStr,
    may_name: bool,
) -> Option<TokenStream> {
    let Expr::Path(path) = &*call.func else { return None };
    let kind = &path.path.segments.last()?.ident;
    let is_constant = |one: &Expr| is_constant(one, may_name);
    // Nobody is shown the message; where it is put together the key stands in for it.
    let message = call.args.first().and_then(text).unwrap_or(key);
    let others: Vec<_> = call.args.iter().skip(1).collect();
    let is_known = match generics {
        PathArguments::None => kind != "custom",
        _ => may_name,
    };
    if !is_known || !others.iter().all(|one| is_constant(one)) {
        return None;
    }
    let is_fixed = |method: &&ExprMethodCall| method.args.iter().all(is_constant);
    let name = |method: &ExprMethodCall| method.method.to_string();
    let is_one_of = |method: &ExprMethodCall, names: &[&str]| names.contains(&&*name(method));
    let varies = |names: &[&str]| {
        methods.iter().filter(|method| is_one_of(method, names)).any(|method| !is_fixed(method))
    };
    let (bounds_vary, pattern_varies) = (varies(&BOUNDS), varies(&["pattern"]));
    let mut kept = Vec::new();
    for method in methods {
        let is_left_out = is_one_of(method, &SHOWN)
            || bounds_vary && is_one_of(method, &BOUNDS)
            || pattern_varies && is_one_of(method, &["pattern"]);
        if is_left_out {
            continue;
        }
        let is_rule = is_one_of(method, &BOUNDS) || is_one_of(method, &RULES);
        if !is_rule || !is_fixed(method) {
            return None;
        }
        let (word, arguments) = (&method.method, &method.args);
        kept.push(quote!(.#word(#arguments)));
    }
    Some(quote!(::mcp_flow::question::#kind #generics (#message #(, #others)*) #(#kept)*))
}

/// Returns whether an expression means the same outside the function.
fn is_constant(expression: &Expr, may_name: bool) -> bool {
    let is_constant = |one: &Expr| is_constant(one, may_name);
    match expression {
        Expr::Lit(_) => true,
        Expr::Unary(unary) => is_constant(&unary.expr),
        Expr::Binary(both) => is_constant(&both.left) && is_constant(&both.right),
        Expr::Reference(reference) => {
            reference.mutability.is_none() && is_constant(&reference.expr)
        }
        Expr::Paren(inner) => is_constant(&inner.expr),
        Expr::Group(inner) => is_constant(&inner.expr),
        Expr::Array(array) => array.elems.iter().all(is_constant),
        Expr::Tuple(tuple) => tuple.elems.iter().all(is_constant),
        Expr::Range(range) => range.start.iter().chain(&range.end).all(|end| is_constant(end)),
        Expr::Path(path) => {
            let last = path.path.segments.last().map(|last| last.ident.to_string());
            // Constants are written in capitals, and variables are not.
            may_name && last.is_some_and(|name| !name.chars().any(char::is_lowercase))
        }
        _ => false,
    }
}

/// Returns whether a flow hands its hold on the session to something else, which may ask, too.
fn is_passed_on(tokens: TokenStream, flow: &Ident) -> bool {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match &token {
            TokenTree::Group(group) if is_passed_on(group.stream(), flow) => return true,
            TokenTree::Ident(ident) if ident == flow => {
                let dot = tokens
                    .next_if(|next| matches!(next, TokenTree::Punct(dot) if dot.as_char() == '.'));
                let method = dot.and_then(|_| tokens.next());
                let is_ask = method.as_ref().is_some_and(|word| is_word(word, "ask"));
                let leads_on = |word| is_word(word, "call") || is_word(word, "clone");
                // An `ask` that is called in any other way than usual was not read.
                let is_unread = is_ask && !matches!(tokens.peek(), Some(TokenTree::Group(_)));
                if method.as_ref().is_none_or(leads_on) || is_unread {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// Returns whether such a token is anywhere in these.
fn holds(tokens: &TokenStream, is_meant: &dyn Fn(&TokenTree) -> bool) -> bool {
    tokens.clone().into_iter().any(|token| match &token {
        TokenTree::Group(group) => holds(&group.stream(), is_meant),
        other => is_meant(other),
    })
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

fn text(expression: &Expr) -> Option<&LitStr> {
    match expression {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text),
        _ => None,
    }
}

/// The functions that make questions.
const KINDS: [&str; 8] =
    ["text", "choice", "confirm", "number", "integer", "date", "file", "custom"];

/// The methods of questions that say between what an answer must lie.
const BOUNDS: [&str; 6] = ["after", "before", "from", "until", "range", "length"];

/// The methods that set other rules.
const RULES: [&str; 5] = ["pattern", "max_size", "mime_type", "uri_scheme", "optional"];

/// The methods that change nothing about which answers are taken, but for none at all.
const SHOWN: [&str; 3] = ["placeholder", "default", "ui"];

/// Keywords that items begin with.
const ITEMS: [&str; 9] =
    ["const", "enum", "fn", "macro_rules", "mod", "static", "struct", "type", "use"];
