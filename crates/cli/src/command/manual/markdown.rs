//! Reference of all commands and options in Markdown: `docs/cli.md`.

use clap::{Arg, Command};

/// Renders the program and all its commands, one section each.
pub(super) fn render(program: &mut Command) -> String {
    program.build();
    let mut text = String::from(
        "# Command line\n\nPrinted by `mcp-flow man --markdown`. Every command also takes the options \
         of logging.\n",
    );
    add_command(program, &mut text);
    text
}

fn add_command(command: &Command, text: &mut String) {
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
        let is_own = is_root || !argument.is_global_set();
        is_own
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
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        text.push_str(&format!("| `{}` | {} |\n", signature(argument), escape(&help)));
    }
    if let Some(more) = command.get_after_help().filter(|_| is_root) {
        text.push_str(&format!("\n```text\n{more}\n```\n"));
    }
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        if inner.get_name() != "help" {
            add_command(inner, text);
        }
    }
}

/// Name of an argument as it is typed, with its value: `--listen <ADDRESS>`.
fn signature(argument: &Arg) -> String {
    // An argument prints itself with its value; a flag has none.
    argument.to_string().replace('|', "\\|")
}

/// Keeps text from being read as a table or a tag.
fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "\\<")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use crate::arguments::Arguments;

    /// The reference is up to date; `mcp-flow man --markdown > docs/cli.md` makes it so.
    #[test]
    fn the_reference_is_current() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
        let written = std::fs::read_to_string(file).unwrap();
        let current = super::render(&mut Arguments::command());
        assert!(written == current, "run: mcp-flow man --markdown > docs/cli.md");
    }
}
