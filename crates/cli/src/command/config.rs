//! `mcp-flow config`: checks and shows configuration files, generates tokens and keys.

mod reference;

use std::path::PathBuf;
use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_flow::TokenHash;

use super::tool::check as tool_files;
use crate::configuration::File;
use crate::server::access;
use crate::terminal::output;

/// Validate and show configuration files, and generate tokens and keys
#[derive(Debug, clap::Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Validate a configuration file
    Check {
        /// Configuration file
        #[arg(value_name = "FILE", env = "MCP_FLOW_CONFIG")]
        file: PathBuf,
    },
    /// Print the effective configuration, including defaults, without secrets
    Show {
        /// Configuration file [default: print the defaults only]
        #[arg(value_name = "FILE", env = "MCP_FLOW_CONFIG")]
        file: Option<PathBuf>,
    },
    /// Print the JSON Schema of the configuration file
    Schema {
        /// Print a reference of all keys in Markdown instead
        #[arg(long)]
        markdown: bool,
    },
    /// Generate a random bearer token and its configuration entry
    Token {
        /// Principal that the token authenticates
        name: String,
    },
    /// Generate a random key for message signing or session encryption
    Key,
}

/// Generates 32 random bytes as text.
fn generate_secret() -> anyhow::Result<String> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)
        .map_err(|_| anyhow::anyhow!("the system has no source of randomness"))?;
    Ok(URL_SAFE_NO_PAD.encode(secret))
}

impl Config {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.action {
            Action::Check { file } => {
                let read = File::read_and_check(&file, access::check)?;
                if !tool_files::are_valid(&tool_files::problems_of(&read.offer.tools)?)? {
                    return Ok(ExitCode::FAILURE);
                }
                let sections = read.client_sections();
                if !sections.is_empty() {
                    eprintln!(
                        "warning: {} {} used only by client commands such as `call` and `tools`; \
                         `serve` and `stdio` ignore {}",
                        sections.join(", "),
                        if sections.len() == 1 { "is" } else { "are" },
                        if sections.len() == 1 { "it" } else { "them" },
                    );
                }
                output::print(&format!("{} is valid\n", file.display()))?;
            }
            Action::Show { file } => {
                let file = File::read_or_default(file.as_deref())?.without_secrets();
                output::print(&toml::to_string_pretty(&file)?)?;
            }
            Action::Schema { markdown: true } => {
                output::print(&reference::render(&File::schema()))?;
            }
            Action::Schema { markdown: false } => {
                output::print(&format!("{:#}\n", File::schema()))?;
            }
            Action::Token { name } => {
                mcp_flow::identity::check_name(&name).map_err(anyhow::Error::msg)?;
                let token = generate_secret()?;
                let hash = TokenHash::of(&token);
                eprintln!("The token is shown only once. Add this to the configuration file:\n");
                eprintln!("[[identity.tokens]]\nname = {name:?}\nsha256 = \"{hash}\"\n");
                output::print(&format!("{token}\n"))?;
            }
            Action::Key => {
                eprintln!(
                    "The key is shown only once. Store it at client and server in a file with mode 600, \
                     newest key first, or in an environment variable."
                );
                output::print(&format!("{}\n", generate_secret()?))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
