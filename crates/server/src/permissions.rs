//! Who may use what: rules that can be exchanged while a server runs.
//!
//! What a principal may do is worked out once for each set of rules and kept with the principal, so
//! that a request costs one look at a number and a few comparisons. What one may not use does not
//! exist for them: it is not listed, and asked for by name it is as unknown as what never was.

mod names;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

pub use names::Names;

use crate::identity::Principal;

/// What can be used by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Something to be called.
    Tool,
    /// Something to be read, by its URI, or a template of such.
    Resource,
    /// Something to be filled in.
    Prompt,
    /// A conversation, whether it is called as a tool or started.
    Flow,
}

/// Whom something is given to, and what. What several rules give adds up.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// To principals of these names.
    pub principals: Names,
    /// To everyone whose credential has one of these scopes.
    pub scopes: Vec<String>,
    /// Tools by name.
    pub tools: Names,
    /// Resources and templates by URI.
    pub resources: Names,
    /// Prompts by name.
    pub prompts: Names,
    /// Flows by name.
    pub flows: Names,
    /// Whether what belongs to others may be seen, for looking after the server.
    pub admin: bool,
    /// Whether the figures of the server may be seen, which admins always may.
    pub metrics: bool,
}

impl Rule {
    fn is_for(&self, principal: &Principal) -> bool {
        self.principals.have(principal.name())
            || self.scopes.iter().any(|scope| principal.has_scope(scope))
    }

    fn names(&self, kind: Kind) -> &Names {
        match kind {
            Kind::Tool => &self.tools,
            Kind::Resource => &self.resources,
            Kind::Prompt => &self.prompts,
            Kind::Flow => &self.flows,
        }
    }
}

/// The rules of a server. A handle; clones are the same.
///
/// ```
/// use mcp_flow_server::permissions::{Kind, Names, Permissions, Rule};
/// use mcp_flow_server::Principal;
///
/// let rule = Rule {
///     principals: Names::new(["ada"]),
///     tools: Names::new(["calculator.*", "!calculator.divide"]),
///     ..Rule::default()
/// };
/// let permissions = Permissions::new(vec![rule]);
/// let granted = permissions.of(&Principal::named("ada"));
/// assert!(granted.may(Kind::Tool, "calculator.add"));
/// assert!(!granted.may(Kind::Tool, "calculator.divide"));
/// assert!(!permissions.of(&Principal::named("bob")).may(Kind::Tool, "calculator.add"));
/// ```
#[derive(Clone, Debug)]
pub struct Permissions {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    rules: RwLock<Rules>,
    /// The number of the rules that count; no two sets of rules in a process have the same.
    number: AtomicU64,
}

#[derive(Clone, Debug)]
struct Rules {
    number: u64,
    all: Arc<[Rule]>,
}

impl Permissions {
    /// Only what these rules give may be used.
    pub fn new(rules: Vec<Rule>) -> Self {
        let rules = Rules { number: next_number(), all: rules.into() };
        let number = AtomicU64::new(rules.number);
        Self { inner: Arc::new(Inner { rules: RwLock::new(rules), number }) }
    }

    /// Everyone may use everything, until rules say otherwise.
    pub fn everything() -> Self {
        Self::new(vec![Rule {
            principals: Names::all(),
            tools: Names::all(),
            resources: Names::all(),
            prompts: Names::all(),
            flows: Names::all(),
            metrics: true,
            ..Rule::default()
        }])
    }

    /// Puts the rules of another in the place of these.
    pub fn replace(&self, other: &Self) {
        let rules = other.rules();
        let mut own = self.inner.rules.write().unwrap_or_else(PoisonError::into_inner);
        self.inner.number.store(rules.number, Ordering::Release);
        *own = rules;
    }

    /// What a principal may do at the moment.
    pub fn of(&self, principal: &Principal) -> Granted {
        let number = self.inner.number.load(Ordering::Acquire);
        principal.granted(number, Granted::clone).unwrap_or_else(|| self.work_out(principal))
    }

    /// Whether a principal may use something at the moment.
    pub fn may(&self, principal: &Principal, kind: Kind, name: &str) -> bool {
        let number = self.inner.number.load(Ordering::Acquire);
        let known = principal.granted(number, |granted| granted.may(kind, name));
        known.unwrap_or_else(|| self.work_out(principal).may(kind, name))
    }

    fn work_out(&self, principal: &Principal) -> Granted {
        let granted = Granted::new(self.rules(), principal);
        principal.note_granted(granted.clone());
        granted
    }

