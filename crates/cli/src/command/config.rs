//! `mcp-flow config`: looking at a configuration file before a server does.

use std::path::PathBuf;
use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_flow::TokenHash;

use crate::configuration::File;
use crate::{guarded, show};

/// Check and show configuration files, and make tokens and keys for them
#[derive(Debug, clap::Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Say what is wrong with a file, if anything is
    Check {
        /// The file
        #[arg(value_name = "FILE", env = "MCP_FLOW_CONFIG")]
        file: PathBuf,
    },
    /// Print everything that is set, by a file or by default; without secrets
    Show {
        /// The file; the defaults alone without
        #[arg(value_name = "FILE", env = "MCP_FLOW_CONFIG")]
        file: Option<PathBuf>,
    },
    /// Print what a file may hold, as JSON Schema
    Schema,
    /// Make a random token, and what a file says of it
    Token {
        /// The principal it is for
        name: String,
    },
    /// Make a random key, for signing messages or sealing states
    Key,
}

/// 32 random bytes, as text.
fn secret() -> anyhow::Result<String> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|_| anyhow::anyhow!("the system has no randomness"))?;
    Ok(URL_SAFE_NO_PAD.encode(secret))
}

impl Config {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.what {
            What::Check { file } => {
                let read = File::read_and_check(&file, guarded::check)?;
                let sections = read.client_sections();
                if !sections.is_empty() {
                    eprintln!(
                        "warning: {} {} used by client commands such as `call` and `tools` only; \
                         `serve` and `stdio` ignore {}",
                        sections.join(", "),
                        if sections.len() == 1 { "is" } else { "are" },
                        if sections.len() == 1 { "it" } else { "them" },
                    );
                }
                show::print(&format!("{} is good\n", file.display()))?;
            }
            What::Show { file } => {
                let file = File::read_or_default(file.as_deref())?.without_secrets();
                show::print(&toml::to_string_pretty(&file)?)?;
            }
            What::Schema => {
                show::print(&format!("{:#}\n", File::schema()))?;
            }
            What::Token { name } => {
                mcp_flow::identity::check_name(&name).map_err(anyhow::Error::msg)?;
                let token = secret()?;
                let hash = TokenHash::of(&token);
                eprintln!("The token is printed once. Add this to the configuration:\n");
                eprintln!("[[identity.tokens]]\nname = {name:?}\nsha256 = \"{hash}\"\n");
                show::print(&format!("{token}\n"))?;
            }
            What::Key => {
                eprintln!(
                    "The key is printed once. Keep it in a file of mode 600 at both ends, the newest \
                     first, or in an environment variable."
                );
                show::print(&format!("{}\n", secret()?))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
