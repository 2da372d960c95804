//! Access rules: which principals may use which tools, resources, prompts and flows.
//!
//! Rules can be replaced while a server runs. The permissions of a principal are evaluated once per
//! set of rules and cached with the principal, so that a request costs one comparison of numbers
//! and a few of names. What a principal may not use is hidden: it is not listed, and calling it by
//! name is answered as if it did not exist.

mod names;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use names::Names;
use parking_lot::RwLock;

use crate::Principal;

/// The kinds of things that can be used by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PermissionKind {
    /// A tool.
    Tool,
    /// A resource or resource template, by URI.
    Resource,
    /// A prompt.
    Prompt,
    /// A flow, whether called as a tool or started as a session.
    Flow,
}

/// A grant to some principals. Grants of several rules add up.
#[derive(Clone, Debug, Default)]
pub struct AccessRule {
    /// Applies to principals with these names.
    pub principals: Names,
    /// Applies to principals whose credential has one of these scopes.
    pub scopes: Vec<String>,
    /// Tools by name.
    pub tools: Names,
    /// Resources and templates by URI.
    pub resources: Names,
    /// Prompts by name.
    pub prompts: Names,
    /// Flows by name.
    pub flows: Names,
    /// Grants access to the sessions of others, for administration.
    pub admin: bool,
    /// Grants access to metrics. Administrators always have it.
    pub metrics: bool,
}

impl AccessRule {
    fn is_for(&self, principal: &Principal) -> bool {
        self.principals.contains(principal.name())
            || self.scopes.iter().any(|scope| principal.has_scope(scope))
    }

    fn names(&self, kind: PermissionKind) -> &Names {
        match kind {
            PermissionKind::Tool => &self.tools,
            PermissionKind::Resource => &self.resources,
            PermissionKind::Prompt => &self.prompts,
            PermissionKind::Flow => &self.flows,
        }
    }
}

/// The access rules of a server. A handle; clones share the rules.
///
/// ```
/// use mcp_flow_principal::permissions::{PermissionKind, Names, Permissions, AccessRule};
/// use mcp_flow_principal::Principal;
///
/// let rule = AccessRule {
///     principals: Names::new(["ada"]),
///     tools: Names::new(["calculator.*", "!calculator.divide"]),
///     ..AccessRule::default()
/// };
/// let permissions = Permissions::new(vec![rule]);
/// let granted = permissions.of(&Principal::named("ada"));
/// assert!(granted.may(PermissionKind::Tool, "calculator.add"));
/// assert!(!granted.may(PermissionKind::Tool, "calculator.divide"));
/// assert!(!permissions.of(&Principal::named("bob")).may(PermissionKind::Tool, "calculator.add"));
/// ```
#[derive(Clone, Debug)]
pub struct Permissions {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    rules: RwLock<Rules>,
    /// The number of the current rules, unique in the process.
    number: AtomicU64,
}

#[derive(Clone, Debug)]
struct Rules {
    number: u64,
    all: Arc<[AccessRule]>,
}

impl Permissions {
    /// Allows only what these rules grant.
    pub fn new(rules: Vec<AccessRule>) -> Self {
        let rules = Rules { number: next_number(), all: rules.into() };
        let number = AtomicU64::new(rules.number);
        Self { inner: Arc::new(Inner { rules: RwLock::new(rules), number }) }
    }

    /// Allows everything to everyone, except administration.
    pub fn everything() -> Self {
        Self::new(vec![AccessRule {
            principals: Names::all(),
            tools: Names::all(),
            resources: Names::all(),
            prompts: Names::all(),
            flows: Names::all(),
            metrics: true,
            ..AccessRule::default()
        }])
    }

    /// Replaces these rules by those of another handle.
    pub fn replace(&self, other: &Self) {
        let rules = other.rules();
        let mut own = self.inner.rules.write();
        self.inner.number.store(rules.number, Ordering::Release);
        *own = rules;
    }

    /// The permissions of a principal now.
    pub fn of(&self, principal: &Principal) -> Grants {
        let number = self.inner.number.load(Ordering::Acquire);
        principal.cached_grants(number, Grants::clone).unwrap_or_else(|| self.evaluate(principal))
    }

    /// Returns whether a principal may use something now.
    pub fn may(&self, principal: &Principal, kind: PermissionKind, name: &str) -> bool {
        let number = self.inner.number.load(Ordering::Acquire);
        let known = principal.cached_grants(number, |granted| granted.may(kind, name));
        known.unwrap_or_else(|| self.evaluate(principal).may(kind, name))
    }

    fn evaluate(&self, principal: &Principal) -> Grants {
        let granted = Grants::new(self.rules(), principal);
        principal.cache_grants(granted.clone());
        granted
    }

    fn rules(&self) -> Rules {
        self.inner.rules.read().clone()
    }
}

/// The permissions of one principal.
#[derive(Clone, Debug)]
pub struct Grants(Arc<Evaluated>);

