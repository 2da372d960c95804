//! Commands: arguments, environment, output, time limits.

use serde_json::json;

use crate::support::Tools;

#[tokio::test]
async fn a_command_gets_its_arguments_as_they_are() {
    let tools = Tools::of(
        r#"
tools:
- name: args
  description: Shows arguments
  input: {properties: {a: {}, list: {type: array}, n: {type: integer, default: 4}}}
  run:
    program: printf
    args: ['[%s]\n', "{{a}}", "n={{n}}", {each: list}]
"#,
    );
    let text = tools.text("args", json!({"a": "x; $(id) `id` \"'\n", "list": ["1 2", "3"]})).await;
    assert_eq!(text, "[x; $(id) `id` \"'\n]\n[n=4]\n[1 2]\n[3]");
    assert_eq!(tools.text("args", json!({})).await, "[n=4]");
    assert!(tools.failure("args", json!({"a": "-v"})).await.contains("hyphen"));
    assert!(tools.failure("args", json!({"list": "x"})).await.contains("list"));
}

#[tokio::test]
async fn the_environment_is_what_the_file_says() {
    // The variable is set by cargo for every test.
    let tools = Tools::of(
        r#"
tools:
- name: env
  description: Shows the environment
  input: {properties: {a: {}}}
  run:
    program: env
    env: {A: "<{{a}}>", B: fixed, C: {inherit: true}, KEY: {secret: "env:CARGO_PKG_NAME"}}
"#,
    );
    let text = tools.text("env", json!({"a": "1\n2"})).await;
    assert_eq!(text, "A=<1\n2>\nB=fixed\nKEY=***");
    assert_eq!(tools.text("env", json!({})).await, "B=fixed\nKEY=***");
    assert!(tools.failure("env", json!({"a": "\u{0}"})).await.contains("NUL"));
}

#[tokio::test]
async fn exit_codes_and_error_output_make_a_failure() {
    let tools = Tools::of(
        r#"
tools:
- name: fail
  description: Fails
  input: {properties: {code: {type: integer}}}
  run:
    program: sh
    args: [-c, 'echo out; echo "key $KEY" >&2; exit "$1"', sh, "{{code}}"]
    env: {KEY: {secret: "env:CARGO_PKG_NAME"}}
    success: [0, 3]
- name: killed
  description: Kills itself
  run: {program: sh, args: [-c, 'kill -9 $$']}
- name: missing
  description: Does not exist
  run: {program: no-such-program-here}
"#,
    );
    assert_eq!(tools.text("fail", json!({"code": 0})).await, "out");
    assert_eq!(tools.text("fail", json!({"code": 3})).await, "out");
    let failure = tools.failure("fail", json!({"code": 7})).await;
    assert_eq!(failure, "sh exited with code 7: key ***\nout");
    assert!(tools.failure("killed", json!({})).await.contains("signal 9"));
    // It is not served, and the file says why.
    assert_eq!(tools.listed().await, ["fail", "killed"]);
    let problems = &tools.library.files()[0].problems;
    assert!(problems[0].message.contains("no-such-program-here"), "{problems:?}");
}

#[tokio::test]
async fn output_is_mapped() {
    let tools = Tools::of(
        r#"
tools:
- name: json
  description: JSON
  input: {properties: {text: {}}}
  run: {program: cat, stdin: "{{text}}"}
  output: {as: json, pick: /items/0, schema: {type: object, required: [id]}}
- name: lines
  description: Lines
  run: {program: printf, args: ['a\nb\n\nlast']}
  output: {as: lines}
- name: long
  description: Never ends
  run: {program: yes}
  output: {limit: 100K}
- name: file
  description: A file
  run: {program: printf, args: ['%s', "content"]}
  output: {as: file, name: x.txt}
- name: binary
  description: Not text
  run: {program: printf, args: ['\377']}
"#,
    );
    let (result, _) = tools.call("json", json!({"text": {"items": [{"id": 5}]}})).await;
    assert_eq!(result["structuredContent"], json!({"id": 5}));
    assert_eq!(result["content"][0]["text"], "{\"id\":5}");
    for (text, expected) in [
        (json!("nonsense"), "the output is not JSON: line 1, column 2: invalid JSON, expected"),
        (json!("[1,\n"), "line 2, column 0: the text ends before the JSON is complete"),
        (json!({"items": []}), "nothing at /items/0"),
        (json!({"items": [{}]}), "id is required"),
    ] {
        let failure = tools.failure("json", json!({"text": text})).await;
        assert!(failure.contains(expected), "{failure}");
    }
    let (result, progress) = tools.call("lines", json!({})).await;
    assert_eq!(result["content"][0]["text"], "a\nb\n\nlast");
    assert_eq!(progress, ["a", "b", "", "last"]);
    assert!(tools.failure("long", json!({})).await.contains("102400 bytes"));
    assert_eq!(tools.text("file", json!({})).await, "content");
    assert!(tools.failure("binary", json!({})).await.contains("UTF-8"));
}

