//! What results carry or refer to, saved as files.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt as _;
use futures_util::stream;
use mcp_flow::client::Client;
use mcp_flow::client::model::ResourceContents;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::exit::{Exit, Failure};
use crate::fault::explain;
use crate::meter::Meter;
use crate::show::content::official;
use crate::show::neutral;

/// Something that can become a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    /// It is in the result.
    Held { name: String, data: Vec<u8> },
    /// It is to be fetched.
    Elsewhere { name: String, link: Value },
}

impl Piece {
    /// The URI of a resource that has to be asked for: what no transport can fetch.
    fn named_resource(&self) -> Option<&str> {
        let Self::Elsewhere { link, .. } = self else { return None };
        let uri = link["uri"].as_str().filter(|_| link["type"] == "resource_link")?;
        let is_fetched = ["http://", "https://"].iter().any(|scheme| uri.starts_with(scheme));
        (!is_fetched).then_some(uri)
    }
}

/// What can be saved of the content of a result.
pub(crate) fn pieces(content: &[Value]) -> Vec<Piece> {
    let pieces = content.iter().map(official).enumerate();
    pieces.filter_map(|(place, content)| piece(place + 1, &content)).collect()
}

fn piece(place: usize, content: &Value) -> Option<Piece> {
    match content["type"].as_str()? {
        kind @ ("image" | "audio") => {
            let name = format!("{kind}-{place}{}", extension(&content["mimeType"]));
            held(name, &content["data"])
        }
        "resource" => contents(place, &content["resource"]),
        "resource_link" => {
            let name = content["name"].as_str().map(str::to_owned);
            let name = name.unwrap_or_else(|| of_uri(&content["uri"], place));
            Some(Piece::Elsewhere { name, link: content.clone() })
        }
        "ref/stream" => {
            let name = content["_meta"][DOWNLOAD]["name"].as_str().filter(|name| !name.is_empty());
            let name = name.map(str::to_owned);
            let name = name
                .unwrap_or_else(|| format!("stream-{place}{}", extension(&content["mimeType"])));
            Some(Piece::Elsewhere { name, link: content.clone() })
        }
        _ => None,
    }
}

/// What can be saved of the contents of a resource.
pub(crate) fn contents(place: usize, resource: &Value) -> Option<Piece> {
    let name = match resource["uri"].as_str() {
        Some(ResourceContents::INLINE_URI) => {
            format!("embedded-{place}{}", extension(&resource["mimeType"]))
        }
        _ => of_uri(&resource["uri"], place),
    };
    // Our servers say in `_meta` where to fetch what is too large for a message.
    let elsewhere = &resource["_meta"][DOWNLOAD];
    if let Some(url) = elsewhere["url"].as_str() {
        let mut link = json!({"type": "resource_link", "uri": url, "name": name});
        for member in ["size", "mimeType"] {
            if let Some(value) = elsewhere.get(member) {
                link[member] = value.clone();
            }
        }
        return Some(Piece::Elsewhere { name, link });
    }
    if resource["type"] == "ref/stream" {
        return Some(Piece::Elsewhere { name, link: resource.clone() });
    }
    match resource["text"].as_str() {
        Some(text) => Some(Piece::Held { name, data: text.as_bytes().to_vec() }),
        None => held(name, &resource["blob"]),
    }
}

fn held(name: String, data: &Value) -> Option<Piece> {
    let data = STANDARD.decode(data.as_str()?).ok()?;
    Some(Piece::Held { name, data })
}

/// Saves all pieces, several at a time; gives where they are. The first failure ends it, and no
/// half file is left behind.
pub(crate) async fn save(
    client: &Client,
    pieces: Vec<Piece>,
    folder: &Path,
    meter: &Meter,
) -> anyhow::Result<Vec<PathBuf>> {
    let problem = || format!("{} cannot be written to", folder.display());
    std::fs::create_dir_all(folder).with_context(problem)?;
    let saving = pieces.into_iter().enumerate().map(|(place, piece)| async move {
        anyhow::Ok((place, save_one(client, piece, folder, meter).await?))
    });
    // Not in order, so that one that fails is noticed while those before it go on.
    let mut saving = stream::iter(saving).buffer_unordered(AT_ONCE);
    let mut saved = Vec::new();
    while let Some(one) = saving.next().await {
        saved.push(one?);
    }
    saved.sort();
    Ok(saved.into_iter().flat_map(|(_, paths)| paths).collect())
}

/// Saves one piece. A resource that is only named is read, and may have several contents.
async fn save_one(
    client: &Client,
    piece: Piece,
    folder: &Path,
    meter: &Meter,
) -> anyhow::Result<Vec<PathBuf>> {
    let pieces = match piece.named_resource() {
        Some(uri) => read(client, uri).await?,
        None => vec![piece],
    };
    let mut paths = Vec::new();
    for piece in pieces {
        paths.push(write(client, piece, folder, meter).await?);
    }
    Ok(paths)
}

/// Reads a resource of the server (MCP-060).
async fn read(client: &Client, uri: &str) -> anyhow::Result<Vec<Piece>> {
    let result = client.read_resource(uri).raw().await.map_err(explain)?;
    let found = result["contents"].as_array().into_iter().flatten().enumerate();
    Ok(found.filter_map(|(place, it)| contents(place + 1, it)).collect())
}

