//! `admin/server`, `admin/sessions`, `admin/import`, `admin/traffic`, `admin/cassette`, `admin/watch` and
//! `admin/unwatch`.

use mcp_flow_engine::{ClusterMember, EngineError, SessionHistory};
use mcp_flow_interaction::protocol_errors::engine_error as session_fault;
use mcp_flow_interaction::{describe_session, read_search};
use mcp_flow_proto::{Params, RpcError};
use mcp_flow_server::observe::ConnectionCounts;
use mcp_flow_server::router::Era;
use mcp_flow_server::{Context, Outcome, Reply, ServerBuilder};
use mcp_flow_session::store::Node;
use mcp_flow_session::{Owner, SessionId};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::admin::{Admin, now};
use crate::recorder::MAX_EXCHANGES;
use crate::watch::{PendingChanges, SessionWatch, Watch};

pub(crate) fn add_to(admin: &Admin, server: ServerBuilder) -> ServerBuilder {
    let [about, listing, importing, recent, exporting, watching, ending] =
        [(); 7].map(|()| admin.clone());
    server
        .method("admin/traffic", Era::Both, move |context: &Context, params: Params<'_>| {
            Reply::Ready(read(params).and_then(|wanted| list_traffic(&recent, context, &wanted)))
        })
        .method("admin/cassette", Era::Both, move |context: &Context, _: Params<'_>| {
            Reply::Ready(export(&exporting, context))
        })
        .method("admin/server", Era::Both, move |context: &Context, _: Params<'_>| {
            Reply::Ready(describe(&about, context))
        })
        .method(
            "admin/sessions",
            Era::Both,
            move |context: &Context, params: Params<'_>| match read(params) {
                Ok(wanted) => {
                    Reply::Later(Box::pin(list(listing.clone(), context.clone(), wanted)))
                }
                Err(error) => Reply::Ready(Err(error)),
            },
        )
        .method("admin/import", Era::Both, move |context: &Context, params: Params<'_>| match read(
            params,
        ) {
            Ok(wanted) => {
                Reply::Later(Box::pin(import(importing.clone(), context.clone(), wanted)))
            }
            Err(error) => Reply::Ready(Err(error)),
        })
        .method("admin/watch", Era::Handshake, move |context: &Context, params: Params<'_>| {
            Reply::Ready(read(params).and_then(|wanted| watch(&watching, context, wanted)))
        })
        .method("admin/unwatch", Era::Handshake, move |context: &Context, params: Params<'_>| {
            Reply::Ready(read(params).and_then(|UnwatchParams { watch_id }| {
                let ended = ending.end_watch(watch_id, context.principal());
                reply(context, json!({"ended": ended}))
            }))
        })
}

/// Handles `admin/server`.
fn describe(admin: &Admin, context: &Context) -> Outcome {
    let mut result = json!({
        "principal": context.principal().name(),
        "all": admin.is_admin(context.principal()),
        "sessions": admin.engine().is_some(),
    });
    // The caller's own permissions are for everyone, the rest for admins.
    if admin.check(context).is_ok() {
        let (server, inner) = (context.server(), &admin.inner);
        result["server"] = json!({"name": server.info().name, "version": server.info().version});
        result["startedAt"] = inner.started.into();
        result["now"] = now().into();
        result["about"] = inner.about.get().cloned().unwrap_or_default();
        if let Some(describe) = inner.tool_files.get() {
            result["toolFiles"] = describe();
        }
        result["connections"] = connections(&inner.connections);
        result["limits"] = limits(admin, context);
        result["memory"] = crate::metrics::memory().into();
        if let Some(engine) = admin.engine() {
            result["sessionsInMemory"] = engine.live().into();
            result["flows"] = engine.flows().iter().map(|flow| flow.name().to_owned()).collect();
            if let Some(member) = engine.cluster() {
                result["nodes"] = nodes(&member);
            }
        }
    }
    reply(context, result)
}

