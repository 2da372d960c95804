//! The user's web browser.

use std::process::{Command, Stdio};

use url::Url;

/// Opens a page in the user's browser. Returns false if there is none. The URL was checked to be http
/// or https.
pub(crate) fn open_browser(page: &Url) -> bool {
    let has = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let named = std::env::var("BROWSER").ok().filter(|name| !name.is_empty());
    let program = match named {
        Some(name) => name,
        None if cfg!(target_os = "macos") => "open".to_owned(),
        None if has("DISPLAY") || has("WAYLAND_DISPLAY") => "xdg-open".to_owned(),
        None => return false,
    };
    let mut command = Command::new(program);
    command.arg(page.as_str()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        Ok(mut browser) => {
            let page = page.clone();
            std::thread::spawn(move || match browser.wait() {
                Ok(ended) if ended.success() => {}
                _ => eprintln!("mcp-flow: the browser failed; open {page} yourself"),
            });
            true
        }
        Err(error) => {
            tracing::debug!(%error, "cannot open a browser");
            false
        }
    }
}
