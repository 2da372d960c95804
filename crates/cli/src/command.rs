//! The commands, one module each.

pub(crate) mod audit;
pub(crate) mod bridge;
pub(crate) mod call;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod flows;
pub(crate) mod history;
pub(crate) mod install;
pub(crate) mod list;
pub(crate) mod login;
pub(crate) mod manual;
pub(crate) mod new;
pub(crate) mod nodes;
pub(crate) mod pack;
pub(crate) mod ping;
pub(crate) mod pins;
pub(crate) mod prompt;
pub(crate) mod read;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod skills;
pub(crate) mod stdio;
pub(crate) mod tail;
pub(crate) mod tasks;
pub(crate) mod tool;
pub(crate) mod ui;
pub(crate) mod verify;
pub(crate) mod workflow;

use std::process::ExitCode;

use crate::arguments::{Arguments, Command};
use crate::exit::{Exit, Failure};

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        Command::Serve(serve) => serve.run(arguments.log),
        Command::Stdio(stdio) => stdio.run(arguments.log),
        Command::Bridge(bridge) => bridge.run(arguments.log),
        Command::Dev(dev) => dev.run(arguments.log),
        Command::Ui(ui) => ui.run(arguments.log),
        Command::Tools(tools) => tools.run(),
        Command::Resources(resources) => resources.run(),
        Command::Prompts(prompts) => prompts.run(),
        Command::Call(call) => call.run(),
        Command::Skills(skills) => skills.run(),
        Command::Read(read) => read.run(),
        Command::Watch(watch) => watch.run(),
        Command::Prompt(prompt) => prompt.run(),
        Command::Ping(ping) => ping.run(),
        Command::Login(login) => login.run(),
        Command::Logout(logout) => logout.run(),
        Command::Sessions(sessions) => sessions.run(),
        Command::History(history) => history.run(),
        Command::Tail(tail) => tail.run(),
        Command::Tasks(tasks) => tasks.run(),
        Command::Tool(tool) => tool.run(),
        Command::New(new) => new.run(),
        Command::Flows(flows) => flows.run(),
        Command::Nodes(nodes) => nodes.run(),
        Command::Workflow(workflow) => workflow.run(),
        Command::Record(record) => record.run(),
        Command::Replay(replay) => replay.run(),
        Command::Verify(verify) => verify.run(),
        Command::Install(install) => install.run(),
        Command::Pack(pack) => pack.run(),
        Command::Pins(pins) => pins.run(),
        Command::Config(config) => config.run(),
        Command::Audit(audit) => audit.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    }
}

/// Rejects arguments that a command does not take.
fn reject_extra_arguments(words: &[String]) -> anyhow::Result<()> {
    match words.first() {
        None => Ok(()),
        Some(word) => {
            let message = format!("unexpected argument {word:?}; see --help");
            Err(Failure::new(Exit::Usage, message).into())
        }
    }
}