/// Describes the live nodes that share the session store.
fn nodes(member: &ClusterMember) -> Value {
    let own = member.epoch();
    let node = |node: Node| {
        json!({
            "epoch": node.epoch.number(),
            "name": node.info.name,
            "url": node.info.url,
            "version": node.info.version,
            "isThis": own == Some(node.epoch),
        })
    };
    member.known_nodes().into_iter().map(node).collect()
}

fn limits(admin: &Admin, context: &Context) -> Value {
    let limits = context.limits();
    let mut values = json!({
        "frame": limits.frame,
        "concurrency": limits.concurrency,
        "parkedBytes": limits.parked_bytes,
        "outboundBytes": limits.outbound_bytes,
        "resultBytes": limits.result_bytes,
        "inlineBytes": limits.inline_bytes,
        "callSeconds": limits.call_time.as_secs(),
        "answerSeconds": limits.answer_time.as_secs(),
        "subscriptions": limits.subscriptions,
    });
    if let Some(engine) = admin.engine() {
        let limits = engine.limits();
        values["sessionsPerOwner"] = limits.sessions_per_owner.into();
        values["sessionsInMemory"] = limits.live.into();
        values["inactivitySeconds"] = limits.inactivity.map(|time| time.as_secs()).into();
        values["durationSeconds"] = limits.duration.map(|time| time.as_secs()).into();
    }
    values
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListParams {
    cursor: Option<String>,
    limit: usize,
    owner: Option<String>,
    /// Criteria of a search.
    #[serde(flatten)]
    search: Map<String, Value>,
}

impl Default for ListParams {
    fn default() -> Self {
        Self { cursor: None, limit: PAGE, owner: None, search: Map::new() }
    }
}

/// Handles `admin/sessions`: all sessions for admins, the caller's own otherwise.
async fn list(admin: Admin, context: Context, wanted: ListParams) -> Outcome {
    let after: Option<SessionId> = match wanted.cursor.as_deref().map(str::parse) {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(_)) => {
            return Err(RpcError::invalid_params("invalid cursor"));
        }
    };
    let Some(engine) = admin.engine() else {
        return reply(&context, json!({"sessions": []}));
    };
    let most = wanted.limit.clamp(1, PAGE);
    // Those who are no admins see their own, whatever they ask for.
    let owner = scope(&admin, &context).or(wanted.owner.as_deref().map(Owner::new));
    let search = read_search(wanted.search, owner)?;
    let found = engine.search(&search, after, most).await;
    let found = found.map_err(|_| RpcError::internal())?;
    let sessions = found.sessions.iter().map(|listed| {
        let mut session = describe_session(listed);
        session["owner"] = listed.summary.owner.name().into();
        session
    });
    let mut result = json!({"sessions": sessions.collect::<Vec<_>>()});
    if let Some(next) = found.next {
        result["nextCursor"] = next.to_string().into();
    }
    reply(&context, result)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImportParams {
    /// The history, as `interaction.getHistory` returned it.
    history: Value,
    #[serde(default)]
    new_id: bool,
}

/// Handles `admin/import`: adds a session from its history, for the owner it has.
async fn import(admin: Admin, context: Context, wanted: ImportParams) -> Outcome {
    admin.check(&context)?;
    let Some(engine) = admin.engine() else {
        return Err(RpcError::invalid_request("this server has no sessions"));
    };
    let history = SessionHistory::read(&wanted.history).map_err(EngineError::from);
    let imported = match history {
        Ok(history) => engine.import(history, wanted.new_id).await,
        Err(error) => Err(error),
    };
    let view = imported.map_err(|error| session_fault("", &error))?;
    reply(&context, json!({"sessionId": view.id.to_string(), "state": view.state.name()}))
}

#[derive(Deserialize)]
struct TrafficParams {
    /// Text that the params or the result contain, such as the id of a session.
    #[serde(default)]
    contains: String,
}

/// Handles `admin/traffic`: the captured exchanges that contain a text, with those about sessions that
/// came before the first watch.
fn list_traffic(admin: &Admin, context: &Context, wanted: &TrafficParams) -> Outcome {
    admin.check(context)?;
    let mut exchanges = admin.inner.recorder.with_sessions();
    exchanges.retain(|exchange| {
        let has = |member: &str| {
            exchange[member].as_str().is_some_and(|text| text.contains(&wanted.contains))
        };
        has("params") || has("result")
    });
    reply(context, json!({"exchanges": exchanges}))
}

/// Handles `admin/cassette`: the captured exchanges as a cassette.
fn export(admin: &Admin, context: &Context) -> Outcome {
    admin.check(context)?;
    let Some(write) = admin.inner.cassette.get() else {
        return Err(RpcError::method_not_found("admin/cassette"));
    };
    let exchanges = admin.inner.recorder.with_whole_results();
    reply(context, json!({"exchanges": exchanges.len(), "cassette": write(&exchanges)}))
}

/// Owner of the sessions that the caller may see; `None` for all.
fn scope(admin: &Admin, context: &Context) -> Option<Owner> {
    let principal = context.principal();
    (!admin.is_admin(principal)).then(|| Owner::new(principal.name()))
}

#[derive(Deserialize)]
struct WatchParams {
    topics: Vec<Topic>,
    /// Include the recorded history in the result.
    #[serde(default)]
    history: bool,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Topic {
    Sessions,
    Traffic,
    Stats,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UnwatchParams {
    watch_id: u64,
}

/// Handles `admin/watch`: starts the task that pushes changes.
fn watch(
    admin: &Admin,
    context: &Context,
    WatchParams { topics, history }: WatchParams,
) -> Outcome {
    let wants = |topic| topics.contains(&topic);
    let (traffic, stats) = (wants(Topic::Traffic), wants(Topic::Stats));
    if traffic || stats {
        admin.check(context)?;
    }
    let (number, stop) = admin.open_watch(context.principal())?;
    let recorder = admin.inner.recorder.clone();
    let recording = (traffic || stats).then(|| recorder.watch());
    let (exchanges, sent) = recorder.after(0, if history { MAX_EXCHANGES } else { 0 });
    let engine = admin.engine().filter(|_| wants(Topic::Sessions));
    let sessions = engine.map(|engine| SessionWatch {
        changes: engine.changes(),
        of: scope(admin, context),
        pending: PendingChanges::default(),
    });
    let mut result = json!({"watchId": number});
    if traffic && history {
        result["exchanges"] = exchanges.into();
    }
    if stats && history {
        result["seconds"] = serde_json::to_value(recorder.seconds_kept()).unwrap_or_default();
    }
    let client = context.client().outside_the_call();
    let (principal, admin) = (context.principal().clone(), admin.clone());
    let watch = Watch {
        number,
        client,
        principal,
        admin: admin.clone(),
        stop,
        sessions,
        recording,
        recorder,
        traffic,
        stats,
        sent,
    };
    tokio::spawn(async move {
        watch.run().await;
        admin.forget_watch(number);
    });
    reply(context, result)
}

fn read<'a, T: Deserialize<'a>>(params: Params<'a>) -> Result<T, RpcError> {
    params.decode().map_err(|error| RpcError::invalid_params(error.to_string()))
}

/// Encodes a result, with `resultType` for 2026-07-28.
fn reply(context: &Context, mut result: Value) -> Outcome {
    if context.revision().is_stateless() {
        result["resultType"] = "complete".into();
    }
    context.reply(&result)
}

/// Maximum number of sessions on a page.
const PAGE: usize = 1000;

/// Connection counts by transport.
fn connections(counts: &ConnectionCounts) -> Value {
    let by_transport = counts.each().map(|count| {
        let values = json!({"open": count.open, "total": count.opened});
        (count.transport.to_owned(), values)
    });
    Value::Object(by_transport.collect())
}