/// A program that ignores SIGTERM, its children, and one that left the group's leader behind are all
/// gone when the time is over.
#[tokio::test]
async fn timeouts_end_the_process_group() {
    let tools = Tools::of(
        r#"
tools:
- name: stubborn
  description: Ignores SIGTERM, and so do its children
  input: {properties: {file: {}}}
  run:
    program: sh
    args: [-c, 'trap "" TERM; sleep 1000 & echo $! > "$1"; echo $$ >> "$1"; sleep 1000; sleep 1000', sh, "{{file}}"]
    env: {PATH: {inherit: true}}
    timeout: 3s
- name: daemon
  description: Leaves a process behind that holds its output
  input: {properties: {file: {}}}
  run:
    program: sh
    args: [-c, 'sleep 1000 & echo $! > "$1"; echo done', sh, "{{file}}"]
    env: {PATH: {inherit: true}}
"#,
    );
    let pids = tools.path().join("pids");
    let failure = tools.failure("stubborn", json!({"file": pids})).await;
    assert!(failure.contains("did not finish within 3s"), "{failure}");
    let mut all: Vec<String> = lines(&pids);
    let daemon = tools.path().join("daemon");
    assert_eq!(tools.text("daemon", json!({"file": daemon})).await, "done");
    all.extend(lines(&daemon));
    assert_eq!(all.len(), 3);
    for pid in all {
        crate::support::until(&format!("process {pid} ends"), async || !is_running(&pid)).await;
    }
}

/// Processes in sessions of their own, whose parents are gone and whose outputs are closed, end with
/// their program, whether it ends by itself or not.
#[tokio::test]
async fn processes_that_leave_the_group_end_as_well() {
    let tools = Tools::of(
        r#"
tools:
- name: escape
  description: Starts a process that leaves
  input: {properties: {file: {}, wait: {}}}
  run:
    program: sh
    args:
    - -c
    - |
      (setsid sh -c 'echo $$ > "$1.new"; mv "$1.new" "$1"; trap "" TERM; while :; do sleep 1000; done' sh "$1" \
        < /dev/null > /dev/null 2>&1 &)
      until test -e "$1"; do sleep 0.02; done
      sleep "$2"
    - sh
    - "{{file}}"
    - "{{wait}}"
    env: {PATH: {inherit: true}}
    timeout: 5s
"#,
    );
    let [ended, timed_out] = ["ended", "timed_out"].map(|name| tools.path().join(name));
    tools.text("escape", json!({"file": ended, "wait": 0})).await;
    let failure = tools.failure("escape", json!({"file": timed_out, "wait": 1000})).await;
    assert!(failure.contains("did not finish within 5s"), "{failure}");
    for file in [ended, timed_out] {
        let pid = &lines(&file)[0];
        crate::support::until(&format!("process {pid} ends"), async || !is_running(pid)).await;
    }
}

/// A file may take longer than the timeout, which only bounds the time without output.
#[tokio::test]
async fn files_stream_for_as_long_as_they_go_on() {
    let tools = Tools::of(
        r#"
tools:
- name: slow
  description: Writes slowly
  run:
    program: sh
    args: [-c, 'for part in 1 2 3 4 5; do sleep 1; printf "$part"; done']
    env: {PATH: {inherit: true}}
    timeout: 4s
  output: {as: file}
- name: stuck
  description: Writes nothing more
  run: {program: sh, args: [-c, 'printf x; exec sleep 1000'], env: {PATH: {inherit: true}}, timeout: 1s}
  output: {as: file}
"#,
    );
    assert_eq!(tools.text("slow", json!({})).await, "12345");
    let (stuck, _) = tools.call("stuck", json!({})).await;
    assert!(stuck.to_string().contains("wrote nothing for 1s and was terminated"), "{stuck}");
}

