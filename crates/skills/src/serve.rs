//! Skills on a server: resources, `skills/list`, `skills/get` and `resources/directory/read`.

use std::sync::{Arc, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_flow_proto::model::{
    ListParams, ListResult, Meta, ResourceDefinition, StatelessMembers, uri_from_params,
};
use mcp_flow_proto::{Params, RpcError};
use mcp_flow_server::resource::{Access, ReadError, ResourcePage, ResourceProvider, WatchGuard};
use mcp_flow_server::router::Era;
use mcp_flow_server::{Bulk, Context, Outcome, Reply, Server, ServerBuilder};
use mcp_flow_workflow::document::FolderWatcher;
use serde_json::{Map, Value, json};

use crate::catalog::{Catalog, Node, Skills, Snapshot, claims};
use crate::skill::Skill;
use crate::watch::{announce, watch};
use crate::{DIRECTORY_READ, EXTENSION, SKILLS_GET, SKILLS_LIST};

/// Extends [`ServerBuilder`] by skills.
pub trait ServeSkills: Sized {
    /// Serves skills, and declares the extension. Reads the directories of skills, and so blocks
    /// for as long as the file system does.
    fn skills(self, skills: Skills) -> Self;
}

impl ServeSkills for ServerBuilder {
    fn skills(self, skills: Skills) -> Self {
        // A server without a source of skills does not declare the extension.
        if skills.is_empty() {
            return self;
        }
        let served = Served { catalog: Arc::new(Catalog::open(skills)), watching: OnceLock::new() };
        let served = Arc::new(served);
        let [list, get, read] = [served.clone(), served.clone(), served.clone()];
        self.extension(EXTENSION, json!({"directoryRead": true}))
            .method(SKILLS_LIST, Era::Both, move |context: &Context, params: Params<'_>| {
                let ListParams { cursor } = match list_params(params) {
                    Ok(params) => params,
                    Err(error) => return Reply::Ready(Err(error)),
                };
                list.answer(context, move |context, snapshot| {
                    list_skills(context, snapshot, cursor.as_deref())
                })
            })
            .method(SKILLS_GET, Era::Both, move |context: &Context, params: Params<'_>| {
                match named_uri(params) {
                    Ok(uri) => get.answer(context, move |context, snapshot| {
                        get_skill(context, snapshot, &uri)
                    }),
                    Err(error) => Reply::Ready(Err(error)),
                }
            })
            .method(DIRECTORY_READ, Era::Both, move |context: &Context, params: Params<'_>| {
                let named = named_uri(params)
                    .and_then(|uri| list_params(params).map(|params| (uri, params.cursor)));
                match named {
                    Ok((uri, cursor)) => read.answer(context, move |context, snapshot| {
                        read_directory(context, snapshot, &uri, cursor.as_deref())
                    }),
                    Err(error) => Reply::Ready(Err(error)),
                }
            })
            .resource_provider(SkillProvider(served))
    }
}

/// The skills of one server.
struct Served {
    catalog: Arc<Catalog>,
    /// Started with the first request for skills; `None` if that failed.
    watching: OnceLock<Option<FolderWatcher>>,
}

impl Served {
    /// Runs a handler on the current snapshot, on a blocking thread if there are directories.
    fn answer(
        self: &Arc<Self>,
        context: &Context,
        reply: impl FnOnce(&Context, &Snapshot) -> Outcome + Send + 'static,
    ) -> Reply {
        if self.catalog.directories().is_empty() {
            return Reply::Ready(reply(context, &self.catalog.snapshot()));
        }
        let (served, context) = (self.clone(), context.clone());
        Reply::Blocking(Box::new(move || {
            served.follow(context.server());
            reply(&context, &served.catalog.snapshot())
        }))
    }

