//! Serves over standard input and output, or over HTTP with `--listen ADDRESS`.

use std::error::Error;
use std::path::Path;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let server = NEW_CRATE::server(Path::new(".mcp-flow/journal.db"))?;
    match words[..] {
        [] => {
            mcp_flow::stdio::serve(&server).await?;
        }
        ["--listen", address] => {
            let stop = mcp_flow::stdio::stop_signal()?;
            let http = mcp_flow::http::bind(address.parse()?).await?;
            println!("http://{}/mcp", http.address());
            http.serve(&server, stop).await;
        }
        _ => return Err("usage: NEW-NAME [--listen ADDRESS]".into()),
    }
    Ok(())
}
