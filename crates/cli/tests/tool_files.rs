//! Tool files with the real program: `mcp-flow tool`, `--tools`, sandboxes, killed flows, examples.

mod addresses;
mod served;
mod served_process;
mod wire_forms;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command};

use mcp_flow_testkit::postgres::PostgresServer;
use mcp_flow_testkit::scripted;
use mcp_flow_testkit::wait::{Deadline, output};
use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-flow");

/// Runs a command in a directory; returns its output, its error output and its exit code.
fn run(folder: &Path, words: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(PROGRAM);
    command.current_dir(folder).env("XDG_CONFIG_HOME", folder).args(words);
    let output = output(&mut command);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code())
}

#[test]
fn tool_files_are_created_checked_and_tried() {
    let folder = tempfile::tempdir().unwrap();
    for (name, kind) in [("a.run", "--run"), ("b.http", "--http"), ("c.flow", "--flow")] {
        let (out, error, code) = run(folder.path(), &["tool", "new", name, kind]);
        assert_eq!(code, Some(0), "{out} {error}");
    }
    assert_eq!(
        run(folder.path(), &["tool", "new", "a.run"]).2,
        Some(1),
        "files are not overwritten"
    );
    assert_eq!(run(folder.path(), &["tool", "new", "a b"]).2, Some(2));
    let (out, _, code) = run(folder.path(), &["tool", "check", "tools"]);
    assert_eq!((code, out.matches(": valid").count()), (Some(0), 3), "{out}");
    std::fs::write(folder.path().join("bad.yaml"), "tools:\n- nme: x\n  run: {program: ls}\n")
        .unwrap();
    let (out, _, code) = run(folder.path(), &["tool", "check", "bad.yaml"]);
    assert_eq!(code, Some(1));
    assert!(out.contains("bad.yaml:2:3: error: `nme` is unknown; did you mean `name`?"), "{out}");
    let (out, _, code) = run(folder.path(), &["tool", "try", "bad.yaml", "x"]);
    assert_eq!(code, Some(1), "{out}");

    for (tools, code) in [("tools", 0), ("bad.yaml", 1)] {
        let text = format!("[offer]\ntools = [\"{tools}\"]\n");
        std::fs::write(folder.path().join("c.toml"), text).unwrap();
        let (out, error, ended) = run(folder.path(), &["config", "check", "c.toml"]);
        assert_eq!(ended, Some(code), "{out} {error}");
    }

    std::fs::write(folder.path().join("some file"), "x").unwrap();
    let words = ["tool", "try", "tools/a.run.yaml", "a.run", "path=some file"];
    let (out, error, code) = run(folder.path(), &words);
    assert_eq!(code, Some(0), "{out} {error}");
    assert!(out.contains("some file"), "{out}");
    std::fs::write(
        folder.path().join("answers.json"),
        r#"{"name": "Ada", "count": 2, "approve": true}"#,
    )
    .unwrap();
    let words = ["tool", "try", "tools/c.flow.yaml", "c.flow", "--answers", "answers.json"];
    let (out, error, code) = run(folder.path(), &words);
    assert_eq!(code, Some(0), "{out} {error}");
    assert!(out.contains("Hello, Ada!"), "{out}");
    // No argument approves, so none is suggested.
    let words = ["tool", "try", "tools/c.flow.yaml", "c.flow", "name=Ada", "count=2"];
    let (out, error, code) = run(folder.path(), &words);
    assert_eq!(code, Some(2), "{out} {error}");
    assert!(error.contains("`approve`; pass a file with --answers"), "{error}");
    assert!(run(folder.path(), &["tool", "schema"]).0.contains("\"$defs\""));
}

/// A tool that cannot be tried: what it lacks, or which others there are.
#[test]
fn trying_a_tool_says_what_it_lacks() {
    let folder = folder_with(
        "tools: [{name: key, description: d, run: {program: env, env: {A: {secret: 'env:MISSING_KEY_7'}}}}, {name: program, \
         description: d, run: {program: no-such-program-7}}, {name: inner.part, description: d, internal: true, run: \
         {program: echo, args: [inside]}}]",
    );
    let tried = |name: &str| run(folder.path(), &["tool", "try", "tools/tools.yaml", name]);
    for (name, code, expected) in [
        ("key", 1, "the secret env:MISSING_KEY_7 is not set"),
        ("program", 1, "no-such-program-7 is not installed"),
        ("inner.part", 0, "inside"),
        ("inner_part", 0, "inside"),
        ("progam", 2, "did you mean `program`?"),
        ("other", 2, "it has key, program, inner.part"),
    ] {
        let (out, error, ended) = tried(name);
        assert_eq!(ended, Some(code), "{name}: {out} {error}");
        assert!(format!("{out}{error}").contains(expected), "{name}: {out} {error}");
    }
}

