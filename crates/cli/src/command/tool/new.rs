//! `mcp-flow tool new`: creates a tool file from a template.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::command::workflow::create_file;
use crate::exit::{Exit, Failure};
use crate::terminal::output::print;

pub(super) fn run(
    name: &str,
    http: bool,
    flow: bool,
    output: Option<PathBuf>,
) -> anyhow::Result<ExitCode> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if name.is_empty() || name.len() > 128 || !name.bytes().all(is_name) || name.starts_with('.') {
        let message =
            format!("invalid name {name:?}; use 1 to 128 letters, digits, '_', '-' and '.'");
        return Err(Failure::new(Exit::Usage, message).into());
    }
    let template = match (http, flow) {
        (true, _) => HTTP,
        (_, true) => FLOW,
        _ => RUN,
    };
    let path = output.unwrap_or_else(|| PathBuf::from("tools").join(format!("{name}.yaml")));
    create_file(&path, &template.replace("NEW-NAME", name))?;
    print(&format!(
        "Created {0}. Check it with: mcp-flow tool check {0}\nTry it with: mcp-flow tool try {0} \
         {name}",
        path.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

const RUN: &str = include_str!("run.yaml");
const HTTP: &str = include_str!("http.yaml");
const FLOW: &str = include_str!("flow.yaml");

#[cfg(test)]
mod tests {
    use mcp_flow::workflow::Format;
    use mcp_flow_declarative::ToolReading;

    #[test]
    fn the_templates_are_valid() {
        for template in [super::RUN, super::HTTP, super::FLOW] {
            let text = template.replace("NEW-NAME", "my.own");
            let reading = ToolReading::of(&text, Format::Yaml, ".".as_ref());
            assert_eq!(reading.problems, []);
            assert_eq!(reading.file.unwrap().tools[0].name(), "my.own");
        }
    }
}
