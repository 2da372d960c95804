//! `admin/server`, `admin/sessions`, `admin/watch` and `admin/unwatch`.

use mcp_flow_interaction::describe_session;
use mcp_flow_proto::{Params, RpcError};
use mcp_flow_server::observe::ConnectionCounts;
use mcp_flow_server::router::Era;
use mcp_flow_server::{Context, Outcome, Reply, ServerBuilder};
use mcp_flow_session::store::{Filter, Page, Phase};
use mcp_flow_session::{Owner, SessionId};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::admin::{Admin, now};
use crate::recorder::EXCHANGES;
use crate::watch::{Pending, Watch, WatchedSessions};

pub(crate) fn add_to(admin: &Admin, server: ServerBuilder) -> ServerBuilder {
    let (about, listing, watching, ending) =
        (admin.clone(), admin.clone(), admin.clone(), admin.clone());
    server
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
        .method("admin/watch", Era::Handshake, move |context: &Context, params: Params<'_>| {
            Reply::Ready(read(params).and_then(|wanted| watch(&watching, context, wanted)))
        })
        .method("admin/unwatch", Era::Handshake, move |context: &Context, params: Params<'_>| {
            Reply::Ready(read(params).and_then(|Unwatch { watch_id }| {
                let ended = ending.end_watch(watch_id, context.principal());
                reply(context, json!({"ended": ended}))
            }))
        })
}

/// What the server is, and how it is doing.
fn describe(admin: &Admin, context: &Context) -> Outcome {
    let mut told = json!({
        "principal": context.principal().name(),
        "all": admin.may_see_all(context.principal()),
        "conversations": admin.engine().is_some(),
    });
    // Everyone may know what they may do; the rest is not for everyone.
    if admin.check(context).is_ok() {
        let (server, inner) = (context.server(), &admin.inner);
        told["server"] = json!({"name": server.info().name, "version": server.info().version});
        told["startedAt"] = inner.started.into();
        told["now"] = now().into();
        told["about"] = inner.about.get().cloned().unwrap_or_default();
        told["connections"] = connections(&inner.connections);
        told["limits"] = limits(admin, context);
        told["memory"] = crate::figures::memory().into();
        if let Some(engine) = admin.engine() {
            told["sessionsInMemory"] = engine.live().into();
            told["flows"] = engine.flows().map(|flow| flow.name().to_owned()).collect();
        }
    }
    reply(context, told)
}

fn limits(admin: &Admin, context: &Context) -> Value {
    let limits = context.limits();
    let mut told = json!({
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
        told["sessionsPerOwner"] = limits.sessions_per_owner.into();
        told["sessionsInMemory"] = limits.live.into();
        told["inactivitySeconds"] = limits.inactivity.map(|time| time.as_secs()).into();
        told["durationSeconds"] = limits.duration.map(|time| time.as_secs()).into();
    }
    told
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Listing {
    cursor: Option<String>,
    limit: usize,
}

impl Default for Listing {
    fn default() -> Self {
        Self { cursor: None, limit: PAGE }
    }
}

/// Sessions a page at a time: everyone's for those who may, one's own otherwise.
async fn list(admin: Admin, context: Context, wanted: Listing) -> Outcome {
    let after: Option<SessionId> = match wanted.cursor.as_deref().map(str::parse) {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(_)) => {
            return Err(RpcError::invalid_params("cursor is not one this server gave"));
        }
    };
    let Some(engine) = admin.engine() else {
        return reply(&context, json!({"sessions": []}));
    };
    let most = wanted.limit.clamp(1, PAGE);
    let filter = Filter { owner: scope(&admin, &context), phase: Phase::Any };
    let listed = engine.list_all(filter, Page { after, most: most + 1 }).await;
    let mut listed = listed.map_err(|_| RpcError::internal())?;
    let more = listed.len() > most;
    listed.truncate(most);
    let last = listed.last().filter(|_| more).map(|listed| listed.id.to_string());
    let sessions = listed.iter().map(|listed| {
        let mut told = describe_session(listed);
        told["owner"] = listed.summary.owner.name().into();
        told
    });
    let mut result = json!({"sessions": sessions.collect::<Vec<_>>()});
    if let Some(last) = last {
        result["nextCursor"] = last.into();
    }
    reply(&context, result)
}

/// Whose sessions the caller sees: everyone's if None.
fn scope(admin: &Admin, context: &Context) -> Option<Owner> {
    let principal = context.principal();
    (!admin.may_see_all(principal)).then(|| Owner::new(principal.name()))
}

#[derive(Deserialize)]
struct Watched {
    topics: Vec<Topic>,
    /// Whether to begin with what is kept.
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
struct Unwatch {
    watch_id: u64,
}

/// Begins to push.
fn watch(admin: &Admin, context: &Context, Watched { topics, history }: Watched) -> Outcome {
    let wants = |topic| topics.contains(&topic);
    let (traffic, stats) = (wants(Topic::Traffic), wants(Topic::Stats));
    if traffic || stats {
        admin.check(context)?;
    }
    let (number, stop) = admin.open_watch(context.principal())?;
    let recorder = admin.inner.recorder.clone();
    let recording = (traffic || stats).then(|| recorder.watch());
    let (exchanges, told) = recorder.after(0, if history { EXCHANGES } else { 0 });
    let engine = admin.engine().filter(|_| wants(Topic::Sessions));
    let sessions = engine.map(|engine| WatchedSessions {
        changes: engine.changes(),
        of: scope(admin, context),
        pending: Pending::default(),
    });
    let mut result = json!({"watchId": number});
    if traffic && history {
        result["exchanges"] = exchanges.into();
    }
    if stats && history {
        result["seconds"] = serde_json::to_value(recorder.minutes()).unwrap_or_default();
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
        told,
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

/// Encodes a result, saying what later revisions want said.
fn reply(context: &Context, mut result: Value) -> Outcome {
    if context.revision().is_stateless() {
        result["resultType"] = "complete".into();
    }
    context.reply(&result)
}

/// How many sessions are listed at once, at most.
const PAGE: usize = 1000;

/// How many connections there are, by transport.
fn connections(counts: &ConnectionCounts) -> Value {
    let told = counts.each().map(|count| {
        let told = json!({"open": count.open, "total": count.opened});
        (count.transport.to_owned(), told)
    });
    Value::Object(told.collect())
}
