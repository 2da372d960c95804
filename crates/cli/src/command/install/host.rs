//! MCP hosts whose configuration is known: where it is, and its format.

use std::path::PathBuf;

use clap::ValueEnum;

/// MCP host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum HostName {
    ClaudeDesktop,
    ClaudeCode,
    Vscode,
    Cursor,
    Gemini,
    Codex,
}

/// Format of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON, perhaps with comments.
    Json {
        /// Member with the servers.
        section: &'static str,
        /// Member with the address of a server.
        address: &'static str,
        /// True if each server says its type.
        has_type: bool,
    },
    /// TOML with tables `[mcp_servers.NAME]`.
    Toml,
}

impl HostName {
    pub(super) const ALL: [Self; 6] = [
        Self::ClaudeDesktop,
        Self::ClaudeCode,
        Self::Vscode,
        Self::Cursor,
        Self::Gemini,
        Self::Codex,
    ];

    /// The name as an option.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Vscode => "vscode",
            Self::Cursor => "cursor",
            Self::Gemini => "gemini",
            Self::Codex => "codex",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "Claude Desktop",
            Self::ClaudeCode => "Claude Code",
            Self::Vscode => "VS Code",
            Self::Cursor => "Cursor",
            Self::Gemini => "Gemini CLI",
            Self::Codex => "Codex",
        }
    }

    /// The user's configuration file.
    pub(super) fn file(self) -> Option<PathBuf> {
        let home = std::env::home_dir()?;
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let (named, usual) = match std::env::consts::OS {
            "macos" => (None, "Library/Application Support"),
            "windows" => (variable("APPDATA"), "AppData/Roaming"),
            _ => (variable("XDG_CONFIG_HOME"), ".config"),
        };
        let named = named.filter(|folder| folder.is_absolute());
        let applications = named.unwrap_or_else(|| home.join(usual));
        Some(match self {
            Self::ClaudeDesktop => applications.join("Claude/claude_desktop_config.json"),
            Self::ClaudeCode => match variable("CLAUDE_CONFIG_DIR") {
                Some(folder) => folder.join(".claude.json"),
                None => home.join(".claude.json"),
            },
            Self::Vscode => applications.join("Code/User/mcp.json"),
            Self::Cursor => home.join(".cursor/mcp.json"),
            Self::Gemini => home.join(".gemini/settings.json"),
            Self::Codex => {
                variable("CODEX_HOME").unwrap_or_else(|| home.join(".codex")).join("config.toml")
            }
        })
    }

    /// Returns whether the host was ever used on this machine.
    pub(super) fn is_found(self) -> bool {
        let Some(file) = self.file() else { return false };
        match self {
            // Its directory is the home directory.
            Self::ClaudeCode => file.is_file(),
            _ => file.parent().is_some_and(std::path::Path::is_dir),
        }
    }

    pub(super) fn format(self) -> Format {
        match self {
            Self::ClaudeDesktop | Self::Cursor => {
                Format::Json { section: "mcpServers", address: "url", has_type: false }
            }
            Self::ClaudeCode => {
                Format::Json { section: "mcpServers", address: "url", has_type: true }
            }
            Self::Vscode => Format::Json { section: "servers", address: "url", has_type: true },
            Self::Gemini => {
                Format::Json { section: "mcpServers", address: "httpUrl", has_type: false }
            }
            Self::Codex => Format::Toml,
        }
    }

    /// Returns whether the host's file may name an address instead of a command.
    pub(super) fn connects_to_addresses(self) -> bool {
        self != Self::ClaudeDesktop
    }
}
