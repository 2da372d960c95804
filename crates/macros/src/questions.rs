//! Questions in the body of a flow, as in `flow.ask("city", text("Where to?"))`.
//!
//! Their keys become optional arguments of the tool. The constant parts of a question are repeated
//! where the flow is registered, so that an invalid value for it is rejected at the start.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{
    Block, Expr, ExprCall, ExprLit, ExprMethodCall, Ident, Item, ItemUse, Lit, LitStr, Stmt, Token,
};

/// Questions found in the body of a flow.
#[derive(Default)]
pub(crate) struct Questions {
    asked: Vec<Asked>,
    /// True if the flow may ask for keys that are not found here.
    asks_others: bool,
    /// The `use` declarations of the body, which its names are resolved with.
    imports: Vec<ItemUse>,
}

/// A call of `ask` with a literal key.
struct Asked {
    key: LitStr,
    message: Option<LitStr>,
    constructor: Option<Constructor>,
}

/// A call that looks like one of the library's constructors.
///
/// A macro cannot resolve names, and an author may have a function `text` of their own. So nothing
/// is concluded from the name: where the flow is registered, the compiler compares the type that
/// the call returns with the type of the library's question.
struct Constructor {
    kind: &'static Kind,
    /// The call, for its type alone.
    call: TokenStream,
    /// The question without the parts that only the running flow knows.
    constant: Option<TokenStream>,
}

impl Questions {
    /// Reads the body of a function whose first parameter, its `Flow`, has this name.
    pub(crate) fn read(block: &Block, flow: Option<&Ident>) -> Self {
        let is_import = |statement: &&Stmt| matches!(statement, Stmt::Item(Item::Use(_)));
        let imports = block.stmts.iter().filter_map(|statement| match statement {
            Stmt::Item(Item::Use(import)) => Some(import.clone()),
            _ => None,
        });
        let mut questions = Self { imports: imports.collect(), ..Self::default() };
        let mut body = TokenStream::new();
        body.extend(block.stmts.iter().filter(|one| !is_import(one)).map(Stmt::to_token_stream));
        // Names of other items in the body mean nothing where the flow is registered.
        let may_name = !holds(&body, &|token| ITEMS.iter().any(|word| is_word(token, word)));
        questions.find(body.clone(), &Scope { body: &body, may_name });
        questions.asks_others |= flow.is_some_and(|flow| is_passed_on(body, flow));
        questions
    }

    /// Returns whether every key the flow can ask for is known.
    pub(crate) fn are_all(&self) -> bool {
        !self.asks_others
    }

    /// Statements that declare the questions on `offered`, an `OfferedFlow`.
    pub(crate) fn declarations(&self) -> TokenStream {
        let imports = &self.imports;
        let declared = self.asked.iter().map(|asked| self.declare(asked));
        quote! {
            let offered = {
                #(#[allow(unused_imports)] #imports)*
                #(#declared)*
                offered
            };
        }
    }

