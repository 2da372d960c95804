//! `mcp-flow install`: adds a server to the configuration of MCP hosts.

mod edit;
mod host;

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

use crate::client::target::is_address;
use crate::configuration::ClientConfiguration;
use crate::exit::{Exit, Failure};
use crate::terminal::output::{self, sanitize};
use edit::HostEntry;
use host::HostName;

/// Add a server to the configuration of MCP hosts on this machine
///
/// Without --url and COMMAND, NAME is a server of the mcp-flow configuration, or else the name under
/// which hosts know this program's own server. Each change is shown before it is made, and the file is
/// copied first. Comments and formatting stay.
#[derive(Debug, clap::Args)]
pub(crate) struct Install {
    /// Name of the server in the hosts' configuration
    name: String,

    /// Host to configure; may be repeated [default: all that are found on this machine]
    #[arg(long = "host", value_enum, value_name = "HOST")]
    hosts: Vec<HostName>,

    /// Address of the server; hosts that only start commands get `mcp-flow bridge URL`
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,

    /// Configuration file that names the server, or with which this program serves
    #[arg(long, value_name = "FILE", env = "MCP_FLOW_CONFIG")]
    config: Option<PathBuf>,

    /// Make the changes without asking
    #[arg(long, short)]
    yes: bool,

    /// Print the entry for each host, and change nothing
    #[arg(long, conflicts_with = "yes")]
    print: bool,

    /// Command that starts the server
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Install {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        self.check_name()?;
        let hosts = self.hosts()?;
        let mut has_failed = false;
        for host in hosts {
            if let Err(error) = self.install(host) {
                eprintln!("mcp-flow: {}: {}", host.title(), sanitize(&format!("{error:#}")));
                has_failed = true;
            }
        }
        Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn check_name(&self) -> anyhow::Result<()> {
        let is_valid = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(is_valid) {
            let message = "a name has at most 64 letters, digits, dots, `_` and `-`";
            return Err(Failure::new(Exit::Usage, message).into());
        }
        match &self.url {
            Some(url) if !is_address(url) => {
                let message = format!("{url} is not a server address");
                Err(Failure::new(Exit::Usage, message).into())
            }
            _ => Ok(()),
        }
    }

    /// The hosts to configure.
    fn hosts(&self) -> anyhow::Result<Vec<HostName>> {
        if !self.hosts.is_empty() {
            return Ok(self.hosts.clone());
        }
        let found: Vec<_> = HostName::ALL.into_iter().filter(|host| host.is_found()).collect();
        if found.is_empty() && !self.print {
            let names: Vec<_> = HostName::ALL.iter().map(|host| host.name()).collect();
            let message = format!("no MCP host found; name one with --host: {}", names.join(", "));
            return Err(Failure::new(Exit::Usage, message).into());
        }
        Ok(if found.is_empty() { HostName::ALL.to_vec() } else { found })
    }

    /// The entry for a host.
    fn entry(&self, host: HostName) -> anyhow::Result<HostEntry> {
        let own = || -> anyhow::Result<String> {
            let program = std::env::current_exe().context("cannot find this program")?;
            Ok(program.to_string_lossy().into_owned())
        };
        let text = |text: &OsString| text.to_string_lossy().into_owned();
        if let Some((program, arguments)) = self.command.split_first() {
            let arguments = arguments.iter().map(text).collect();
            // Hosts start it in a directory of their own. A bare name is in the PATH.
            let path = Path::new(program);
            let is_name = path.components().count() == 1;
            let program = if is_name { text(program) } else { absolute(path)? };
            return Ok(HostEntry::Command { program, arguments });
        }
        if let Some(url) = &self.url {
            return Ok(match host.connects_to_addresses() && url.starts_with("http") {
                true => HostEntry::Address(url.clone()),
                false => HostEntry::Command {
                    program: own()?,
                    arguments: vec!["bridge".to_owned(), url.clone()],
                },
            });
        }
        let config = self.config.as_deref().map(absolute).transpose()?;
        let configuration = ClientConfiguration::read(self.config.as_deref())?;
        let mut arguments = match configuration.file_of(&self.name) {
            // Secrets stay in the one file, and logins work.
            Some(file) => {
                let file = absolute(file)?;
                vec!["bridge".to_owned(), self.name.clone(), "--config".to_owned(), file]
            }
            None => vec!["stdio".to_owned()],
        };
        if let (Some(config), 1) = (config, arguments.len()) {
            arguments.extend(["--config".to_owned(), config]);
        }
        Ok(HostEntry::Command { program: own()?, arguments })
    }

    fn install(&self, host: HostName) -> anyhow::Result<()> {
        let entry = self.entry(host)?;
        let path = host.file().context("no home directory")?;
        // The files of dotfile managers are links.
        let path = match std::fs::canonicalize(&path) {
            Err(_) if path.is_symlink() => anyhow::bail!(
                "{} is a link to a file that does not exist; create that file, or remove the link",
                path.display()
            ),
            found => found.unwrap_or(path),
        };
        if self.print {
            output::print(&format!("{} ({})", host.title(), path.display()))?;
            let whole = edit::add("", host.format(), &self.name, &entry)?;
            return output::print(whole.trim_end());
        }
        let before = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let after = edit::add(&before, host.format(), &self.name, &entry)
            .with_context(|| format!("{} was not changed", path.display()))?;
        if before == after {
            return output::print(&format!("{}: nothing to change", host.title()));
        }
        output::print(&format!("{} ({}):", host.title(), path.display()))?;
        output::print(&sanitize_lines(&edit::difference(&before, &after)))?;
        if !self.yes && !confirm()? {
            return output::print("not changed");
        }
        let backup = write(&path, &before, &after)?;
        match backup {
            Some(backup) => output::print(&format!("changed; backup: {}", backup.display())),
            None => output::print("created"),
        }
    }
}

fn sanitize_lines(text: &str) -> String {
    text.lines().map(sanitize).collect::<Vec<_>>().join("\n")
}

fn absolute(path: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(path);
    Ok(path.context("no working directory")?.to_string_lossy().into_owned())
}

/// Asks for confirmation in the terminal.
fn confirm() -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        let message = "standard input is not a terminal; pass --yes to make this change";
        return Err(Failure::new(Exit::Usage, message).into());
    }
    eprint!("Make this change? [y/N] ");
    std::io::stderr().flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// Writes the file at once, after a copy of what it was. Returns the copy.
