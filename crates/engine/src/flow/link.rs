//! Links: URLs at which people and programs without access to the session send it a signal.

use super::{Flow, FlowError, FlowResult};
use crate::links::{LinkTarget, token_of};

impl Flow {
    /// Makes a link that sends a signal of this name, for a webhook or an e-mail. Returns its URL.
    ///
    /// A `POST` to the URL sends the signal, once; its body is the value: JSON, the fields of a form, a
    /// plain text, or nothing. Nobody can guess the URL, and whoever knows it needs no login, so give it
    /// to the right people only. `GET` shows a page that asks for confirmation. The link ends with the
    /// session, or when it is revoked: [`revoke_link`](Flow::revoke_link), `mcp-flow sessions revoke`.
    ///
    /// The server has to be reachable by HTTP under a known URL: set
    /// [`public_url`](https://docs.rs/mcp-flow/latest/mcp_flow/http/struct.Options.html). A session has
    /// at most 100 links.
    ///
    /// ```
    /// # use mcp_flow_engine::{Flow, FlowResult};
    /// # async fn send_invoice(url: &str) -> std::io::Result<()> { Ok(()) }
    /// async fn order(flow: Flow) -> FlowResult<u64> {
    ///     let url = flow.link("paid")?;
    ///     flow.step("invoice", || send_invoice(&url)).await?;
    ///     flow.wait_for("paid").await
    /// }
    /// ```
    pub fn link(&self, name: &str) -> FlowResult<String> {
        let key = self.key(name)?;
        let target = LinkTarget { is_question: false, needs_login: false };
        let made = self.execution.make_link(&key, target);
        made.map(|(_, url)| url).map_err(FlowError::new)
    }

    /// Revokes a link of this session, so that it cannot be used any more.
    pub fn revoke_link(&self, url: &str) -> FlowResult<()> {
        let token = token_of(url).filter(|(id, _)| *id == self.execution.id);
        match token.is_some_and(|(_, token)| self.execution.revoke_link(token)) {
            true => Ok(()),
            false => Err(FlowError::new("this is no link of this session")),
        }
    }
}