#[test]
fn descriptions_are_imported() {
    let folder = tempfile::tempdir().unwrap();
    let spec = "openapi: 3.1.0\nservers: [{url: 'https://a.example'}]\npaths:\n  /x/{id}:\n    get:\n      \
                operationId: getX\n      parameters: [{name: id, in: path, required: true, schema: {type: string}}]\n    \
                post:\n      requestBody: {required: true, content: {image/png: {}}}\n";
    std::fs::write(folder.path().join("spec.yaml"), spec).unwrap();
    let (out, error, code) =
        run(folder.path(), &["tool", "import", "spec.yaml", "--write", "x.yaml"]);
    assert_eq!(code, Some(0), "{out} {error}");
    assert!(error.contains("left out: POST /x/{id}: the body can only be image/png"), "{error}");
    let (out, _, code) = run(folder.path(), &["tool", "check", "x.yaml"]);
    assert_eq!(code, Some(0), "{out}");
    let (out, _, _) = run(folder.path(), &["tool", "import", "spec.yaml", "--only", "getX"]);
    assert!(out.contains("url: \"https://a.example/x/{{id}}\""), "{out}");
    assert_eq!(run(folder.path(), &["tool", "import", "missing.yaml"]).2, Some(1));
}

/// A stdio server with tool files.
struct Stdio {
    child: Child,
    stdin: ChildStdin,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    next: u64,
    _deadline: Deadline,
}

