//! `mcp-flow serve` with a configuration file.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use mcp_flow_testkit::wait::Deadline;
use serde_json::Value;

/// The program in a folder, without environment variables that change its configuration.
pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-flow"));
    command.current_dir(folder).args(arguments);
    for name in ["TOKEN", "CONFIG", "LOG", "SIGNING_KEY", "SIGNING_KEY_FILE"] {
        command.env_remove(format!("MCP_FLOW_{name}"));
    }
    command
}

/// A server with the configuration `flow.toml`.
pub(crate) struct ConfiguredServer {
    program: Child,
    stderr: BufReader<ChildStderr>,
    /// The endpoints that it printed when it was ready.
    pub(crate) endpoints: Value,
    _deadline: Deadline,
}

impl ConfiguredServer {
    /// Starts it on a free port of the loopback interface, with more arguments.
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", folder, arguments)
    }

    /// Starts it at an address, with more arguments.
    pub(crate) fn start_at(listen: &str, folder: &Path, arguments: &[&str]) -> Self {
        let fixed = ["serve", "--json", "--listen", listen, "--config", "flow.toml"];
        let mut program = command(folder, &fixed)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let _deadline = Deadline::of(&program);
        let mut line = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let stderr = BufReader::new(program.stderr.take().unwrap());
        Self { program, stderr, endpoints: serde_json::from_str(&line).unwrap(), _deadline }
    }

    /// Reloads the file, waits for the log line with the outcome, and returns the lines before it.
    pub(crate) fn reload(&mut self, received: &str) -> String {
        self.signal("-HUP");
        let (mut said, mut line) = (String::new(), String::new());
        while !line.contains("reloaded") {
            said += &std::mem::take(&mut line);
            assert!(self.stderr.read_line(&mut line).unwrap() > 0, "the program has ended: {said}");
        }
        assert!(line.contains(received), "{line}");
        said
    }

    /// Sends SIGTERM, and checks that it exits with 0.
    pub(crate) fn end(mut self) {
        self.signal("-TERM");
        assert_eq!(self.program.wait().unwrap().code(), Some(0));
    }

    fn signal(&self, name: &str) {
        let id = self.program.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }
}

impl Drop for ConfiguredServer {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
