//! Links of a flow: made, replayed and revoked.

use mcp_flow_session::Command;
use mcp_flow_session::session::MAX_LINKS;

use super::Execution;
use crate::links::LinkTarget;

impl Execution {
    /// Makes a link, or returns the one that the journal has. Returns its number and URL.
    pub(crate) fn make_link(&self, key: &str, target: LinkTarget) -> Result<(u32, String), String> {
        let LinkTarget { is_question, needs_login } = target;
        let now = self.clock.now();
        let mut state = self.lock();
        let number = match state.replay.link(key, is_question) {
            Some(number) => number,
            None => {
                let base = self.link_base.get().ok_or(NO_BASE)?.clone();
                if state.session.links.len() >= MAX_LINKS {
                    return Err(format!("a session may have at most {MAX_LINKS} links"));
                }
                let token = getrandom::u64().and_then(|high| Ok((high, getrandom::u64()?)));
                let (high, low) = token.map_err(|_| "the system has no randomness".to_owned())?;
                let token = format!("{high:016x}{low:016x}");
                let number = u32::try_from(state.session.links.len()).unwrap_or(u32::MAX);
                let key = key.to_owned();
                let command = Command::MakeLink { key, base, token, is_question, needs_login };
                if let Ok(event) = state.session.decide(command, now, &self.limits.bounds) {
                    state.push(event);
                }
                number
            }
        };
        let link = state.session.links.iter().find(|link| link.number == number);
        let link = link.ok_or("the session has ended")?;
        Ok((number, format!("{}/link/{:032x}{}", link.base, self.id.bits(), link.token)))
    }

    /// Revokes the link of a token, unless it was revoked before. Returns whether there is one.
    pub(crate) fn revoke_link(&self, token: &str) -> bool {
        let state = self.lock();
        let Some(link) = state.session.find_link(|known| known == token) else { return false };
        let (number, is_revoked) = (link.number, link.is_revoked);
        drop(state);
        if !is_revoked {
            let _ = self.command(Command::RevokeLink { link: number });
        }
        true
    }
}

const NO_BASE: &str = "links need a server on HTTP whose URL is known; set `public_url`";
