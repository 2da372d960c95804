//! Serves over standard input and output, or over HTTP with `--listen ADDRESS`.

use std::error::Error;
use std::path::{Path, PathBuf};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // Hosts start servers in any directory.
    let folder = state_folder()?;
    std::fs::create_dir_all(&folder)?;
    std::env::set_current_dir(&folder)?;
    let server = NEW_CRATE::server(Path::new("journal.db"))?;
    match words[..] {
        [] => {
            mcp_flow::stdio::serve(&server).await?;
        }
        ["--listen", address] => {
            let stop = mcp_flow::stdio::stop_signal()?;
            let http = mcp_flow::http::bind(address.parse()?).await?;
            println!("http://{}/mcp", http.address());
            // Everybody who reaches the address is served: `http.verifier(…)` authenticates callers.
            http.serve(&server, stop).await;
        }
        _ => return Err("usage: NEW-NAME [--listen ADDRESS]".into()),
    }
    Ok(())
}

/// Directory of what the server keeps: the one that systemd or a container sets, or the user's.
fn state_folder() -> Result<PathBuf, Box<dyn Error>> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    if let Some(folder) = variable("STATE_DIRECTORY") {
        return Ok(folder);
    }
    let home = || std::env::home_dir().map(|home| home.join(".local/share"));
    let data = variable("XDG_DATA_HOME").or_else(home);
    Ok(data.ok_or("set STATE_DIRECTORY")?.join("NEW-NAME"))
}