fn write(path: &Path, before: &str, after: &str) -> anyhow::Result<Option<PathBuf>> {
    let cannot = || format!("cannot write {}", path.display());
    let folder = path.parent().context("the file has no directory")?;
    std::fs::create_dir_all(folder).with_context(cannot)?;
    let is_new = !path.exists();
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(cannot)?;
    file.write_all(after.as_bytes()).with_context(cannot)?;
    if is_new {
        file.persist_noclobber(path).with_context(cannot)?;
        return Ok(None);
    }
    let permissions = std::fs::metadata(path).with_context(cannot)?.permissions();
    file.as_file().set_permissions(permissions.clone()).with_context(cannot)?;
    let time = chrono::Utc::now().format("%Y%m%d-%H%M%S%3f");
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let backup = folder.join(format!("{name}.backup-{time}"));
    let cannot_copy = || format!("cannot write {}", backup.display());
    // Nobody else reads it, until it has the permissions of the original.
    let mut copy = tempfile::NamedTempFile::new_in(folder).with_context(cannot_copy)?;
    copy.write_all(before.as_bytes()).with_context(cannot_copy)?;
    copy.as_file().set_permissions(permissions).with_context(cannot_copy)?;
    copy.persist_noclobber(&backup).with_context(cannot_copy)?;
    // The host may have written it since.
    if std::fs::read_to_string(path).with_context(cannot)? != before {
        anyhow::bail!("{} has changed meanwhile; try again", path.display());
    }
    file.persist(path).with_context(cannot)?;
    Ok(Some(backup))
}
