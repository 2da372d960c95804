//! Downloads: content of results and resources, saved as files.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt as _;
use futures_util::stream;
use mcp_flow::client::model::{Content, ResourceContents};
use mcp_flow::client::transport::ContentStream;
use mcp_flow::client::{Client, Error};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::client::error::explain;
use crate::exit::{Exit, Failure};
use crate::platform;
use crate::terminal::output::sanitize;
use crate::terminal::progress::ProgressDisplay;

/// Content that can be saved as a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    /// Content in the result itself.
    Inline { name: String, data: Vec<u8> },
    /// Content to fetch.
    Linked { name: String, link: Value },
}

impl Piece {
    /// The URI of a resource that has to be read with `resources/read`.
    fn resource_uri(&self) -> Option<&str> {
        let Self::Linked { link, .. } = self else { return None };
        let uri = link["uri"].as_str().filter(|_| link["type"] == "resource_link")?;
        let is_fetched = ["http://", "https://"].iter().any(|scheme| uri.starts_with(scheme));
        (!is_fetched).then_some(uri)
    }
}

/// Finds what can be saved in the content of a result.
pub(crate) fn pieces(content: &[Value]) -> Vec<Piece> {
    let pieces = content.iter().map(Content::official_form).enumerate();
    pieces.filter_map(|(position, content)| piece(position + 1, &content)).collect()
}

fn piece(position: usize, content: &Value) -> Option<Piece> {
    match content["type"].as_str()? {
        kind @ ("image" | "audio") => {
            let name = format!("{kind}-{position}{}", extension(&content["mimeType"]));
            inline(name, &content["data"])
        }
        "resource" => contents(position, &content["resource"]),
        "resource_link" => {
            let name = content["name"].as_str().map(str::to_owned);
            let name = name.unwrap_or_else(|| file_name_of_uri(&content["uri"], position));
            Some(Piece::Linked { name, link: content.clone() })
        }
        "ref/stream" => {
            let name = content["_meta"][DOWNLOAD]["name"].as_str().filter(|name| !name.is_empty());
            let name = name.map(str::to_owned);
            let name = name
                .unwrap_or_else(|| format!("stream-{position}{}", extension(&content["mimeType"])));
            Some(Piece::Linked { name, link: content.clone() })
        }
        _ => None,
    }
}

/// Finds what can be saved in the contents of a resource.
pub(crate) fn contents(position: usize, resource: &Value) -> Option<Piece> {
    let name = match resource["uri"].as_str() {
        Some(ResourceContents::INLINE_URI) => {
            format!("embedded-{position}{}", extension(&resource["mimeType"]))
        }
        _ => file_name_of_uri(&resource["uri"], position),
    };
    // Our servers put the URL of contents that are too large for a message in `_meta`.
    let download = &resource["_meta"][DOWNLOAD];
    if let Some(url) = download["url"].as_str() {
        let mut link = json!({"type": "resource_link", "uri": url, "name": name});
        for member in ["size", "mimeType"] {
            if let Some(value) = download.get(member) {
                link[member] = value.clone();
            }
        }
        return Some(Piece::Linked { name, link });
    }
    if resource["type"] == "ref/stream" {
        return Some(Piece::Linked { name, link: resource.clone() });
    }
    match resource["text"].as_str() {
        Some(text) => Some(Piece::Inline { name, data: text.as_bytes().to_vec() }),
        None => inline(name, &resource["blob"]),
    }
}

fn inline(name: String, data: &Value) -> Option<Piece> {
    let data = STANDARD.decode(data.as_str()?).ok()?;
    Some(Piece::Inline { name, data })
}

