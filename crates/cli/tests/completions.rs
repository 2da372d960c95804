//! Completion of a command line by a real shell, with what a running server offers.

use std::process::{Command, Stdio};

use mcp_flow_testkit::wait::output;

use crate::bridge::serve;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// bash completes commands, options, servers, tools, arguments, prompts and resources.
#[tokio::test]
async fn bash_completes_what_a_server_offers() {
    let listen = ["serve", "--store", "memory:", "--listen", "127.0.0.1:0", "--json"];
    let server = serve(&listen).await;
    let url = server.endpoints["mcp"].as_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.toml");
    std::fs::write(&config, format!("[servers.mine]\nurl = \"{url}\"\n")).unwrap();
    for (line, expected) in [
        ("mcp-flow sess", "sessions"),
        ("mcp-flow call --det", "--detach"),
        ("mcp-flow tools mi", "mine"),
        ("mcp-flow call mine calculator.a", "calculator.add"),
        ("mcp-flow call --timeout 5 mine calculator.add ", "a="),
        ("mcp-flow call mine calculator.add a=1 ", "b="),
        ("mcp-flow prompt mine ", "code_review"),
        ("mcp-flow prompt mine code_review language=py", "python"),
        ("mcp-flow prompt mine code_review language=python framework=d", "django"),
        ("mcp-flow read mine ", "workflow:/workflow.schema.json"),
        // bash splits at colons: what is before the last one stays as it is.
        ("mcp-flow tools http://127.0.0.1:44", "4433"),
        (&format!("mcp-flow call {url} long_op"), "long_operation"),
    ] {
        let found = complete(line, &config);
        assert!(found.iter().any(|word| word.contains(expected)), "{line}: {found:?}");
    }
    let given = complete("mcp-flow call mine calculator.add a=1 ", &config);
    assert!(!given.iter().any(|word| word == "a="), "{given:?}");
    assert!(complete("mcp-flow call http://127.0.0.1:1/mcp x", &config).is_empty());
}

/// Returns the completions of a line by bash.
fn complete(line: &str, config: &std::path::Path) -> Vec<String> {
    let script = "source <(mcp-flow completions bash); COMP_POINT=${#COMP_LINE} _mcp_flow; \
                  printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    let programs = std::path::Path::new(PROGRAM).parent().unwrap().display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    bash.args(["--norc", "-c", script]).stdin(Stdio::null());
    bash.env("COMP_LINE", line).env("COMP_WORDBREAKS", " \t\n\"'><=;|&(:");
    bash.env("PATH", format!("{programs}:{path}")).env("MCP_FLOW_CONFIG", config);
    let ended = output(&mut bash);
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}
