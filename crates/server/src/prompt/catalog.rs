//! The prompts of a server, with access rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::ACCESS_DENIED;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{AddPromptsError, BadPrompt, IntoPrompts, Prompt};
use crate::catalog_source::find_unprefixed;
use crate::context::Context;
use crate::permissions::PermissionKind;
use crate::registry::{Entry, Registry};
use crate::resource::Access;

/// The prompts a server offers.
#[derive(Default)]
pub(crate) struct PromptCatalog {
    prompts: RwLock<Registry<Prompt>>,
    access: Option<Box<PromptAccess>>,
    /// Set with the first prompt and never cleared: a declared capability is not withdrawn.
    is_offered: AtomicBool,
    /// Set with the first prompt that has completions.
    has_completions: AtomicBool,
}

/// Decides what a caller may do with a prompt.
pub(crate) type PromptAccess = dyn Fn(&Context, &str) -> Access + Send + Sync;

impl PromptCatalog {
    /// Adds all prompts or none. Returns whether there were any.
    pub(crate) fn add(&self, prompts: Vec<Prompt>) -> Result<bool, AddPromptsError> {
        if prompts.is_empty() {
            return Ok(false);
        }
        let completes = prompts.iter().any(Prompt::has_completions);
        let added = self.prompts_mut().add(prompts);
        // Rejected ones are dropped here, where no lock is held.
        added.map_err(|(error, _unused)| error)?;
        self.is_offered.store(true, Ordering::Release);
        self.has_completions.fetch_or(completes, Ordering::AcqRel);
        Ok(true)
    }

    /// Removes a prompt. Returns whether it existed.
    pub(crate) fn remove(&self, name: &str) -> bool {
        // Dropped after the lock is released: dropping a prompt may call the server again.
        let removed = self.prompts_mut().remove(name);
        removed.is_some()
    }

    /// Returns whether there are or were prompts.
    pub(crate) fn is_offered(&self) -> bool {
        self.is_offered.load(Ordering::Acquire)
    }

    /// Returns whether there are or were prompts with completions.
    pub(crate) fn has_completions(&self) -> bool {
        self.has_completions.load(Ordering::Acquire)
    }

    /// The caller's access to a prompt: what the application allows, unless the server's rules
    /// forbid it.
    pub(crate) fn access(&self, caller: &Context, name: &str) -> Access {
        if !caller.may(PermissionKind::Prompt, name) {
            return Access::None;
        }
        self.access.as_ref().map_or(Access::Read, |access| access(caller, name))
    }

    /// Returns whether the application decides on access.
    pub(crate) fn has_access_rules(&self) -> bool {
        self.access.is_some()
    }

    /// The prompt with this name, if the caller may use it. A hidden one is reported as unknown.
    pub(crate) fn find(&self, caller: &Context, name: &str) -> Result<Arc<Prompt>, RpcError> {
        // Cloned out of the list first: the application's rules may change the list.
        let mut found = self.prompts().find(name).cloned();
        if found.is_none() && caller.server().catalog_source().is_some() {
            let is_visible = |prompt: &Prompt| self.access(caller, prompt.name()) == Access::Read;
            found = find_unprefixed(self.prompts().iter(), Prompt::name, name, is_visible);
        }
        let prompt = found.ok_or_else(|| RpcError::unknown_prompt(name))?;
        match self.access(caller, prompt.name()) {
            Access::Read => Ok(prompt),
            Access::None => Err(RpcError::unknown_prompt(name)),
            Access::See => Err(RpcError::new(ACCESS_DENIED)
                .details("You may see this prompt, but not use it.")
                .with("prompt", name)),
        }
    }

    pub(crate) fn prompts(&self) -> RwLockReadGuard<'_, Registry<Prompt>> {
        self.prompts.read()
    }

    fn prompts_mut(&self) -> RwLockWriteGuard<'_, Registry<Prompt>> {
        self.prompts.write()
    }
}

impl Entry for Prompt {
    const KIND: &'static str = "prompts";

    fn name(&self) -> &str {
        &self.definition().name
    }

    fn alias(&self) -> Option<String> {
        None
    }
}

/// The prompts of a server being built.
#[derive(Default)]
pub(crate) struct PromptList {
    prompts: Vec<Prompt>,
    bad: Option<BadPrompt>,
    access: Option<Box<PromptAccess>>,
}

impl PromptList {
    pub(super) fn add(&mut self, prompts: impl IntoPrompts) {
        match prompts.into_prompts() {
            Ok(prompts) => self.prompts.extend(prompts),
            Err(error) => {
                self.bad.get_or_insert(error);
            }
        }
    }

    pub(super) fn set_access(&mut self, access: Box<PromptAccess>) {
        self.access = Some(access);
    }

    /// Creates the catalog. With `is_offered`, prompts are declared even if there are none yet.
    pub(crate) fn finish(self, is_offered: bool) -> Result<PromptCatalog, AddPromptsError> {
        if let Some(error) = self.bad {
            return Err(error.into());
        }
        let is_offered = AtomicBool::new(is_offered);
        let catalog = PromptCatalog { access: self.access, is_offered, ..PromptCatalog::default() };
        catalog.add(self.prompts)?;
        Ok(catalog)
    }
}