/// Saves all pieces, several at a time, and returns their paths. Stops at the first failure, and
/// leaves no partial file behind. Links to other origins than the server's are not followed.
pub(crate) async fn save(
    client: &Client,
    pieces: Vec<Piece>,
    folder: &Path,
    progress: &ProgressDisplay,
) -> anyhow::Result<Vec<PathBuf>> {
    let problem = || format!("cannot write to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(problem)?;
    let saving = pieces.into_iter().enumerate().map(|(position, piece)| async move {
        anyhow::Ok((position, save_one(client, piece, folder, progress).await?))
    });
    // Out of order, so that a failure ends the slower ones as well.
    let mut saving = stream::iter(saving).buffer_unordered(CONCURRENCY);
    let mut saved = Vec::new();
    while let Some(one) = saving.next().await {
        saved.push(one?);
    }
    saved.sort();
    Ok(saved.into_iter().flat_map(|(_, paths)| paths).collect())
}

/// Saves one piece. A resource link is read first, and may have several contents.
async fn save_one(
    client: &Client,
    piece: Piece,
    folder: &Path,
    progress: &ProgressDisplay,
) -> anyhow::Result<Vec<PathBuf>> {
    let pieces = match piece.resource_uri() {
        Some(uri) => read(client, uri).await?,
        None => vec![piece],
    };
    let mut paths = Vec::new();
    for piece in pieces {
        paths.extend(write(client, piece, folder, progress).await?);
    }
    Ok(paths)
}

/// Reads a resource of the server (MCP-060).
async fn read(client: &Client, uri: &str) -> anyhow::Result<Vec<Piece>> {
    let result = client.read_resource(uri).raw().await.map_err(explain)?;
    let found = result["contents"].as_array().into_iter().flatten().enumerate();
    Ok(found.filter_map(|(position, it)| contents(position + 1, it)).collect())
}

/// Writes a piece to a file; `None` for a link that the server's transport does not open.
async fn write(
    client: &Client,
    piece: Piece,
    folder: &Path,
    progress: &ProgressDisplay,
) -> anyhow::Result<Option<PathBuf>> {
    // Deleted on drop unless it was renamed: on errors, and on ctrl-c.
    let mut builder = tempfile::Builder::new();
    platform::share(builder.prefix(".mcp-flow-").suffix(".part"));
    let mut file = builder
        .tempfile_in(folder)
        .with_context(|| format!("cannot write to {}", folder.display()))?;
    let name = match &piece {
        Piece::Inline { name, data } => {
            file.write_all(data).context("cannot write the file")?;
            safe_file_name(name)
        }
        Piece::Linked { name, link } => {
            let name = safe_file_name(name);
            let opened = match client.open_content(link).await {
                Err(Error::Usage(_)) => {
                    let uri = sanitize(link["uri"].as_str().unwrap_or(&name));
                    eprintln!("not saved, because the server does not serve it: {uri}");
                    return Ok(None);
                }
                opened => opened.map_err(explain)?,
            };
            receive(opened, file.as_file_mut(), &name, progress).await?;
            name
        }
    };
    persist(file, folder, &name).map(Some)
}

/// Downloads a link and writes it as it arrives.
pub(crate) async fn fetch(
    client: &Client,
    link: &Value,
    file: &mut impl Write,
    name: &str,
    progress: &ProgressDisplay,
) -> anyhow::Result<()> {
    receive(client.open_content(link).await.map_err(explain)?, file, name, progress).await
}

async fn receive(
    mut opened: ContentStream,
    file: &mut impl Write,
    name: &str,
    progress: &ProgressDisplay,
) -> anyhow::Result<()> {
    let bar = progress.download(name, opened.size);
    let mut received: u64 = 0;
    while let Some(bytes) = opened.bytes.next().await {
        let bytes = bytes.map_err(|error| {
            let message =
                format!("the download of {name} failed: {}", sanitize(&error.to_string()));
            Failure::new(Exit::Unreachable, message)
        })?;
        received += bytes.len() as u64;
        file.write_all(&bytes).with_context(|| format!("cannot write {name}"))?;
        bar.inc(bytes.len() as u64);
    }
    bar.finish_and_clear();
    match opened.size {
        Some(size) if size != received => {
            let message = format!("the download of {name} ended after {received} of {size} bytes");
            Err(Failure::new(Exit::Unreachable, message).into())
        }
        _ => Ok(()),
    }
}

/// Renames a complete file to its name, or to the next free one: nothing is overwritten.
fn persist(mut file: NamedTempFile, folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let (stem, ending) = match name.rfind('.').filter(|position| *position > 0) {
        Some(position) => name.split_at(position),
        None => (name, ""),
    };
    for number in 1..MAX_COPIES {
        let name = if number == 1 { name.to_owned() } else { format!("{stem}-{number}{ending}") };
        let path = folder.join(name);
        match file.persist_noclobber(&path) {
            Ok(_) => return Ok(path),
            Err(taken) if taken.error.kind() == ErrorKind::AlreadyExists => file = taken.file,
            Err(failed) => {
                return Err(failed.error)
                    .with_context(|| format!("cannot create {}", path.display()));
            }
        }
    }
    anyhow::bail!("too many files named {name} in {}", folder.display())
}

/// Turns a name from the server into a file name without a path, so that it stays in the folder.
fn safe_file_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let is_odd = |character: char| {
        character.is_control()
            || "<>:\"|?*".contains(character)
            || sanitize(&character.to_string()) != character.to_string()
    };
    let plain: String =
        last.chars().map(|character| if is_odd(character) { '_' } else { character }).collect();
    // No hidden files, and no device names of Windows.
    let plain = plain.trim_matches(|character: char| character == '.' || character.is_whitespace());
    let stem = plain.split('.').next().unwrap_or_default().to_ascii_uppercase();
    let is_device = ["CON", "PRN", "AUX", "NUL"].contains(&stem.as_str())
        || (stem.len() == 4 && (stem.starts_with("COM") || stem.starts_with("LPT")));
    let mut kept = String::new();
    for character in plain.chars() {
        if kept.len() + character.len_utf8() > MAX_NAME_LENGTH {
            break;
        }
        kept.push(character);
    }
    match kept.is_empty() || is_device || kept.starts_with('-') {
        true => format!("file_{kept}"),
        false => kept,
    }
}

