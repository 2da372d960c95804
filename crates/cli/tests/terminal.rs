//! Interactive use of the real program in a pseudo-terminal.

mod cancellation;
mod first_use;
mod prompts;
mod withdrawn_prompts;

use std::process::Command;

use mcp_flow_testkit::wait::output;
use rexpect::session::{Options, PtySession, spawn_with_options};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// A store in a folder of its own.
struct StoreFixture {
    folder: tempfile::TempDir,
    store: String,
}

impl StoreFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = format!("redb:{}", folder.path().join("journal.redb").display());
        Self { folder, store }
    }

    /// `mcp-flow call` with a stdio server.
    fn call(&self, words: &[&str]) -> Terminal {
        let server = ["--", PROGRAM, "stdio", "--diagnostics", "--store", &self.store];
        Terminal::start(&[&["call"], words, &server].concat())
    }

    /// Runs `mcp-flow sessions answer`, and returns its JSON output and exit code.
    fn answer(&self, id: &str, value: &str) -> (Value, i32) {
        let words = ["sessions", "answer", id, value, "--store", &self.store, "--format", "json"];
        let output = output(Command::new(PROGRAM).args(words));
        (serde_json::from_slice(&output.stdout).unwrap(), output.status.code().unwrap())
    }
}

/// A pseudo-terminal that runs the program.
struct Terminal {
    session: PtySession,
}

impl Terminal {
    fn start(arguments: &[&str]) -> Self {
        Self::run("exec \"$0\" \"$@\"", arguments)
    }

    /// Runs a shell line, in which `"$0" "$@"` is the program with its arguments.
    fn run(line: &str, arguments: &[&str]) -> Self {
        let command = Self::command(120, &[("TERM", "xterm"), ("NO_COLOR", "1")], line, arguments);
        let options = Options::new().timeout_ms(Some(60_000)).strip_ansi_escape_codes(true);
        Self { session: spawn_with_options(command, options).unwrap() }
    }

    /// Runs a shell line in a terminal of this width and kind, and sees its escape sequences.
    fn of(columns: usize, variables: &[(&str, &str)], line: &str, arguments: &[&str]) -> Self {
        let command = Self::command(columns, variables, line, arguments);
        let options = Options::new().timeout_ms(Some(60_000));
        Self { session: spawn_with_options(command, options).unwrap() }
    }

    fn command(
        columns: usize,
        variables: &[(&str, &str)],
        line: &str,
        arguments: &[&str],
    ) -> Command {
        // A new pseudo-terminal has no size, which no real terminal has.
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("stty cols {columns} rows 40; {line}"), PROGRAM])
            .args(arguments)
            .envs(variables.iter().copied());
        command
    }

    fn expect(&mut self, text: &str) {
        self.session.exp_string(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    }

    /// Waits for a pattern, and returns its last word.
    fn find(&mut self, pattern: &str) -> String {
        let (_, found) = self.session.exp_regex(pattern).unwrap();
        found.split_whitespace().last().unwrap().to_owned()
    }

    fn enter(&mut self, text: &str) {
        self.press(text);
        self.press(ENTER);
    }

    fn press(&mut self, keys: &str) {
        self.session.send(keys).unwrap();
        self.session.flush().unwrap();
    }

    fn ends_with(&mut self, code: i32) {
        let rest = self.session.exp_eof().unwrap();
        let ended = format!("{:?}", self.session.process().wait().unwrap());
        assert!(ended.ends_with(&format!(", {code})")), "{ended}: {rest}");
    }
}

const ENTER: &str = "\r";
const ALT_ENTER: &str = "\u{1b}\r";
const TAB: &str = "\t";
const DOWN: &str = "\u{1b}[B";
const BACKSPACE: &str = "\u{7f}";
const CTRL_C: &str = "\u{3}";
