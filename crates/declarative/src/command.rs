//! Running programs: arguments, environment, processes, output.
//!
//! There is no shell: a template is one argument, whatever its value contains.

mod arguments;
mod platform;
mod process;

use std::path::PathBuf;

use mcp_flow_server::tool::Failure;

use platform::program_at;
pub(crate) use process::Invocation;

use crate::model::{CommandAction, EnvironmentValue};
use crate::sandbox::Launcher;
use crate::secret::{Masker, Secret};
use crate::template::{Variables, shown};

/// Finds the program of a tool: a path relative to its file, or a name in PATH.
pub(crate) fn find_program(run: &CommandAction) -> Result<PathBuf, String> {
    let name = &*run.program;
    if name.contains(std::path::is_separator) {
        let path = run.folder.join(name);
        return match program_at(path.clone()) {
            Some(program) => Ok(std::path::absolute(&program).unwrap_or(program)),
            None => {
                Err(format!("the program {} does not exist or is not executable", path.display()))
            }
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let found = std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .find_map(|folder| program_at(folder.join(name)));
    found.ok_or_else(|| format!("the program {name} is not installed: it is not in PATH"))
}

/// Prepares a call: nothing has run yet, and invalid values are rejected.
pub(crate) fn prepare(
    run: &CommandAction,
    variables: &Variables,
    launcher: Option<&Launcher>,
    is_streamed: bool,
) -> Result<Invocation, Failure> {
    let refused = |message: String| Failure::new("INVALID_ARGUMENT", message);
    let unavailable = |message: String| Failure::new("UNAVAILABLE", message);
    let program = find_program(run).map_err(unavailable)?;
    let args = arguments::build(&run.args, variables).map_err(refused)?;
    let mut secrets: Vec<Secret> = Vec::new();
    let mut env = Vec::new();
    for (name, value) in &run.env {
        let value = match value {
            EnvironmentValue::Inherited => match std::env::var_os(&**name) {
                Some(value) => value,
                None => continue,
            },
            EnvironmentValue::Secret(source) => {
                let secret = source.read().map_err(unavailable)?;
                let value = secret.expose().into();
                secrets.push(secret);
                value
            }
            EnvironmentValue::Text(template) => {
                let filled = template.render_with(variables, |variable, value, text| {
                    arguments::insert_scalar(variable, value, text)
                });
                match filled.map_err(refused)? {
                    Some(text) => text.into(),
                    None => continue,
                }
            }
        };
        env.push((name.to_string().into(), value));
    }
    let stdin = match &run.stdin {
        Some(stdin) => stdin.resolve(&mut secrets).map_err(unavailable)?.render(variables),
        None => None,
    };
    let (program, args) = match &run.sandbox {
        None => (program, args.into_iter().map(Into::into).collect()),
        Some(rules) => {
            let Some(launcher) = launcher else {
                let message = "this program cannot start sandboxes".to_owned();
                return Err(unavailable(message));
            };
            launcher.check(rules).map_err(unavailable)?;
            let mut rules = rules.clone();
            rules.read.extend(run.cwd.clone());
            let (launcher, mut wrapped) = launcher.wrap(&rules, &program);
            wrapped.extend(args.into_iter().map(Into::into));
            (launcher, wrapped)
        }
    };
    Ok(Invocation {
        name: run.program.to_string(),
        program,
        args,
        env,
        cwd: run.cwd.clone(),
        stdin: stdin.map(|stdin| shown(&stdin).into_owned().into_bytes()),
        timeout: run.timeout,
        is_streamed,
        success: run.success.clone(),
        masker: Masker::new(&secrets),
    })
}