fn file_name_of_uri(uri: &Value, position: usize) -> String {
    let uri = uri.as_str().unwrap_or_default();
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    match path.rsplit('/').next().filter(|name| !name.is_empty()) {
        Some(name) => name.to_owned(),
        None => format!("resource-{position}"),
    }
}

/// Returns the file extension for a media type.
fn extension(mime_type: &Value) -> String {
    let kind = mime_type.as_str().and_then(|kind| kind.split(';').next()).unwrap_or_default();
    let ending = match kind.split_once('/').map_or("", |(_, ending)| ending) {
        "jpeg" => "jpg",
        "plain" => "txt",
        "markdown" => "md",
        "javascript" => "js",
        "svg+xml" => "svg",
        "mpeg" => "mp3",
        "x-wav" => "wav",
        ending => ending,
    };
    let is_plain =
        (1..=5).contains(&ending.len()) && ending.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_plain { format!(".{ending}") } else { String::new() }
}

/// Key of `_meta` with the URL, name and size of content that is fetched separately.
const DOWNLOAD: &str = "mcp-flow/download";

/// Number of concurrent downloads.
const CONCURRENCY: usize = 4;
const MAX_COPIES: usize = 10_000;
const MAX_NAME_LENGTH: usize = 120;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Piece, persist, pieces, safe_file_name};

    /// PAT-023: whatever a server calls a file, it is saved in the folder, and not hidden.
    #[test]
    fn file_names_cannot_leave_the_folder() {
        for (name, file) in [
            ("report.pdf", "report.pdf"),
            ("../../etc/passwd", "passwd"),
            ("C:\\Windows\\system.ini", "system.ini"),
            ("/absolute", "absolute"),
            (".bashrc", "bashrc"),
            ("..", "file_"),
            ("", "file_"),
            ("nul.txt", "file_nul.txt"),
            ("-rf", "file_-rf"),
            ("a\nb\u{202e}c\0", "a_b_c_"),
            ("日本語.txt", "日本語.txt"),
        ] {
            assert_eq!(safe_file_name(name), file, "{name:?}");
        }
        assert!(safe_file_name(&"é".repeat(500)).len() <= 120);
    }

    #[test]
    fn existing_files_are_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        for expected in ["a.txt", "a-2.txt", "a-3.txt"] {
            let file = tempfile::NamedTempFile::new_in(folder.path()).unwrap();
            let path = persist(file, folder.path(), "a.txt").unwrap();
            assert_eq!(path, folder.path().join(expected));
        }
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            3,
            "no temporary file is left"
        );
    }

    /// C-25, C-26: in the official forms and those of seed 002.
    #[test]
    fn content_that_can_be_saved_is_found() {
        let link = json!({"type": "resource_link", "name": "big.bin", "uri": "http://h/d/1"});
        let stream = |meta: &Value| json!({"type": "ref/stream", "streamTag": 1, "mimeType": "text/plain", "_meta": meta});
        let content = [
            json!({"type": "text", "text": "not a file"}),
            json!({"type": "image", "mimeType": "image/png", "data": "AAAA"}),
            link,
            stream(&json!({"mcp-flow/download": {"name": "big.log", "size": 5}})),
            stream(&json!(null)),
            json!({"type": "resource", "resource": {"uri": "file:///x/y.txt", "text": "hi"}}),
            json!({"type": "image", "url": "http://h/a.png"}),
            json!({"type": "resource", "uri": "notes:/b"}),
            json!({"type": "embedded", "mimeType": "application/pdf", "data": "AAAA"}),
        ];
        let linked = |name: &str, uri: &str| {
            let link = json!({"type": "resource_link", "name": name, "uri": uri});
            Piece::Linked { name: name.to_owned(), link }
        };
        let inline =
            |name: &str, data: &[u8]| Piece::Inline { name: name.to_owned(), data: data.to_vec() };
        let link_at = |name: &str, position: usize| Piece::Linked {
            name: name.to_owned(),
            link: content[position].clone(),
        };
        assert_eq!(
            pieces(&content),
            [
                inline("image-2.png", &[0, 0, 0]),
                link_at("big.bin", 2),
                link_at("big.log", 3),
                link_at("stream-5.txt", 4),
                inline("y.txt", b"hi"),
                linked("a.png", "http://h/a.png"),
                linked("b", "notes:/b"),
                inline("embedded-9.pdf", &[0, 0, 0]),
            ]
        );
    }
}