impl Stdio {
    fn start(folder: &Path, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(PROGRAM);
        command.current_dir(folder).env("XDG_CONFIG_HOME", folder);
        command.args(["stdio", "--no-examples", "--tools", "tools"]);
        change(&mut command);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let deadline = Deadline::of(&child);
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, stdin, lines, next: 1, _deadline: deadline }
    }

    fn request(&mut self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let request =
            json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        writeln!(self.stdin, "{request}").unwrap();
        loop {
            let line = self.lines.next().expect("the server answers").unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == self.next && message.get("method").is_none() {
                self.next += 1;
                return message.get("result").or(message.get("error")).unwrap().clone();
            }
        }
    }

    fn call(&mut self, name: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": name, "arguments": arguments}))
    }

    fn text(&mut self, name: &str, arguments: Value) -> String {
        let result = self.call(name, arguments);
        result["content"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{name}: {result}"))
            .to_owned()
    }

    /// Answers the open question of a session and waits until it asks again or ends.
    fn answer(&mut self, session: &str, value: Value) -> Value {
        let params = json!({"sessionId": session, "response": {"value": value}});
        let mut result = self.request("interaction.respond", params);
        while result["next"]["pending"] == true {
            result = self.request("interaction.continue", json!({"sessionId": session}));
        }
        result
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn folder_with(yaml: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("tools")).unwrap();
    std::fs::write(folder.path().join("tools/tools.yaml"), yaml).unwrap();
    folder
}

/// Landlock, the network namespace and resource limits hold back what the rules do not allow.
#[test]
fn sandboxes_restrict_programs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display();
    let yaml = format!(
        r#"
tools:
- name: read
  description: Reads a file without a sandbox
  input: {{properties: {{file: {{type: string}}}}}}
  run: {{program: cat, args: [--, "{{{{file}}}}"]}}
- name: files
  description: Reads only what is listed
  input: {{properties: {{file: {{type: string}}}}}}
  run: {{program: cat, args: [--, "{{{{file}}}}"], sandbox: {{read: [{path}/allowed]}}}}
- name: write
  description: Writes only where it may
  input: {{properties: {{file: {{type: string}}}}}}
  run: {{program: touch, args: [--, "{{{{file}}}}"], sandbox: {{write: [{path}/allowed]}}}}
- name: strict
  description: Nothing at all
  input: {{properties: {{file: {{type: string}}}}}}
  run: {{program: cat, args: [--, "{{{{file}}}}"], sandbox: strict}}
- name: network
  description: Network interfaces that are up
  run: {{program: sh, args: [-c, 'cat /proc/net/route; ulimit -c; ulimit -n'], sandbox: {{mode: strict, read: [/proc]}}}}
- name: namespaces
  description: Its namespaces, and what only root may do
  run:
    program: sh
    args: [-c, 'chroot / true 2> /dev/null && echo root; readlink /proc/self/ns/uts /proc/self/ns/ipc']
    env: {{PATH: {{inherit: true}}}}
    sandbox: {{mode: strict, read: [/proc]}}
- name: owner
  description: Does what only root may, without namespaces
  run:
    program: sh
    args: [-c, 'chroot / true 2> /dev/null && echo changed the root; echo done']
    env: {{PATH: {{inherit: true}}}}
    sandbox: files
- name: signal
  description: Signals the server
  run: {{program: sh, args: [-c, 'kill -0 $PPID 2> /dev/null && echo signalled; echo done'], sandbox: files}}
- name: daemon
  description: Leaves a process behind, in a session of its own and with its output closed
  run:
    program: sh
    args: [-c, 'setsid sh -c "cat < pipe" > /dev/null 2>&1 & echo $$; exit 3']
    cwd: {path}/allowed
    env: {{PATH: {{inherit: true}}}}
    success: [3]
    sandbox: {{mode: strict, write: [{path}/allowed]}}
- name: fork
  description: Starts processes
  input: {{properties: {{count: {{type: integer}}}}}}
  run:
    program: sh
    args: [-c, 'i=0; while [ $i -lt "$1" ]; do sleep 1000 & i=$((i+1)); done; [ "$1" -lt 9 ] || wait; echo "$i"', sh, "{{{{count}}}}"]
    env: {{PATH: {{inherit: true}}}}
    sandbox: {{mode: strict, processes: 20}}
"#
    );
    std::fs::create_dir(folder.path().join("tools")).unwrap();
    std::fs::create_dir(folder.path().join("allowed")).unwrap();
    std::fs::write(folder.path().join("tools/t.yaml"), yaml).unwrap();
    std::fs::write(folder.path().join("allowed/a"), "inside").unwrap();
    std::fs::write(folder.path().join("b"), "outside").unwrap();
    let mut server = Stdio::start(folder.path(), |command| {
        command.args(["--store", "memory:"]);
    });
    let (inside, outside) = (folder.path().join("allowed/a"), folder.path().join("b"));
    assert_eq!(server.text("read", json!({"file": outside})), "outside");
    assert_eq!(server.text("files", json!({"file": inside})), "inside");
    let refused = server.call("files", json!({"file": outside}));
    assert!(
        refused["isError"] == true && refused.to_string().contains("Permission denied"),
        "{refused}"
    );
    for (name, file, is_error) in [
        ("write", folder.path().join("allowed/new"), false),
        ("write", folder.path().join("new"), true),
        ("strict", inside.clone(), true),
        ("strict", outside, true),
        ("strict", "/etc/passwd".into(), false),
    ] {
        let result = server.call(name, json!({"file": file}));
        assert_eq!(result["isError"] == true, is_error, "{name} {}: {result}", file.display());
    }
    assert!(folder.path().join("allowed/new").exists() && !folder.path().join("new").exists());
    // A new network namespace has no routes.
    assert_eq!(server.text("network", json!({})), "0\n1024");
    // Also root has no capabilities.
    assert_eq!(server.text("owner", json!({})), "done");
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut version = release.split('.').map(|number| number.parse().unwrap_or(0));
    if (version.next(), version.next()) >= (Some(6), Some(12)) {
        assert_eq!(server.text("signal", json!({})), "done");
    }
    let namespaces = server.text("namespaces", json!({}));
    let names: Vec<_> = namespaces.lines().collect();
    assert!(names.len() == 2 && names[0].starts_with("uts:"), "{namespaces}");
    for (name, own) in names.iter().zip(["uts", "ipc"]) {
        let own = std::fs::read_link(format!("/proc/self/ns/{own}")).unwrap();
        assert_ne!(Path::new(name), own);
    }
    // Root is not bound by limits on processes, but by the launcher.
    assert_eq!(server.text("fork", json!({"count": 8})), "8");
    let forked = server.call("fork", json!({"count": 60}));
    assert_eq!(forked["isError"], true, "{forked}");
    let text = forked.to_string();
    assert!(text.contains("more than 20 processes") || text.contains("fork"), "{text}");
    // The second process of a namespace, in which nothing survives. Whoever held the pipe is gone: nobody
    // reads it, so it cannot be opened without waiting.
    let pipe = folder.path().join("allowed/pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_eq!(server.text("daemon", json!({})), "2");
    let opened = rustix::fs::open(&pipe, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
    assert_eq!(opened.unwrap_err(), rustix::io::Errno::NXIO);
}

/// A flow that is killed in the middle goes on with its answers, and with the file it began with.
#[test]
fn killed_flows_resume_with_their_version() {
    let flow = |text: &str| {
        format!(
            "tools:\n- name: f\n  description: d\n  flow:\n  - ask: {{key: a, message: First?}}\n  - call: {{tool: g, \
             arguments: {{v: '{{{{a}}}}'}}, as: r}}\n  - ask: {{key: b, message: Second?}}\n  - return: '{text} {{{{r}}}} \
             {{{{b}}}}'\n- name: g\n  description: d\n  internal: true\n  input: {{properties: {{v: {{}}}}}}\n  run: \
             {{program: echo, args: ['got {{{{v}}}}']}}\n"
        )
    };
    let folder = folder_with(&flow("one"));
    let start = || {
        Stdio::start(folder.path(), |command| {
            command.args(["--store", "redb:journal.redb"]);
        })
    };
    let mut server = start();
    let started = server.request("interaction.start", json!({"toolName": "f"}));
    let session = started["sessionId"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned();
    let next = server.answer(&session, json!("x"));
    assert_eq!(next["next"]["prompt"]["message"], "Second?", "{next}");
    drop(server);
    std::fs::write(folder.path().join("tools/tools.yaml"), flow("two")).unwrap();
    let mut server = start();
    let end = server.answer(&session, json!("y"));
    assert_eq!(end["next"]["complete"]["result"]["data"]["value"], "one got x y", "{end}");
    assert_eq!(server.text("f", json!({"a": "1", "b": "2"})), "two got 1 2");
}

/// Editors and models find the schema of tool files at the server.
#[test]
fn the_published_schema_is_a_resource() {
    let folder = folder_with("tools: [{name: a, description: d, run: {program: echo}}]");
    let mut server = Stdio::start(folder.path(), |command| {
        command.args(["--store", "memory:"]);
    });
    let read = server.request("resources/read", json!({"uri": "mcp-flow:/tools.schema.json"}));
    let content = &read["contents"][0];
    assert_eq!(content["mimeType"], "application/schema+json", "{read}");
    assert_eq!(content["text"], include_str!("../../../docs/tools.schema.json"));
}

#[test]
fn missing_secrets_are_named_at_the_start() {
    let folder = folder_with(
        "tools: [{name: a, description: d, run: {program: env, env: {A: {secret: 'env:MISSING_KEY_7'}}}}, {name: b, \
         description: d, run: {program: echo}}]",
    );
    let mut command = Command::new(PROGRAM);
    command.current_dir(folder.path()).env("XDG_CONFIG_HOME", folder.path());
    command.args([
        "tools",
        "--",
        PROGRAM,
        "stdio",
        "--no-examples",
        "--store",
        "memory:",
        "--tools",
        "tools",
    ]);
    let listed = output(&mut command);
    let text = String::from_utf8(listed.stdout).unwrap();
    assert!(text.contains('b') && !text.contains("MISSING"), "{text}");
    let mut command = Command::new(PROGRAM);
    command.current_dir(folder.path()).env("XDG_CONFIG_HOME", folder.path());
    command
        .args(["stdio", "--store", "memory:", "--tools", "tools"])
        .stdin(std::process::Stdio::null());
    let error = String::from_utf8(output(&mut command).stderr).unwrap();
    assert!(error.contains("env:MISSING_KEY_7"), "{error}");
}

/// What is missing after a change is reported as at the start, and once.
#[test]
fn tools_that_become_unavailable_are_reported() {
    let tool = |name: &str, program: &str| {
        format!("tools: [{{name: {name}, description: d, run: {{program: {program}}}}}]")
    };
    let folder = folder_with(&tool("a", "echo"));
    let mut server = Stdio::start(folder.path(), |command| {
        command.args(["--store", "memory:"]).stderr(std::process::Stdio::piped());
    });
    assert_eq!(server.text("a", json!({})), "");
    let log = BufReader::new(server.child.stderr.take().unwrap()).lines();
    let mut log = log.map(Result::unwrap).filter(|line| line.contains("is not available"));
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join("tools").join(name), text).unwrap();
    };
    write("tools.yaml", &tool("a", "no-such-program-7"));
    assert!(log.next().unwrap().contains("no-such-program-7 is not installed"));
    write("z.yaml", &tool("b", "echo"));
    write("z2.yaml", &tool("b", "echo"));
    let line = log.next().unwrap();
    assert!(line.contains("z2.yaml") && line.contains("another file declares"), "{line}");
}

/// Every example runs: APIs are played, git, jq, tar and PostgreSQL are real.
#[test]
fn all_examples_run() {
    let api = scripted::http(|mut request| {
        let content = match request.line.as_str() {
            "POST /api/tickets" => json!({"id": "T-7"}),
            "GET /api/tickets/T-1" => json!({"id": "T-1", "title": "Broken"}),
            line if line.starts_with("GET /api/tickets?") => json!({"items": [{"id": "T-1"}]}),
            line if line.starts_with("GET /v1/forecast?") => {
                json!({"current": {"temperature_2m": 21.5}})
            }
            line => json!({"line": line}),
        };
        request.content("200 OK", "application/json", &content.to_string());
    });
    let postgres = PostgresServer::shared();
    let database = postgres.create_database();
    postgres.execute(
        &database,
        "create table orders (id int, email text, created_at date, total numeric); insert into orders \
         values (7, 'ada@example.com', '2026-01-02', 9.5), (8, 'o''hara@example.com', '2026-01-03', 1)",
    );
    let name = database.split('?').next().unwrap().rsplit('/').next().unwrap();
    let socket = postgres.socket().parent().unwrap().display().to_string();
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("tools");
    std::fs::create_dir(&tools).unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tools");
    for entry in std::fs::read_dir(&examples).unwrap() {
        let path = entry.unwrap().path();
        let mut text = std::fs::read_to_string(&path).unwrap();
        for host in ["tickets.example.com", "api.open-meteo.com", "chat.example.com"] {
            let played = format!("allow_private: [127.0.0.1]\n    url: http://{api}");
            text = text.replace(&format!("url: https://{host}"), &played);
        }
        text = text.replace("--host=localhost", &format!("--host={socket}"));
        text = text.replace("--username=reader", "--username=flow");
        text = text.replace("--dbname=shop", &format!("--dbname={name}"));
        std::fs::write(tools.join(path.file_name().unwrap()), text).unwrap();
    }
    let git = |words: &[&str]| {
        let identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
        let done =
            Command::new("git").current_dir(&tools).args(identity).args(words).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "Begin here"]);
    let mut server = Stdio::start(folder.path(), |command| {
        command.env("TICKETS_TOKEN", "t0ken").env("SHOP_PASSWORD", "pa55word");
        command.env("CHAT_PASSWORD", "ch4t").args(["--store", "memory:"]);
    });
    let here = folder.path();
    for (name, arguments, expected) in [
        ("git.log", json!({"count": 5}), "Ada: Begin here"),
        ("git.log", json!({"paths": ["--output=x"]}), ""),
        ("disk.usage", json!({"path": here, "depth": 0}), here.to_str().unwrap()),
        ("tickets.get", json!({"id": "T-1"}), "Broken"),
        ("tickets.search", json!({"text": "a b", "labels": ["x", "y"]}), "T-1"),
        ("tickets.create", json!({"title": "It is broken"}), "T-7"),
        ("weather.now", json!({"latitude": 48.4, "longitude": 10.0}), "21.5"),
        ("shop.orders", json!({"customer": "a'; drop table orders; --"}), "id,created_at,total"),
        ("shop.orders", json!({"customer": "ada@example.com"}), "7,2026-01-02,9.5"),
        ("shop.orders", json!({"customer": "o'hara@example.com"}), "8,2026-01-03,1"),
        ("files.search", json!({"text": "Begin", "path": here}), ""),
        (
            "files.search",
            json!({"text": "DEPLOYS", "path": tools, "ignoreCase": true}),
            "deploy.yaml",
        ),
        ("backup.download", json!({"path": "tools"}), ""),
        ("json.query", json!({"document": {"a": [1, {"b": 2}]}, "filter": ".a[1].b"}), "2"),
        ("incident", json!({"summary": "All is down", "teams": ["a", "b"]}), "T-7"),
        (
            "deploy",
            json!({"service": "shop", "version": "1.2.3", "environment": "staging"}),
            "shop 1.2.3",
        ),
        (
            "survey",
            json!({"name": "Ada", "color": "r", "count": 1, "day": "2026-02-03", "note": "", "address": {"city": "Ulm"}, "sure": true}),
            "Ulm",
        ),
    ] {
        let result = server.call(name, arguments.clone());
        assert_ne!(result["isError"], true, "{name} {arguments}: {result}");
        let text = result.to_string();
        assert!(
            result.get("content").is_some() && text.contains(expected),
            "{name} {arguments}: {text}"
        );
        for secret in ["t0ken", "pa55word", "ch4t"] {
            assert!(!text.contains(secret), "{name}: {text}");
        }
    }
}
