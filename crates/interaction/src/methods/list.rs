//! `interaction.list`: the sessions of the caller, searched by flow, state, time and labels.

use std::collections::BTreeMap;

use mcp_flow_engine::SessionSearch;
use mcp_flow_proto::RpcError;
use mcp_flow_server::permissions::PermissionKind;
use mcp_flow_server::{Context, Outcome};
use mcp_flow_session::store::Listed;
use mcp_flow_session::{Owner, State, Timestamp};
use serde_json::{Map, Value, json};

use super::reply;
use crate::fields::Fields;
use crate::interaction::{Interaction, owner};
use crate::protocol_errors::engine_error;
use crate::wire;

/// Handles the method, one page at a time (C-53). There are no sessions if clients hold them.
pub(super) async fn list(
    interaction: Interaction,
    context: Context,
    mut fields: Fields,
) -> Outcome {
    let after = match fields.optional_text("cursor")? {
        None => None,
        Some(cursor) => match cursor.parse() {
            Ok(id) => Some(id),
            Err(_) => return Err(fields.fault("cursor", "is not one this server gave")),
        },
    };
    let search = read(&mut fields, Some(owner(&context)))?;
    if interaction.inner.backend.is_client_held() {
        return reply(&context, json!({"sessions": []}));
    }
    let found = interaction.engine().search(&search, after, PAGE).await;
    let found = found.map_err(|error| engine_error("", &error))?;
    let may_see = |listed: &&Listed| context.may(PermissionKind::Flow, &listed.summary.flow);
    let sessions: Vec<_> = found.sessions.iter().filter(may_see).map(wire::listed).collect();
    let mut result = json!({"sessions": sessions});
    if let Some(next) = found.next {
        result["nextCursor"] = next.to_string().into();
    }
    reply(&context, result)
}

/// Reads what a search looks for from the params of a method: `flow`, `state`, `from`, `to`, `labels`.
pub fn read_search(
    params: Map<String, Value>,
    owner: Option<Owner>,
) -> Result<SessionSearch, RpcError> {
    read(&mut Fields::from(params), owner)
}

fn read(fields: &mut Fields, owner: Option<Owner>) -> Result<SessionSearch, RpcError> {
    let flow = fields.optional_text("flow")?;
    let mut time = |name: &str| Ok(fields.whole(name)?.map(Timestamp::from_millis));
    let (from, to) = (time("from")?, time("to")?);
    let state = fields.optional_text("state")?;
    let is_stuck = state.as_deref() == Some(STUCK);
    let state = match state.filter(|_| !is_stuck) {
        None => None,
        Some(name) => match State::ALL.into_iter().find(|state| state.name() == name) {
            Some(state) => Some(state),
            None => {
                let names = State::ALL.map(State::name).join(", ");
                return Err(fields.fault("state", &format!("must be one of {names}, {STUCK}")));
            }
        },
    };
    let mut labels = BTreeMap::new();
    for (key, value) in fields.object("labels")?.unwrap_or_default() {
        let Value::String(value) = value else {
            return Err(fields.fault(&format!("labels.{key}"), "must be a string"));
        };
        labels.insert(key, value);
    }
    Ok(SessionSearch { owner, flow, state, is_stuck, from, to, labels })
}

/// State by which sessions are found that are set aside. In the protocol they keep their state.
const STUCK: &str = "stuck";

/// Sessions per page of a list.
const PAGE: usize = 100;
