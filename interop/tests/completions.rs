//! Completion of command lines by zsh, whose completion system finds the script as a package installs it.

use interop::{Served, program, run};
use tokio::process::Command;

/// After the name of an argument no space is added, so that its value can be typed; after one that is
/// complete there is one.
#[tokio::test]
async fn zsh_leaves_room_for_values() {
    let server = ["serve", "--store", "memory:", "--listen", "127.0.0.1:0", "--json"];
    let server = Served::run(Command::new(program()).args(server)).await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.toml");
    std::fs::write(&config, format!("[servers.mine]\nurl = \"{}\"\n", server.url("mcp"))).unwrap();
    let mut path = program().parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut zsh = Command::new("timeout");
    zsh.args(["60", "zsh", "-f", "-c", SCRIPT]).current_dir(folder.path());
    let zsh = zsh.env("PATH", path).env("MCP_FLOW_CONFIG", &config).env("HOME", folder.path());
    let outcome = run(zsh).await;
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.contains("\n3\r"), "{outcome:?}");
}

/// Types in a terminal: `calculator.ad`, tab, `a=1 b`, tab, `2`, and enter.
const SCRIPT: &str = r#"
mcp-flow completions zsh >_mcp-flow
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D'
zpty -w -n shell $'mcp-flow call mine calculator.ad\ta=1 b\t2\n'
zpty -w shell 'print the-""end'
zpty -r shell text '*the-end*'
print -r -- $text
"#;