    fn rules(&self) -> Rules {
        self.inner.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What one principal may do.
#[derive(Clone, Debug)]
pub struct Granted(Arc<Worked>);

/// Worked out once for a principal and a set of rules.
#[derive(Debug)]
struct Worked {
    number: u64,
    rules: Vec<Rule>,
    admin: bool,
    metrics: bool,
}

impl Granted {
    fn new(rules: Rules, principal: &Principal) -> Self {
        let own: Vec<_> = rules.all.iter().filter(|rule| rule.is_for(principal)).cloned().collect();
        let admin = own.iter().any(|rule| rule.admin);
        let metrics = admin || own.iter().any(|rule| rule.metrics);
        Self(Arc::new(Worked { number: rules.number, rules: own, admin, metrics }))
    }

    /// Whether something may be used.
    pub fn may(&self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Resource => self.may_read(name),
            kind => self.0.rules.iter().any(|rule| rule.names(kind).have(name)),
        }
    }

    /// A character may be written in several ways in a URI, which all mean it.
    fn may_read(&self, uri: &str) -> bool {
        let plain = names::without_escapes(uri);
        self.0.rules.iter().any(|rule| rule.resources.have(&plain))
    }

    /// Whether anything of a kind may be used, whatever its name.
    pub fn may_any(&self, kind: Kind) -> bool {
        self.0.rules.iter().any(|rule| !rule.names(kind).are_none())
    }

    /// Whether everything of a kind may be used.
    pub fn may_all(&self, kind: Kind) -> bool {
        self.0.rules.iter().any(|rule| rule.names(kind).are_all())
    }

    /// Whether what belongs to others may be seen.
    pub fn admin(&self) -> bool {
        self.0.admin
    }

    /// Whether the figures of the server may be seen.
    pub fn metrics(&self) -> bool {
        self.0.metrics
    }

    pub(crate) fn number(&self) -> u64 {
        self.0.number
    }
}

fn next_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::{Kind, Names, Permissions, Rule};
    use crate::identity::Principal;

    fn names(patterns: &[&str]) -> Names {
        Names::new(patterns.iter().copied())
    }

    /// MCP-091, PAT-020: what rules give adds up, by name and by scope, and nothing else is given.
    #[test]
    fn rules_add_up() {
        let permissions = Permissions::new(vec![
            Rule { principals: names(&["*"]), tools: names(&["echo"]), ..Rule::default() },
            Rule {
                principals: names(&["corp:*", "!corp:guest"]),
                tools: names(&["calculator.*"]),
                flows: names(&["*", "!ledger"]),
                ..Rule::default()
            },
            Rule {
                scopes: vec!["files".into()],
                resources: names(&["file:///srv/*", "!file:///srv/secret/*"]),
                admin: true,
                ..Rule::default()
            },
        ]);
        let of = |name: &str, scopes: &[&str]| {
            permissions.of(&Principal::named(name).scoped(scopes.iter()))
        };
        for (name, scopes, kind, target, may) in [
            ("ada", &[][..], Kind::Tool, "echo", true),
            ("ada", &[], Kind::Tool, "calculator.add", false),
            ("ada", &[], Kind::Flow, "echo", false),
            ("corp:ada", &[], Kind::Tool, "calculator.add", true),
            ("corp:ada", &[], Kind::Tool, "echo", true),
            ("corp:guest", &[], Kind::Tool, "calculator.add", false),
            ("corp:ada", &[], Kind::Flow, "register", true),
            ("corp:ada", &[], Kind::Flow, "ledger", false),
            ("ada", &["files"], Kind::Resource, "file:///srv/a.txt", true),
            ("ada", &["file"], Kind::Resource, "file:///srv/a.txt", false),
            ("ada", &["files"], Kind::Resource, "file:///srv/secret/a", false),
            ("ada", &["files"], Kind::Resource, "file:///srv/s%65cret/a", false),
            ("ada", &["files"], Kind::Resource, "file:///srv%2Fsecret%2fa", false),
            ("ada", &["files"], Kind::Prompt, "any", false),
        ] {
            let granted = of(name, scopes);
            assert_eq!(granted.may(kind, target), may, "{name} {scopes:?} {target}");
            assert_eq!(granted.admin(), scopes == ["files"], "{name} {scopes:?}");
            assert_eq!(granted.metrics(), granted.admin(), "{name} {scopes:?}");
        }
    }

    /// MCP-091: other rules count at once, for those who are there already, too.
    #[test]
    fn rules_can_be_exchanged() {
        let permissions = Permissions::everything();
        let ada = Principal::named("ada");
        assert!(permissions.of(&ada).may(Kind::Tool, "echo"));
        assert!(!permissions.of(&ada).admin());
        permissions.replace(&Permissions::new(Vec::new()));
        assert!(!permissions.of(&ada).may(Kind::Tool, "echo"));
        assert!(!permissions.of(&ada).may_any(Kind::Tool));
    }
}