    /// Watches the directories from now on.
    fn follow(&self, server: &Server) {
        if self.catalog.directories().is_empty() {
            return;
        }
        self.watching.get_or_init(|| {
            let started = watch(&self.catalog, server);
            if let Err(error) = &started {
                tracing::warn!(error, "changes of skills will not be noticed until the next start");
            }
            // Changes between reading and watching would be missed otherwise.
            let (before, now) = self.catalog.reload();
            announce(server, &before, &now);
            started.ok()
        });
    }
}

/// The files of skills as resources. Only those named `SKILL.md` are listed: the others are named by
/// manifests and directories.
struct SkillProvider(Arc<Served>);

impl ResourceProvider for SkillProvider {
    fn claims(&self, uri: &str) -> bool {
        claims(uri)
    }

    fn listed_uris(&self, uri: &str) -> Vec<String> {
        vec![uri.to_owned()]
    }

    fn list(
        &self,
        server: &Server,
        position: &[u8],
        most: usize,
        is_visible: &dyn Fn(&str) -> bool,
    ) -> ResourcePage {
        self.0.follow(server);
        let snapshot = self.0.catalog.snapshot();
        let is_after = |skill: &&Arc<Skill>| skill.entry().uri.as_bytes() > position;
        let left = snapshot.skills.iter().filter(is_after).map(|skill| &skill.entry().uri);
        let mut left = left.filter(|uri| is_visible(uri)).peekable();
        let page: Vec<_> = left.by_ref().take(most).collect();
        let last = page.last().filter(|_| left.peek().is_some());
        ResourcePage {
            next: last.map(|uri| uri.as_bytes().to_vec()),
            definitions: page.iter().filter_map(|uri| snapshot.definition(uri)).collect(),
        }
    }

    fn open(&self, uri: &str) -> Result<Bulk, ReadError> {
        let snapshot = self.0.catalog.snapshot();
        let Some(Node::File(file)) = snapshot.node(uri) else { return Err(ReadError::NotFound) };
        let file = file.file();
        // Clients verify the bytes in the message, so it must not be a link.
        let bulk = Bulk::bytes(file.name(), file.bytes.clone()).with_uri(uri).inline();
        Ok(match file.mime_type() {
            Some(mime_type) => bulk.with_mime_type(mime_type),
            None => bulk,
        })
    }

    fn watch(&self, context: &Context, uri: &Arc<str>) -> Result<WatchGuard, ReadError> {
        self.0.follow(context.server());
        match self.0.catalog.snapshot().node(uri) {
            Some(Node::File(_)) => Ok(Box::new(())),
            _ => Err(ReadError::NotFound),
        }
    }
}

fn list_skills(context: &Context, snapshot: &Snapshot, cursor: Option<&str>) -> Outcome {
    let after = read_cursor(cursor)?;
    let is_after = |skill: &&Arc<Skill>| skill.entry().uri > after;
    let left = snapshot.skills.iter().filter(is_after).filter(|skill| may_read(context, skill));
    let (most, mut room) = (context.limits().page.max(1), PAGE_BYTES);
    let mut entries: Vec<&crate::SkillEntry> = Vec::new();
    let mut next_cursor = None;
    for skill in left {
        let size = entry_size(skill);
        if entries.len() == most || !entries.is_empty() && size > room {
            next_cursor = entries.last().map(|entry| write_cursor(&entry.uri));
            break;
        }
        room = room.saturating_sub(size);
        entries.push(skill.entry());
    }
    let stateless = stateless_fields(context, LIST_MS);
    context.reply(&ListResult { name: "skills", entries, next_cursor, stateless })
}

fn get_skill(context: &Context, snapshot: &Snapshot, uri: &str) -> Outcome {
    let found = snapshot.find(uri).filter(|skill| may_read(context, skill));
    let skill = found.ok_or_else(|| {
        RpcError::invalid_params("uri is not the URI of a skill; skills/list lists them")
            .with("uri", uri)
    })?;
    let mut result = Map::from_iter([("skill".to_owned(), json!(skill.entry()))]);
    if let Some(StatelessMembers { ttl_ms, cache_scope, meta }) = stateless_fields(context, 0) {
        result.insert("resultType".to_owned(), "complete".into());
        result.insert("ttlMs".to_owned(), ttl_ms.into());
        result.insert("cacheScope".to_owned(), cache_scope.into());
        result.insert("_meta".to_owned(), Value::Object(meta));
    }
    context.reply(&result)
}

