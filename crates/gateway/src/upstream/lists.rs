//! Lists of an upstream, and their comparison with the pins.

use std::collections::HashSet;
use std::sync::Arc;

use mcp_flow_client::Error;
use mcp_flow_proto::RpcError;

use super::Upstream;
use crate::accounts::offered;
use crate::definitions::Definitions;
use crate::error;
use crate::naming;
use crate::pool::Lease;

impl Upstream {
    /// Lists the definitions, and reports a change.
    pub(crate) async fn refresh(self: &Arc<Self>) -> Result<(), RpcError> {
        let limit = self.settings.connect_timeout;
        let fetching = async {
            let Some(lease) = self.own_lease().await? else { return Ok(()) };
            lease.note_read(None);
            *self.server.write() = Some(lease.server.clone());
            let _reading = lease.begin_reading().await;
            // Before the lists are fetched, so that no change is missed.
            lease.listen(&self.changed).await;
            let fetched = Definitions::fetch(lease.client()).await;
            let mut fetched = fetched.map_err(|failure| self.failed(failure))?;
            if self.settings.accounts.is_some() {
                // Those of one user are nothing for others, who read by templates and links.
                fetched.resources.clear();
            }
            let fetched = Arc::new(fetched);
            *self.listed.lock() = Some(fetched.clone());
            self.apply_pins(&fetched);
            if self.settings.pins {
                lease.note_read(Some(self.pins.refused(self.name(), &fetched.tools)));
            }
            Ok(())
        };
        tokio::time::timeout(limit, fetching).await.unwrap_or_else(|_| {
            let failure = Error::Timeout { what: "its lists".to_owned(), limit };
            Err(self.breaker.failed(&self.settings, &failure))
        })
    }

    /// Serves what the pins allow of what was listed.
    fn apply_pins(self: &Arc<Self>, listed: &Definitions) {
        let mut served = listed.clone();
        match self.settings.pins {
            true => {
                served.tools = self.pins.record(self.name(), listed, |tool| self.pinned_name(tool));
            }
            false => self.pins.remember(self.name(), listed),
        }
        let served = Arc::new(offered(served, &self.settings, &self.prefix));
        let before = std::mem::replace(&mut *self.definitions.write(), served.clone());
        if before != served {
            (self.on_change)(self, &before);
        }
    }

    /// Applies pins that have changed.
    pub(crate) fn pins_changed(self: &Arc<Self>) {
        self.pools.lock().values().for_each(|pool| pool.compare_again());
        let listed = self.listed.lock().clone();
        match listed {
            Some(listed) => self.apply_pins(&listed),
            // It has not started yet.
            None => {
                let known = self.pins.last_known(self.name(), true).unwrap_or_default();
                let known = Arc::new(offered(known, &self.settings, &self.prefix));
                let before = std::mem::replace(&mut *self.definitions.write(), known.clone());
                if before != known {
                    (self.on_change)(self, &before);
                }
            }
        }
    }

    /// The name of a tool behind the gateway, for `pins`: with prefix, even if it is served without.
    pub(crate) fn pinned_name(&self, tool: &str) -> String {
        let prefix = naming::prefix(self.name());
        naming::join(&prefix, &naming::part(self.settings.served_name(tool)))
    }

    /// Finds the quarantined tool that has this name behind the gateway, without prefix.
    pub(crate) fn quarantined_tool(&self, name: &str) -> Option<String> {
        if !self.settings.pins {
            return None;
        }
        let quarantined = self.pins.quarantined(self.name()).into_iter();
        let mut tools = quarantined.map(|entry| entry.tool);
        tools.find(|tool| {
            let served = self.settings.served_name(tool);
            served == name || naming::part(served) == name
        })
    }

    /// Checks that the definition of a tool on a connection is the approved one. Its tools are listed
    /// once for that.
    pub(super) async fn check_pin(
        self: &Arc<Self>,
        lease: &Lease,
        tool: &str,
    ) -> Result<(), RpcError> {
        let refused = match lease.refused_tools() {
            Some(refused) => refused,
            None => self.compare(lease).await?,
        };
        match refused.contains(tool) {
            true => Err(error::quarantined(self.name(), tool, &self.pinned_name(tool))),
            false => Ok(()),
        }
    }

    /// Lists the tools on a connection, and returns those that pins do not allow.
    async fn compare(self: &Arc<Self>, lease: &Lease) -> Result<Arc<HashSet<String>>, RpcError> {
        let _reading = lease.begin_reading().await;
        // Somebody else may have listed them meanwhile.
        if let Some(refused) = lease.refused_tools() {
            return Ok(refused);
        }
        let limit = self.settings.connect_timeout;
        let listed = match tokio::time::timeout(limit, Definitions::fetch_tools(lease.client()))
            .await
        {
            Ok(listed) => listed.map_err(|failure| self.failed(failure))?,
            Err(_) => {
                let what = "its tools cannot be compared with their pins: it does not list them";
                return Err(error::unavailable(self.name(), what, None));
            }
        };
        let refused = self.pins.refused(self.name(), &listed);
        if !refused.is_empty() {
            self.changed.notify_one();
            self.begin();
        }
        lease.note_read(Some(refused));
        lease.refused_tools().ok_or_else(RpcError::internal)
    }
}
