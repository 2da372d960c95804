//! Web console and browser client.
//!
//! Serves the embedded files of `console/`, and `/connect.json`, which has the address and
//! certificate hash for WebTransport.
//!
//! ```no_run
//! # async fn example(server: mcp_flow_http::Bound) {
//! let server = server.pages(mcp_flow_console::Console::default());
//! # let _ = server;
//! # }
//! ```

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use mcp_flow_http::{Page, StaticPages};
use serde_json::{Value, json};

include!(concat!(env!("OUT_DIR"), "/files.rs"));

pub(crate) struct File {
    path: &'static str,
    tag: &'static str,
    body: &'static [u8],
    zipped: &'static [u8],
}

/// The console of one server.
#[derive(Clone)]
pub struct Console {
    connect: Arc<dyn Fn() -> Value + Send + Sync>,
    /// Directory to read the files from instead, during development.
    folder: Option<PathBuf>,
}

impl Default for Console {
    fn default() -> Self {
        Self { connect: Arc::new(|| json!({})), folder: None }
    }
}

impl Console {
    /// Sets the content of `/connect.json`, to which the path of Streamable HTTP is added. Called
    /// for each request, because certificates change.
    #[must_use]
    pub fn connect(mut self, connect: impl Fn() -> Value + Send + Sync + 'static) -> Self {
        self.connect = Arc::new(connect);
        self
    }

    /// Reads the files from a directory on each request, for development.
    #[must_use]
    pub fn from_folder(mut self, folder: PathBuf) -> Self {
        self.folder = Some(folder);
        self
    }

    fn read(&self, path: &str) -> Option<Page> {
        let Some(folder) = &self.folder else {
            let file = FILES.iter().find(|file| file.path == path)?;
            let body = Bytes::from_static(file.body);
            let page = Page::new(kind_of(path), body).tag(file.tag);
            // Compressed only if that is smaller.
            let is_shorter = file.zipped.len() < file.body.len();
            let zipped = is_shorter.then(|| Bytes::from_static(file.zipped));
            return Some(match zipped {
                Some(zipped) => page.zipped(zipped),
                None => page,
            });
        };
        // No path traversal, no hidden files, and only the types that are embedded.
        let is_plain = path.split('/').all(|part| !part.starts_with('.'));
        let kind = kind_of(path);
        if !is_plain || kind == OTHER {
            return None;
        }
        let body = std::fs::read(folder.join(path.trim_start_matches('/'))).ok()?;
        Some(Page::new(kind, body.into()))
    }
}

impl StaticPages for Console {
    fn find(&self, path: &str) -> Option<Page> {
        match path {
            "/" => self.read("/index.html"),
            "/connect.json" => {
                let mut told = (self.connect)();
                told["mcp"] = "/mcp".into();
                Some(Page::new("application/json", told.to_string().into()))
            }
            path => self.read(path),
        }
    }

    fn policy(&self, path: &str) -> &str {
        if path == APP_FRAME { APP_POLICY } else { POLICY }
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Console").field("folder", &self.folder).finish_non_exhaustive()
    }
}

fn kind_of(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => OTHER,
    }
}

const OTHER: &str = "application/octet-stream";

/// Content security policy: own scripts and styles only, none inline, and no way to turn text into
/// markup. Images and sound from tool results are data and blob URLs. Frames are those of apps.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data: blob:; media-src data: blob:; connect-src 'self' https:; \
    frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// The page in whose frame apps of servers run.
const APP_FRAME: &str = "/app-frame.html";

/// Content security policy of that page, and the most that any app gets: an opaque origin, and
/// encrypted connections only. Before an app is shown, the page adds the app's own policy, which both
/// must satisfy. Its script is inline: a document of opaque origin may not load one of this server.
const APP_POLICY: &str = "sandbox allow-scripts allow-forms; default-src 'none'; \
    script-src 'unsafe-inline' https:; style-src 'unsafe-inline' https:; \
    img-src data: blob: https:; font-src data: https:; media-src data: blob: https:; \
    connect-src https: wss:; frame-src https:; base-uri https:; form-action 'none'; \
    frame-ancestors 'self'";

#[cfg(test)]
mod tests {
    use super::Console;
    use mcp_flow_http::StaticPages;

    #[test]
    fn only_pages_scripts_styles_and_icons_are_served() {
        let console = Console::default();
        for path in [
            "/",
            "/index.html",
            "/app.js",
            "/client.js",
            "/connect.json",
            "/icon.svg",
            "/app-frame.html",
        ] {
            assert!(console.find(path).is_some(), "{path}");
        }
        for path in ["", "/nothing.js", "/../Cargo.toml", "/tsconfig.json", "/README.md"] {
            assert!(console.find(path).is_none(), "{path}");
        }
    }

    /// Pages contain nothing that the content security policy forbids.
    #[test]
    fn pages_comply_with_the_content_security_policy() {
        for file in super::FILES.iter().filter(|file| file.path.ends_with(".html")) {
            if file.path == super::APP_FRAME {
                continue;
            }
            let text = std::str::from_utf8(file.body).unwrap_or_default();
            for banned in ["<style", "style=", "onclick", "javascript:", "//cdn", "<script>"] {
                assert!(!text.contains(banned), "{} has {banned}", file.path);
            }
        }
    }

    /// Compressed size of the files that the first view loads; a test in a browser counts the bytes
    /// of the whole exchange.
    #[test]
    fn the_first_view_is_small() {
        let is_later = |path: &str| {
            let later = ["/example", "/lib/app/", "/app-frame", "/views/"];
            path != "/views/tools.js"
                && path != "/lib/app/tools.js"
                && later.iter().any(|start| path.starts_with(start))
        };
        let first = super::FILES.iter().filter(|file| !is_later(file.path));
        let total: usize = first.map(|file| file.zipped.len()).sum();
        assert!(total < 64_000, "{total} bytes");
    }

    /// Apps have an opaque origin, and only the console frames them.
    #[test]
    fn apps_are_framed_with_a_policy_of_their_own() {
        let console = Console::default();
        let frame = console.policy("/app-frame.html");
        for part in
            ["sandbox allow-scripts allow-forms;", "default-src 'none'", "frame-ancestors 'self'"]
        {
            assert!(frame.contains(part), "{frame}");
        }
        assert!(!frame.contains("allow-same-origin") && !frame.contains("eval"), "{frame}");
        for path in ["/", "/index.html", "/app.js"] {
            let policy = console.policy(path);
            assert!(policy.contains("frame-src 'self'") && !policy.contains("unsafe"), "{policy}");
        }
    }
}
