//! Where the servers to be measured are on disk, and how the one that is ours gets there.

use std::{
    env, fs,
    io::ErrorKind,
    path::{self, Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail, ensure};

/// Which `mcp-flow` to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct McpFlow {
    /// Measure this program instead of building `mcp-flow` from the workspace
    #[arg(long = "mcp-flow", value_name = "PATH")]
    path: Option<PathBuf>,
}

impl McpFlow {
    /// Returns the program to measure, freshly built unless one was named.
    pub(crate) fn locate(&self, target: &Target) -> anyhow::Result<PathBuf> {
        match &self.path {
            // Made absolute, or a bare name would be looked up among installed programs.
            Some(program) if program.is_file() => Ok(path::absolute(program)?),
            Some(program) => bail!("there is no program {program:?} to measure"),
            None => target.build_mcp_flow(),
        }
    }
}

/// The build directory that this program was started from.
pub(crate) struct Target {
    /// This program, which also holds the servers it compares with.
    pub(crate) benches: PathBuf,
    directory: PathBuf,
}

impl Target {
    pub(crate) fn find() -> anyhow::Result<Self> {
        if cfg!(debug_assertions) {
            bail!("this is a debug build, whose numbers mean nothing; run it with --release");
        }
        let benches = env::current_exe().context("cannot find this program on disk")?;
        let directory = benches.ancestors().nth(2).map(Path::to_owned);
        let directory = directory.context("this program is not in a build directory")?;
        Ok(Self { benches, directory })
    }

    /// The build directory itself.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where results are left for other programs to read.
    pub(crate) fn results(&self) -> PathBuf {
        self.directory.join("benches")
    }

    /// An empty folder for servers to run in, because some leave a journal where they are started.
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
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--release", "-p", "mcp-flow-cli", "--bin", "mcp-flow"])
            .arg("--target-dir")
            .arg(&self.directory)
            .current_dir(WORKSPACE)
            .status()
            .context("cannot run cargo to build mcp-flow")?;
        ensure!(
            status.success(),
            "mcp-flow does not build, so there is nothing to measure; cargo says why above \
             (--mcp-flow PATH measures another program)"
        );
        Ok(self.directory.join("release/mcp-flow"))
    }
}

impl Target {
    /// Builds an example of ours, and says where it is.
    pub(crate) fn build_example(&self, name: &str) -> anyhow::Result<PathBuf> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--release", "-p", "mcp-flow-examples", "--example", name])
            .arg("--target-dir")
            .arg(&self.directory)
            .current_dir(WORKSPACE)
            .status()
            .context("cannot run cargo to build an example")?;
        ensure!(status.success(), "the example {name} does not build; cargo says why above");
        Ok(self.directory.join("release/examples").join(name))
    }
}

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
