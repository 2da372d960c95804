//! Reference of all commands and options in Markdown: `docs/cli.md`.

use clap::{Arg, Command, Id};

/// Renders the program and all its commands, one section each. Global options are in the section of the
/// command that has them, not in those of its subcommands.
pub(super) fn render(program: &mut Command) -> String {
    program.build();
    let mut text = String::from(
        "# Command line\n\nPrinted by `mcp-flow man --markdown`. Every command also takes the options \
         of logging, and those of the command that it belongs to.\n",
    );
    add_command(program, &[], &mut text);
    text
}

fn add_command(command: &Command, inherited: &[&Id], text: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").lines().map(str::trim_end).collect::<Vec<_>>();
    text.push_str(&format!("\n## {name}\n\n"));
    if let Some(about) = command.get_long_about().or_else(|| command.get_about()) {
        text.push_str(&format!("{}\n\n", escape(&about.to_string())));
    }
    text.push_str(&format!("```text\n{}\n```\n", usage.join("\n")));
    let is_root = !name.contains(' ');
    let is_listed = |argument: &&Arg| {
        !inherited.contains(&argument.get_id())
            && !argument.is_hide_set()
            && !["help", "version"].contains(&argument.get_id().as_str())
    };
    let listed: Vec<&Arg> = command.get_arguments().filter(is_listed).collect();
    if !listed.is_empty() {
        text.push_str("\n| argument | meaning |\n|---|---|\n");
    }
    for argument in listed {
        let help = argument.get_long_help().or_else(|| argument.get_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        let help = one_line(&help) + &values(argument);
        text.push_str(&format!("| `{}` | {} |\n", signature(argument), escape(&help)));
    }
    if let Some(more) = command.get_after_help().filter(|_| is_root) {
        text.push_str(&format!("\n```text\n{more}\n```\n"));
    }
    let globals = command.get_arguments().filter(|argument| argument.is_global_set());
    let inherited: Vec<&Id> = globals.map(Arg::get_id).collect();
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        if inner.get_name() != "help" {
            add_command(inner, &inherited, text);
        }
    }
}

/// Name of an argument as it is typed, with its value: `--listen <ADDRESS>`.
fn signature(argument: &Arg) -> String {
    // An argument prints itself with its value; a flag has none.
    argument.to_string().replace('|', "\\|")
}

/// Joins the lines of a help text, whose paragraphs end without a period.
fn one_line(help: &str) -> String {
    let paragraphs =
        help.split("\n\n").map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    paragraphs.collect::<Vec<_>>().join(". ").replace(".. ", ". ")
}

/// Default and possible values of an argument, as `--help` prints them.
fn values(argument: &Arg) -> String {
    let mut text = String::new();
    if !argument.get_action().takes_values() {
        return text;
    }
    let defaults = argument.get_default_values().iter().map(|value| value.to_string_lossy());
    let defaults: Vec<_> = defaults.collect();
    if !defaults.is_empty() && !argument.is_hide_default_value_set() {
        text.push_str(&format!(" [default: {}]", defaults.join(" ")));
    }
    let possible = argument.get_possible_values();
    let possible = possible.iter().filter(|value| !value.is_hide_set());
    let possible: Vec<_> = possible.map(|value| value.get_name().to_owned()).collect();
    if !possible.is_empty() && !argument.is_hide_possible_values_set() {
        text.push_str(&format!(" [possible values: {}]", possible.join(", ")));
    }
    text
}

/// Keeps text from being read as a table or a tag.
pub(in crate::command) fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "\\<")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use crate::arguments::Arguments;

    /// Options of a command are in its section, also those that its subcommands share, with their
    /// defaults and values.
    #[test]
    fn no_option_is_left_out() {
        let text = super::render(&mut Arguments::command());
        let section = |name: &str| {
            let begin = text.find(&format!("\n## {name}\n")).unwrap() + 1;
            let length = text[begin + 1..].find("\n## ").unwrap_or(text.len() - begin - 1);
            &text[begin..begin + length]
        };
        for (command, option) in [
            ("mcp-flow", "--log-level"),
            ("mcp-flow call", "--protocol-version"),
            ("mcp-flow call", "--ca-file"),
            ("mcp-flow call", "--certificate-hash"),
            ("mcp-flow call", "--login-file"),
            ("mcp-flow sessions", "--store"),
            ("mcp-flow pins", "--url"),
        ] {
            assert!(section(command).contains(option), "{command} {option}:\n{}", section(command));
        }
        let format = section("mcp-flow call").lines().find(|line| line.contains("--format"));
        assert!(format.unwrap().contains("[possible values: "), "{format:?}");
    }

    /// The reference is up to date; `mcp-flow man --markdown > docs/cli.md` makes it so.
    #[test]
    fn the_reference_is_current() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
        let written = std::fs::read_to_string(file).unwrap();
        let current = super::render(&mut Arguments::command());
        assert!(written == current, "run: mcp-flow man --markdown > docs/cli.md");
    }
}