    fn declare(&self, asked: &Asked) -> TokenStream {
        let Asked { key, message, constructor } = asked;
        let description: Vec<_> = message.iter().collect();
        let schema = constructor.as_ref().map(|constructor| constructor.kind.schema());
        let schema =
            quote!(::mcp_flow::__private::json!({#schema #("description": #description)*}));
        let Some(Constructor { kind, call, constant }) = constructor else {
            return quote!(let offered = offered.key(#key, #schema););
        };
        let question = kind.question();
        // If a key is asked for in several ways, none of them applies in every case.
        let written = |asked: &Asked| {
            let constant = asked.constructor.as_ref().and_then(|one| one.constant.as_ref());
            constant.map(ToString::to_string)
        };
        let is_same =
            |other: &Asked| other.key.value() != key.value() || written(other) == written(asked);
        let constant = constant.iter().filter(|_| self.asked.iter().all(is_same));
        quote! {
            let offered = if ::mcp_flow::__private::returns::<#question, _>(|| #call) {
                offered.key(#key, #schema) #(.question(#key, &#constant))*
            } else {
                offered.key(#key, ::mcp_flow::__private::json!({}))
            };
        }
    }

    /// Finds `.ask("key", kind("message"…)…)` wherever it is written.
    fn find(&mut self, tokens: TokenStream, scope: &Scope<'_>) {
        let mut is_ask = false;
        for token in tokens {
            if let TokenTree::Group(group) = &token {
                if is_ask && group.delimiter() == Delimiter::Parenthesis {
                    match Asked::read(group, scope) {
                        Some(asked) => self.asked.push(asked),
                        None => self.asks_others = true,
                    }
                }
                self.find(group.stream(), scope);
            }
            is_ask = is_word(&token, "ask");
        }
    }
}

/// The body that an expression is taken from.
struct Scope<'a> {
    body: &'a TokenStream,
    /// True if its names mean the same outside.
    may_name: bool,
}

impl Asked {
    fn read(group: &Group, scope: &Scope<'_>) -> Option<Self> {
        let parser = Punctuated::<Expr, Token![,]>::parse_terminated;
        let parts = parser.parse2(group.stream()).ok()?;
        let mut parts = parts.iter();
        let key = text(parts.next()?)?.clone();
        let Some((call, methods)) = parts.next().and_then(chain) else {
            return Some(Self { key, message: None, constructor: None });
        };
        let message = Kind::of(call).and_then(|_| call.args.first().and_then(text).cloned());
        let constructor = Constructor::read(call, &methods, &key, scope);
        Some(Self { key, message, constructor })
    }
}

impl Constructor {
    fn read(
        call: &ExprCall,
        methods: &[&ExprMethodCall],
        key: &LitStr,
        scope: &Scope<'_>,
    ) -> Option<Self> {
        let Expr::Path(function) = &*call.func else { return None };
        let last = function.path.segments.last()?;
        let kind = Kind::of(call)?;
        let is_local = function.path.get_ident().is_some_and(|name| is_bound(scope.body, name));
        let is_inferred = kind.name == "custom" && last.arguments.is_none();
        if !scope.may_name || is_local || is_inferred || call.args.len() != kind.arguments {
            return None;
        }
        let mut arguments = call.args.iter();
        // The message is not shown; the key stands in for one that is put together.
        let message = match arguments.next()? {
            Expr::Macro(message) if message.mac.path.is_ident("format") => {
                quote!(::std::string::String::from(#key))
            }
            message => text(message)?.to_token_stream(),
        };
        let others: Vec<_> = arguments.collect();
        if !others.iter().all(|one| is_constant(one, scope.may_name)) {
            return None;
        }
        let call = quote!(#function(#message #(, #others)*));
        let constant = constant(methods, scope.may_name).map(|kept| quote!(#call #(#kept)*));
        Some(Self { kind, call, constant })
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

/// The methods of a question that are constant. With them it accepts everything that the real one
/// accepts, and perhaps more. None where leaving one out could make it accept less.
fn constant(methods: &[&ExprMethodCall], may_name: bool) -> Option<Vec<TokenStream>> {
    let is_constant = |one: &Expr| is_constant(one, may_name);
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
    Some(kept)
}

/// Returns whether an expression has the same value outside the function.
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
            // Constants are upper case, variables are not.
            may_name && last.is_some_and(|name| !name.chars().any(char::is_lowercase))
        }
        _ => false,
    }
}

/// Returns whether a `let` or a closure of the body may give this name to a function. One whose
/// initializer calls the name itself, as in `let date = flow.ask("day", date("When?"))`, does not.
fn is_bound(tokens: &TokenStream, name: &Ident) -> bool {
    let is_name = |token: &TokenTree| matches!(token, TokenTree::Ident(ident) if ident == name);
    let tokens: Vec<_> = tokens.clone().into_iter().collect();
    let is_punct = |token: &TokenTree, mark: char| matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark);
    for (place, token) in tokens.iter().enumerate() {
        let rest = &tokens[place + 1..];
        let (pattern, initializer) = if is_word(token, "let") {
            let end = rest.iter().position(|one| is_punct(one, ';')).unwrap_or(rest.len());
            let equals = rest.iter().position(|one| is_punct(one, '=')).unwrap_or(end).min(end);
            rest[..end].split_at(equals)
        } else if is_punct(token, '|') {
            let end = rest.iter().position(|one| is_punct(one, '|')).unwrap_or_default();
            (&rest[..end], [].as_slice())
        } else if let TokenTree::Group(group) = token {
            if is_bound(&group.stream(), name) {
                return true;
            }
            continue;
        } else {
            continue;
        };
        let stream = |tokens: &[TokenTree]| tokens.iter().cloned().collect::<TokenStream>();
        if holds(&stream(pattern), &is_name) && !calls(&stream(initializer), name) {
            return true;
        }
    }
    false
}

/// Returns whether a function of this name is called anywhere in these tokens.
fn calls(tokens: &TokenStream, name: &Ident) -> bool {
    let mut is_named = false;
    tokens.clone().into_iter().any(|token| {
        let is_call = match &token {
            TokenTree::Group(group) => is_named || calls(&group.stream(), name),
            _ => false,
        };
        is_named = matches!(&token, TokenTree::Ident(ident) if ident == name);
        is_call
    })
}

/// Returns whether the `Flow` is passed to other code, which may ask, too.
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
                // An `ask` that is not called directly was not parsed.
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

/// Returns whether any token matches, at any depth.
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

/// A constructor of the library's questions.
struct Kind {
    name: &'static str,
    arguments: usize,
}

impl Kind {
    /// The constructor that a call has the name of.
    fn of(call: &ExprCall) -> Option<&'static Self> {
        let Expr::Path(function) = &*call.func else { return None };
        let last = function.path.segments.last()?;
        KINDS.iter().find(|kind| last.ident == kind.name)
    }

    /// The type that it returns; any parameter stands for all.
    fn question(&self) -> TokenStream {
        match self.name {
            "text" => quote!(::mcp_flow::question::Text),
            "choice" => quote!(::mcp_flow::question::Chosen<()>),
            "confirm" => quote!(::mcp_flow::question::Confirm),
            "number" => quote!(::mcp_flow::question::Number),
            "integer" => quote!(::mcp_flow::question::Integer),
            "date" => quote!(::mcp_flow::question::Day),
            "file" => quote!(::mcp_flow::question::File),
            _ => quote!(::mcp_flow::question::Custom<()>),
        }
    }

    /// The members of a JSON Schema for its answers.
    fn schema(&self) -> TokenStream {
        match self.name {
            "text" => quote!("type": "string",),
            "confirm" => quote!("type": "boolean",),
            "number" => quote!("type": "number",),
            "integer" => quote!("type": "integer",),
            "date" => quote!("type": "string", "format": "date",),
            _ => quote!(),
        }
    }
}

const KINDS: [Kind; 8] = [
    Kind { name: "text", arguments: 1 },
    Kind { name: "choice", arguments: 2 },
    Kind { name: "confirm", arguments: 1 },
    Kind { name: "number", arguments: 1 },
    Kind { name: "integer", arguments: 1 },
    Kind { name: "date", arguments: 1 },
    Kind { name: "file", arguments: 1 },
    Kind { name: "custom", arguments: 1 },
];

/// Question methods that bound the answer.
const BOUNDS: [&str; 6] = ["after", "before", "from", "until", "range", "length"];

/// Question methods that set other validation rules.
const RULES: [&str; 5] = ["pattern", "max_size", "mime_type", "uri_scheme", "optional"];

/// Question methods that do not change which values are valid, except for an empty answer.
const SHOWN: [&str; 3] = ["placeholder", "default", "ui"];

/// Keywords that start an item.
const ITEMS: [&str; 9] =
    ["const", "enum", "fn", "macro_rules", "mod", "static", "struct", "type", "use"];
