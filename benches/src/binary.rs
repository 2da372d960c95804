//! Locates and builds the programs under measurement.

use std::{
    env, fs,
    io::ErrorKind,
    path::{self, Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail, ensure};

/// Selects the `mcp-flow` program to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct McpFlow {
    /// Measure this program instead of building `mcp-flow` from the workspace
    #[arg(long = "mcp-flow", value_name = "PATH")]
    path: Option<PathBuf>,
}

impl McpFlow {
    /// Returns the program to measure, built first unless a path was given.
    pub(crate) fn locate(&self, target: &Target) -> anyhow::Result<PathBuf> {
        match &self.path {
            // Made absolute, because a bare name would be searched in `PATH`.
            Some(program) if program.is_file() => Ok(path::absolute(program)?),
            Some(program) => bail!("there is no program {program:?} to measure"),
            None => target.build_mcp_flow(),
        }
    }
}

/// The build directory that this program was started from.
pub(crate) struct Target {
    /// This program, which also contains the reference servers.
    pub(crate) benches: PathBuf,
    directory: PathBuf,
    profile: String,
}

impl Target {
    pub(crate) fn find() -> anyhow::Result<Self> {
        if cfg!(debug_assertions) {
            bail!("this is a debug build, whose numbers mean nothing; run it with --profile dist");
        }
        let benches = env::current_exe().context("cannot find this program on disk")?;
        let directory = benches.ancestors().nth(2).map(Path::to_owned);
        let directory = directory.context("this program is not in a build directory")?;
        Ok(Self { benches, directory, profile: profile()? })
    }

    /// Returns the build directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the directory for result files.
    pub(crate) fn results(&self) -> PathBuf {
        self.directory.join("benches")
    }

    /// Creates an empty working directory for servers, because some leave a journal there.
    pub(crate) fn scratch(&self) -> anyhow::Result<PathBuf> {
        let folder = self.results().join("scratch");
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => fs::create_dir_all(&folder),
        }
        .with_context(|| format!("cannot empty {folder:?}"))?;
        Ok(folder)
    }

    fn build_mcp_flow(&self) -> anyhow::Result<PathBuf> {
        let built = self.build(&["-p", "mcp-flow-cli", "--bin", "mcp-flow"])?;
        Ok(built.join("mcp-flow"))
    }

    /// Builds an example of the workspace and returns its path.
    pub(crate) fn build_example(&self, name: &str) -> anyhow::Result<PathBuf> {
        let built = self.build(&["-p", "mcp-flow-examples", "--example", name])?;
        Ok(built.join("examples").join(name))
    }

    /// Builds a package with the profile of this program, which contains the reference servers.
    fn build(&self, what: &[&str]) -> anyhow::Result<PathBuf> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--profile", &self.profile])
            .args(what)
            .arg("--target-dir")
            .arg(&self.directory)
            .current_dir(WORKSPACE)
            .status()
            .context("cannot run cargo")?;
        ensure!(
            status.success(),
            "there is nothing to measure, because `cargo build {}` failed; its output is above \
             (--mcp-flow PATH measures another program)",
            what.join(" ")
        );
        Ok(self.directory.join(&self.profile))
    }
}

/// Returns the cargo profile this program was built with, taken from its directory.
pub(crate) fn profile() -> anyhow::Result<String> {
    let benches = env::current_exe().context("cannot find this program on disk")?;
    let name = benches.parent().and_then(Path::file_name);
    Ok(name.context("this program is not in a build directory")?.to_string_lossy().into_owned())
}

pub(crate) const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