/// Evaluated once for a principal and a set of rules.
#[derive(Debug)]
struct Evaluated {
    number: u64,
    rules: Vec<AccessRule>,
    admin: bool,
    metrics: bool,
}

impl Grants {
    fn new(rules: Rules, principal: &Principal) -> Self {
        let own: Vec<_> = rules.all.iter().filter(|rule| rule.is_for(principal)).cloned().collect();
        let admin = own.iter().any(|rule| rule.admin);
        let metrics = admin || own.iter().any(|rule| rule.metrics);
        Self(Arc::new(Evaluated { number: rules.number, rules: own, admin, metrics }))
    }

    /// Returns whether something may be used.
    pub fn may(&self, kind: PermissionKind, name: &str) -> bool {
        match kind {
            PermissionKind::Resource => self.may_read(name),
            kind => self.0.rules.iter().any(|rule| rule.names(kind).contains(name)),
        }
    }

    /// Compares unescaped: a URI has several spellings with the same meaning.
    fn may_read(&self, uri: &str) -> bool {
        let plain = names::without_escapes(uri);
        self.0.rules.iter().any(|rule| rule.resources.contains(&plain))
    }

    /// Returns whether anything of a kind may be used.
    pub fn may_any(&self, kind: PermissionKind) -> bool {
        self.0.rules.iter().any(|rule| !rule.names(kind).is_empty())
    }

    /// Returns whether everything of a kind may be used.
    pub fn may_all(&self, kind: PermissionKind) -> bool {
        self.0.rules.iter().any(|rule| rule.names(kind).include_all())
    }

    /// Returns whether the sessions of others may be accessed.
    pub fn admin(&self) -> bool {
        self.0.admin
    }

    /// Returns whether metrics may be read.
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
    use super::{AccessRule, Names, PermissionKind, Permissions};
    use crate::Principal;

    fn names(patterns: &[&str]) -> Names {
        Names::new(patterns.iter().copied())
    }

    /// MCP-091, PAT-020: grants add up, by name and by scope, and nothing else is allowed.
    #[test]
    fn grants_of_several_rules_add_up() {
        let permissions = Permissions::new(vec![
            AccessRule {
                principals: names(&["*"]),
                tools: names(&["echo"]),
                ..AccessRule::default()
            },
            AccessRule {
                principals: names(&["corp:*", "!corp:guest"]),
                tools: names(&["calculator.*"]),
                flows: names(&["*", "!ledger"]),
                ..AccessRule::default()
            },
            AccessRule {
                scopes: vec!["files".into()],
                resources: names(&["file:///srv/*", "!file:///srv/secret/*"]),
                admin: true,
                ..AccessRule::default()
            },
        ]);
        let of = |name: &str, scopes: &[&str]| {
            permissions.of(&Principal::named(name).scoped(scopes.iter()))
        };
        for (name, scopes, kind, target, may) in [
            ("ada", &[][..], PermissionKind::Tool, "echo", true),
            ("ada", &[], PermissionKind::Tool, "calculator.add", false),
            ("ada", &[], PermissionKind::Flow, "echo", false),
            ("corp:ada", &[], PermissionKind::Tool, "calculator.add", true),
            ("corp:ada", &[], PermissionKind::Tool, "echo", true),
            ("corp:guest", &[], PermissionKind::Tool, "calculator.add", false),
            ("corp:ada", &[], PermissionKind::Flow, "register", true),
            ("corp:ada", &[], PermissionKind::Flow, "ledger", false),
            ("ada", &["files"], PermissionKind::Resource, "file:///srv/a.txt", true),
            ("ada", &["file"], PermissionKind::Resource, "file:///srv/a.txt", false),
            ("ada", &["files"], PermissionKind::Resource, "file:///srv/secret/a", false),
            ("ada", &["files"], PermissionKind::Resource, "file:///srv/s%65cret/a", false),
            ("ada", &["files"], PermissionKind::Resource, "file:///srv%2Fsecret%2fa", false),
            ("ada", &["files"], PermissionKind::Prompt, "any", false),
        ] {
            let granted = of(name, scopes);
            assert_eq!(granted.may(kind, target), may, "{name} {scopes:?} {target}");
            assert_eq!(granted.admin(), scopes == ["files"], "{name} {scopes:?}");
            assert_eq!(granted.metrics(), granted.admin(), "{name} {scopes:?}");
        }
    }

    /// MCP-091: replaced rules take effect at once, also for known principals.
    #[test]
    fn replaced_rules_take_effect_at_once() {
        let permissions = Permissions::everything();
        let ada = Principal::named("ada");
        assert!(permissions.of(&ada).may(PermissionKind::Tool, "echo"));
        assert!(!permissions.of(&ada).admin());
        permissions.replace(&Permissions::new(Vec::new()));
        assert!(!permissions.of(&ada).may(PermissionKind::Tool, "echo"));
        assert!(!permissions.of(&ada).may_any(PermissionKind::Tool));
    }
}