/// Nothing of a program is left when the runtime of the server ends, with which all its tasks do.
#[test]
fn programs_end_with_the_server() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let tools = runtime.block_on(async {
        Tools::of(
            r#"
tools:
- name: stubborn
  description: Ignores SIGTERM, and waits for a child
  input: {properties: {file: {}}}
  run:
    program: sh
    args: [-c, 'trap "" TERM; sleep 1000 & echo $! > "$1.new"; mv "$1.new" "$1"; wait', sh, "{{file}}"]
    env: {PATH: {inherit: true}}
"#,
        )
    });
    let file = tools.path().join("pid");
    let pid = runtime.block_on(async {
        let call = tools.call("stubborn", json!({"file": file}));
        let started = crate::support::until("the program starts", async || file.exists());
        tokio::select! {
            _ = call => panic!("the program ended by itself"),
            () = started => lines(&file)[0].clone(),
        }
    });
    drop(runtime);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(crate::support::until("the child ends", async || !is_running(&pid)));
}

/// Error output is masked before it is cut: what is left of a secret would not be found any more.
#[tokio::test]
async fn secrets_are_masked_where_error_output_is_cut() {
    let key = "prefix-0123456789-suffix";
    // The last 8 KB begin within the key.
    let tools = Tools::with(
        &[
            (
                "t.yaml",
                r#"
tools:
- name: fail
  description: Writes its key and more
  run:
    program: sh
    args: [-c, 'printf "%s" "$KEY" >&2; head -c 8180 /dev/zero | tr "\0" z >&2; exit 1']
    env: {PATH: {inherit: true}, KEY: {secret: "file:key"}}
- name: base64
  description: Shows its key among other text
  run:
    program: sh
    args: [-c, 'echo "$KEY" | base64; printf "me:%s" "$KEY" | base64']
    env: {PATH: {inherit: true}, KEY: {secret: "file:key"}}
"#,
            ),
            ("key", key),
        ],
        mcp_flow_declarative::Trust::System,
    );
    let failure = tools.failure("fail", json!({})).await;
    assert!(failure.contains("***zzz") && !failure.contains("suffix"), "{failure}");
    let text = tools.text("base64", json!({})).await;
    assert!(text.lines().all(|line| line.contains("***") && line.len() < 16), "{text}");
}

/// A secret in the input is a secret, and one where none can be is an error.
#[tokio::test]
async fn the_input_of_a_program_can_have_secrets() {
    let tools = Tools::of(
        r#"
tools:
- name: whole
  description: d
  run: {program: wc, args: [-c], stdin: {secret: "env:CARGO_PKG_NAME"}}
- name: member
  description: d
  run: {program: cat, stdin: {a: {secret: "env:CARGO_PKG_NAME"}, b: {secret: other}}}
- name: missing
  description: d
  run: {program: cat, stdin: {a: {secret: "env:NO_SUCH_KEY_8"}}}
"#,
    );
    assert_eq!(tools.text("whole", json!({})).await, "mcp-flow-declarative".len().to_string());
    let text = tools.text("member", json!({})).await;
    assert_eq!(text, r#"{"a":"***","b":{"secret":"other"}}"#);
    assert_eq!(tools.listed().await, ["member", "whole"]);
}

/// A call that is cancelled ends its program.
#[tokio::test]
async fn cancelled_calls_end_their_program() {
    let tools = Tools::of(
        r#"
tools:
- name: sleep
  description: Sleeps
  input: {properties: {file: {}}}
  run:
    program: sh
    args: [-c, 'echo $$ > "$1.new"; mv "$1.new" "$1"; sleep 1000', sh, "{{file}}"]
    env: {PATH: {inherit: true}}
"#,
    );
    let file = tools.path().join("pid");
    let call = tools.call("sleep", json!({"file": file}));
    let started = crate::support::until("the program starts", async || file.exists());
    tokio::select! {
        _ = call => panic!("the program ended by itself"),
        () = started => {}
    }
    let pid = &lines(&file)[0];
    crate::support::until("the program ends", async || !is_running(pid)).await;
}

fn lines(path: &std::path::Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

/// Returns whether a process exists and is not a zombie.
fn is_running(pid: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
}