fn read_directory(
    context: &Context,
    snapshot: &Snapshot,
    uri: &str,
    cursor: Option<&str>,
) -> Outcome {
    let not_found =
        || RpcError::invalid_params("uri is not the URI of a skill directory").with("uri", uri);
    let Some(Node::Directory(directory)) = snapshot.node(uri) else { return Err(not_found()) };
    let after = read_cursor(cursor)?;
    // A directory exists for callers that may see something in it.
    let may_see = |child: &&String| match snapshot.node(child) {
        Some(Node::File(_)) => context.resource_access(child) >= Access::See,
        Some(Node::Directory(_)) => {
            snapshot.files_below(child).any(|uri| context.resource_access(uri) >= Access::See)
        }
        None => false,
    };
    let mut seen = directory.children.iter().filter(may_see).peekable();
    if seen.peek().is_none() {
        return Err(not_found());
    }
    let mut left = seen.filter(|child| **child > after).peekable();
    let page: Vec<_> = left.by_ref().take(context.limits().page.max(1)).collect();
    let next_cursor = page.last().filter(|_| left.peek().is_some()).map(|uri| write_cursor(uri));
    let definitions = page.iter().filter_map(|uri| snapshot.definition(uri));
    let definitions: Vec<ResourceDefinition> = definitions.collect();
    let revision = context.revision();
    let entries = definitions.iter().map(|definition| definition.wire(revision)).collect();
    let stateless = stateless_fields(context, LIST_MS);
    context.reply(&ListResult { name: "resources", entries, next_cursor, stateless })
}

/// Returns whether a caller may read every file of a skill. A partially visible skill does not exist.
fn may_read(context: &Context, skill: &Skill) -> bool {
    skill.files().iter().all(|file| context.resource_access(&file.uri) == Access::Read)
}

/// Estimates the bytes of an encoded entry.
fn entry_size(skill: &Skill) -> usize {
    let uris: usize = skill.files().iter().map(|file| file.uri.len() + 128).sum();
    uris + serde_json::to_string(&skill.entry().frontmatter).map_or(0, |text| text.len())
}

/// Returns the members every result has under revisions without a handshake.
fn stateless_fields(context: &Context, ttl_ms: u64) -> Option<StatelessMembers> {
    let revision = context.revision();
    revision.is_stateless().then(|| {
        let info = json!(context.server().info().for_revision(revision));
        let meta = Meta::from_iter([("io.modelcontextprotocol/serverInfo".to_owned(), info)]);
        StatelessMembers { ttl_ms, cache_scope: "private", meta }
    })
}

fn list_params(params: Params<'_>) -> Result<ListParams, RpcError> {
    params.decode().map_err(|error| RpcError::invalid_params(error.to_string()))
}

fn named_uri(params: Params<'_>) -> Result<String, RpcError> {
    uri_from_params(params).map(Into::into).map_err(RpcError::invalid_params)
}

/// A cursor is the last URI of a page, so that it survives changes of the list.
fn write_cursor(uri: &str) -> String {
    URL_SAFE_NO_PAD.encode(uri)
}

/// Reads the URI behind which a page begins; the first one begins behind nothing.
fn read_cursor(cursor: Option<&str>) -> Result<String, RpcError> {
    let Some(cursor) = cursor else { return Ok(String::new()) };
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    let uri = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    uri.filter(|uri| claims(uri)).ok_or_else(|| {
        RpcError::invalid_params("cursor is not one this server gave; list again from the start")
    })
}

/// Cache lifetime (`ttlMs`) of a listing.
const LIST_MS: u64 = 60 * 1000;

/// Bytes of one page, about; one entry always fits.
const PAGE_BYTES: usize = 1024 * 1024;
