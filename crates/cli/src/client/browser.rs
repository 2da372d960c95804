//! The user's web browser.

use std::process::{Command, Stdio};

use url::Url;

/// Opens a page in the user's browser. Returns false if there is none. The URL was checked to be http
/// or https.
pub(crate) fn open_browser(page: &Url) -> bool {
    let has = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let named = std::env::var("BROWSER").ok().filter(|name| !name.is_empty());
    let (program, argument) = match &named {
        Some(name) => (&**name, None),
        None if cfg!(target_os = "macos") => ("open", None),
        None if cfg!(windows) => ("rundll32", Some("url.dll,FileProtocolHandler")),
        None if has("DISPLAY") || has("WAYLAND_DISPLAY") => ("xdg-open", None),
        None => return false,
    };
    let mut command = Command::new(program);
    command.args(argument).arg(page.as_str());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
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