async fn write(
    client: &Client,
    piece: Piece,
    folder: &Path,
    meter: &Meter,
) -> anyhow::Result<PathBuf> {
    // Removed when it is dropped before it has its name: on errors, and on ctrl-c.
    let mut file = tempfile::Builder::new()
        .prefix(".mcp-flow-")
        .suffix(".part")
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .with_context(|| format!("{} cannot be written to", folder.display()))?;
    let name = match &piece {
        Piece::Held { name, data } => {
            file.write_all(data).context("the file cannot be written")?;
            harmless(name)
        }
        Piece::Elsewhere { name, link } => {
            let name = harmless(name);
            fetch(client, link, file.as_file_mut(), &name, meter).await?;
            name
        }
    };
    place(file, folder, &name)
}

/// Writes what is to be fetched as it comes.
pub(crate) async fn fetch(
    client: &Client,
    link: &Value,
    file: &mut impl Write,
    name: &str,
    meter: &Meter,
) -> anyhow::Result<()> {
    let mut opened = client.open(link).await.map_err(explain)?;
    let bar = meter.download(name, opened.size);
    let mut received: u64 = 0;
    while let Some(bytes) = opened.bytes.next().await {
        let bytes = bytes.map_err(|error| {
            let message =
                format!("the download of {name} broke off: {}", neutral(&error.to_string()));
            Failure::new(Exit::Unreachable, message)
        })?;
        received += bytes.len() as u64;
        file.write_all(&bytes).with_context(|| format!("{name} cannot be written"))?;
        bar.inc(bytes.len() as u64);
    }
    bar.finish_and_clear();
    match opened.size {
        Some(size) if size != received => {
            let message =
                format!("the download of {name} broke off after {received} of {size} bytes");
            Err(Failure::new(Exit::Unreachable, message).into())
        }
        _ => Ok(()),
    }
}

/// Gives a complete file its name, or the next one that is free: nothing is written over.
fn place(mut file: NamedTempFile, folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let (stem, ending) = match name.rfind('.').filter(|place| *place > 0) {
        Some(place) => name.split_at(place),
        None => (name, ""),
    };
    for number in 1..MOST_COPIES {
        let name = if number == 1 { name.to_owned() } else { format!("{stem}-{number}{ending}") };
        let path = folder.join(name);
        match file.persist_noclobber(&path) {
            Ok(_) => return Ok(path),
            Err(taken) if taken.error.kind() == ErrorKind::AlreadyExists => file = taken.file,
            Err(failed) => {
                return Err(failed.error)
                    .with_context(|| format!("{} cannot be made", path.display()));
            }
        }
    }
    anyhow::bail!("{} has too many files called {name}", folder.display())
}

/// A name of a server's, as the name of a file in the folder that was chosen and nowhere else.
fn harmless(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let is_odd = |character: char| {
        character.is_control()
            || "<>:\"|?*".contains(character)
            || neutral(&character.to_string()) != character.to_string()
    };
    let plain: String =
        last.chars().map(|character| if is_odd(character) { '_' } else { character }).collect();
    // Hidden files, and names that are commands of another system.
    let plain = plain.trim_matches(|character: char| character == '.' || character.is_whitespace());
    let stem = plain.split('.').next().unwrap_or_default().to_ascii_uppercase();
    let is_device = ["CON", "PRN", "AUX", "NUL"].contains(&stem.as_str())
        || (stem.len() == 4 && (stem.starts_with("COM") || stem.starts_with("LPT")));
    let mut kept = String::new();
    for character in plain.chars() {
        if kept.len() + character.len_utf8() > LONGEST_NAME {
            break;
        }
        kept.push(character);
    }
    match kept.is_empty() || is_device || kept.starts_with('-') {
        true => format!("file_{kept}"),
        false => kept,
    }
}

fn of_uri(uri: &Value, place: usize) -> String {
    let uri = uri.as_str().unwrap_or_default();
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    match path.rsplit('/').next().filter(|name| !name.is_empty()) {
        Some(name) => name.to_owned(),
        None => format!("resource-{place}"),
    }
}

/// The usual ending for a kind of file: mostly what stands behind the slash.
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

/// Where `_meta` has what is known of content that travels beside its message.
const DOWNLOAD: &str = "mcp-flow/download";

/// How many downloads run at the same time.
const AT_ONCE: usize = 4;
const MOST_COPIES: usize = 10_000;
const LONGEST_NAME: usize = 120;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Piece, harmless, pieces, place};

    /// PAT-023: whatever a server calls a file, it lands in the folder, in plain sight.
    #[test]
    fn no_name_leads_out_of_the_folder() {
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
            assert_eq!(harmless(name), file, "{name:?}");
        }
        assert!(harmless(&"é".repeat(500)).len() <= 120);
    }

    #[test]
    fn nothing_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        for expected in ["a.txt", "a-2.txt", "a-3.txt"] {
            let file = tempfile::NamedTempFile::new_in(folder.path()).unwrap();
            let path = place(file, folder.path(), "a.txt").unwrap();
            assert_eq!(path, folder.path().join(expected));
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "and nothing is left");
    }

    /// C-25, C-26: in the official forms and those of seed 002.
    #[test]
    fn what_can_be_saved_is_found() {
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
            Piece::Elsewhere { name: name.to_owned(), link }
        };
        let held =
            |name: &str, data: &[u8]| Piece::Held { name: name.to_owned(), data: data.to_vec() };
        let elsewhere = |name: &str, place: usize| Piece::Elsewhere {
            name: name.to_owned(),
            link: content[place].clone(),
        };
        assert_eq!(
            pieces(&content),
            [
                held("image-2.png", &[0, 0, 0]),
                elsewhere("big.bin", 2),
                elsewhere("big.log", 3),
                elsewhere("stream-5.txt", 4),
                held("y.txt", b"hi"),
                linked("a.png", "http://h/a.png"),
                linked("b", "notes:/b"),
                held("embedded-9.pdf", &[0, 0, 0]),
            ]
        );
    }
}
