//! The first words to a person, in terminals of any width, with and without colour.

use super::{CTRL_C, PROGRAM, Terminal};

/// Without arguments, five lines say what is served, where the console is and what to try next.
#[test]
fn a_person_is_welcomed_in_five_lines() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = folder.path().join("config.toml");
    std::fs::write(
        &configuration,
        "[serve]\nlisten = \"127.0.0.1:0\"\n[offer]\nstore = \"memory:\"\n",
    )
    .unwrap();
    let configuration = configuration.to_str().unwrap();
    for (columns, terminal, tried) in
        [(40, "dumb", "mcp-flow tools "), (120, "xterm", "mcp-flow call ")]
    {
        let variables = [("TERM", terminal), ("MCP_FLOW_CONFIG", configuration)];
        let mut terminal = Terminal::of(columns, &variables, "exec \"$0\" \"$@\"", &[]);
        let text = terminal.session.exp_string("mcp-flow --help").unwrap();
        for part in [" tools and ", " prompts", "Console", "/mcp", tried] {
            assert!(text.contains(part), "{part:?}: {text}");
        }
        assert_eq!(text.matches('\n').count(), 4, "{text}");
        assert!(!text.contains(":4433"), "the configuration file was not read: {text}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
        for line in text.lines() {
            // The free port has up to one digit more than the usual one.
            assert!(line.len() <= columns + 1, "{line:?}");
        }
        terminal.press(CTRL_C);
        terminal.ends_with(0);
    }
}

/// A terminal without a cursor gets lines: questions, answers and results, and no escape sequences.
#[test]
fn a_dumb_terminal_gets_no_escape_sequences() {
    let server = ["--", PROGRAM, "stdio", "--store", "memory:"];
    let mut terminal = Terminal::of(
        40,
        &[("TERM", "dumb")],
        "exec \"$0\" \"$@\"",
        &[&["call", "register", "--log-level=info"], &server[..]].concat(),
    );
    let mut text = terminal.session.exp_string("name").unwrap();
    terminal.enter("Ada");
    text += &terminal.session.exp_string("mail").unwrap();
    terminal.enter("ada@example.com");
    text += &terminal.session.exp_string("ada@example.com").unwrap();
    text += &terminal.session.exp_eof().unwrap();
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

/// A list fits a narrow terminal.
#[test]
fn lists_fit_a_narrow_terminal() {
    let server = ["--", PROGRAM, "stdio", "--store", "memory:"];
    for (command, name) in [("tools", "wh40k.inquisitor_name"), ("prompts", "code_review")] {
        let variables = [("TERM", "xterm"), ("NO_COLOR", "1")];
        let words = [&[command], &server[..]].concat();
        let mut terminal = Terminal::of(40, &variables, "exec \"$0\" \"$@\"", &words);
        let text = terminal.session.exp_eof().unwrap();
        assert!(text.lines().any(|line| line == name) && !text.contains('\u{1b}'), "{text:?}");
        for line in text.lines() {
            assert!(line.trim_end().chars().count() <= 40, "{line:?}");
        }
    }
}
