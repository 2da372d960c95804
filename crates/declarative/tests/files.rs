//! Tool files: problems, reloading, the published schema.

use mcp_flow_declarative::{SCHEMA, ToolReading, Trust, check_tool_files};
use mcp_flow_schema::Schema;
use mcp_flow_workflow::Format;
use serde_json::json;

use crate::support::{Tools, until};

#[test]
fn every_problem_has_a_position_and_a_suggestion() {
    for (text, line, expected) in [
        ("tools:\n- nam: x\n", 2, "did you mean `name`?"),
        ("tools:\n- {name: x, run: {program: a, arg: []}}\n", 2, "did you mean `args`?"),
        ("tools:\n- {name: x}\n", 2, "`run`, `http` or `flow`"),
        ("tools:\n- {name: x, run: {program: a}, flow: []}\n", 2, "only one of run, flow"),
        ("tools:\n- {name: 'a b', run: {program: a}}\n", 2, "letters, digits"),
        ("tools:\n- {name: x, run: {program: a}}\n- {name: x, run: {program: a}}\n", 3, "twice"),
        ("tools:\n- name: x\n  run:\n    program: a\n    args: ['{{b}}']\n", 5, "no variable `b`"),
        (
            "tools:\n- name: x\n  input: {properties: {path: {}}}\n  run: {program: a, args: ['{{paht}}']}",
            4,
            "did you mean `path`?",
        ),
        ("tools:\n- {name: x, run: {program: '{{a}}'}}", 2, "cannot have variables"),
        ("tools:\n- {name: x, run: {program: git log}}", 2, "pass those as `args`"),
        (
            "tools:\n- {name: x, input: {properties: {a: {}}}, run: {program: sh, args: [-c, 'echo {{a}}']}}",
            2,
            "cannot have variables, which could contain code",
        ),
        (
            "tools:\n- {name: x, input: {properties: {a: {type: array}}}, run: {program: a, args: ['{{a}}']}}",
            2,
            "each",
        ),
        ("tools:\n- {name: x, run: {program: a, timeout: soon}}", 2, "30s"),
        ("tools:\n- {name: x, run: {program: a, sandbox: stict}}", 2, "did you mean `strict`?"),
        ("tools:\n- {name: x, run: {program: a, env: {A: {secret: TOKEN}}}}", 2, "env:NAME"),
        (
            "tools:\n- {name: x, input: {properties: {a: {}}}, run: {program: a, env: {PATH: '{{a}}'}}}",
            2,
            "which programs",
        ),
        ("tools:\n- {name: x, run: {program: a}, output: {as: jsn}}", 2, "did you mean `json`?"),
        ("tools:\n- {name: x, run: {program: a}, output: {pick: items}}", 2, "JSON Pointer"),
        ("tools:\n- {name: x, input: {type: string}, run: {program: a}}", 2, "must be object"),
        ("tools:\n- {name: x, input: {type: 7}, run: {program: a}}", 2, "`input`"),
        ("tools:\n- {name: x, http: {url: 'ftp://a'}}", 2, "https://"),
        (
            "tools:\n- {name: x, input: {properties: {h: {}}}, http: {url: 'https://{{h}}/'}}",
            2,
            "scheme and host",
        ),
        ("tools:\n- {name: x, http: {url: 'https://a/../b'}}", 2, "segments"),
        (
            "tools:\n- {name: x, http: {url: 'https://a/', headers: {Host: b}}}",
            2,
            "cannot be changed",
        ),
        (
            "tools:\n- {name: x, input: {properties: {t: {}}}, http: {url: 'https://a/', headers: {Authorization: '{{t}}'}}}",
            2,
            "use a secret",
        ),
        ("tools:\n- {name: x, http: {url: 'https://u:p@a/'}}", 2, "use `auth`"),
        ("tools:\n- {name: x, flow: []}", 2, "at least one step"),
        ("tools:\n- name: x\n  flow:\n  - ak: {key: a, message: m}", 4, "did you mean `ask`?"),
        ("tools:\n- name: x\n  flow:\n  - ask: {key: a, type: color, message: m}", 4, "use one of"),
        ("tools:\n- name: x\n  flow:\n  - ask: {key: a, type: choice, message: m}", 4, "choices"),
        (
            "tools:\n- name: x\n  flow:\n  - ask: {key: a, type: number, message: m, min: 5, max: 1}",
            4,
            "min and max",
        ),
        ("tools:\n- name: x\n  flow:\n  - return: '{{a}}'", 4, "no variable `a`"),
        ("tools:\n- name: x\n  flow:\n  - if: {vr: a}\n    then: []", 4, "did you mean `var`?"),
        (
            "tools:\n- name: x\n  input: {properties: {approve: {}}}\n  flow:\n  - approve: {message: m}",
            5,
            "only a person approves",
        ),
        (
            "tools:\n- name: x\n  flow:\n  - ask: {key: approve, as: ok, type: confirm, message: m}\n  - approve: {message: m}",
            5,
            "only a person approves",
        ),
        (
            "tools:\n- name: x\n  flow:\n  - approve: {message: m, key: sure}\n  - if: {var: sure}\n    then: [{ask: {key: sure, message: m}}]",
            4,
            "only a person approves",
        ),
        (
            "tools:\n- name: x\n  input: {properties: {a: {}}}\n  flow:\n  - if: '{{a}}'\n    then: [{return: 1}]",
            5,
            "write {var: a}",
        ),
        ("tools:\n- name: x\n  flow:\n  - approve: Sure?", 4, "write {message: \"Sure?\"}"),
        ("tools:\n- name: x\n  <<: {run: {program: a}}", 3, "write the members out"),
        (
            "tools:\n- name: x\n  flow:\n  - call: {tool: y, arguments: {a: {secret: 'env:A'}}}",
            4,
            "a secret cannot be here",
        ),
        ("tools:\n- name: x\n  flow:\n  - set: {a: [{secret: 'file:a'}]}", 4, "a secret cannot be"),
        (
            "tools:\n- {name: x, run: {program: a, stdin: {secret: 'env:A', prefix: b}}}",
            2,
            "only secrets in headers",
        ),
        (
            "tools:\n- {name: x, input: {properties: {n: {}}}, http: {url: 'https://a/', method: POST, body: '{\"n\": {{n}}}'}}",
            2,
            "write the body as an object",
        ),
        (
            "tools:\n- {name: x, http: {url: 'https://a/', headers: {Content-Type: application/x-www-form-urlencoded}, body: [1]}}",
            2,
            "a=1&b={{b}}",
        ),
        ("tools:\n- {name: x, http: {url: 'https://a/', lists: index}}", 2, "indexed"),
        ("tools:\n- {name: x, flow: [{return: 1}], output: {as: lines}}", 2, "json or text"),
        ("tools:\n- {name: x, flow: [{return: 1}], output: {limit: 1K}}", 2, "remove `limit`"),
        ("tools: [", 2, "YAML"),
        ("a: &a [x, x]\ntools: *a\nb: *c\n", 3, ""),
    ] {
        let reading = ToolReading::of(text, Format::Yaml, ".".as_ref());
        assert!(reading.file.is_none(), "{text}");
        let found = reading.problems.iter().find(|problem| problem.message.contains(expected));
        let found = found.unwrap_or_else(|| panic!("{text}: {:?}", reading.problems));
        assert_eq!(found.position.line, line, "{text}: {found}");
    }
}

/// No argument becomes code, however the program and its options are written.
#[test]
fn variables_cannot_be_in_code() {
    let tool = |program: &str, args: &serde_json::Value, stdin: &str| {
        let run = json!({"program": program, "args": args, "stdin": stdin});
        let input = json!({"properties": {"a": {}, "l": {}}});
        let file =
            json!({"tools": [{"name": "x", "description": "d", "input": input, "run": run}]});
        let reading = ToolReading::of(&file.to_string(), Format::Json, ".".as_ref());
        let problems: Vec<_> = reading.problems.into_iter().map(|one| one.message).collect();
        problems.join("; ")
    };
    let when = json!({"if": {"var": "l"}, "then": ["-c", "{{a}}"]});
    for (program, args) in [
        ("sh", json!(["-c", "{{a}}"])),
        ("/bin/bash", json!(["-ec", "x {{a}}"])),
        ("bash", json!([["-c", "{{a}}"]])),
        ("bash", json!(["-o", "pipefail", "-c", "{{a}}"])),
        ("bash", json!(["-c", "-x", "--", "{{a}}"])),
        ("sh", json!([when])),
        ("sh", json!(["-c", {"each": "l"}])),
        ("sh", json!(["{{l}}", "-c", "{{a}}"])),
        ("fish", json!(["--command={{a}}"])),
        ("python3", json!(["-c{{a}}"])),
        ("python3.11", json!(["-W", "ignore", "-c", "{{a}}"])),
        ("node", json!(["--eval", "{{a}}"])),
        ("node", json!(["--print={{a}}"])),
        ("node", json!(["-p", "{{a}}"])),
        ("perl", json!(["-ne", "{{a}}"])),
        ("perl", json!(["-E", "{{a}}"])),
        ("perl", json!(["-e", "1", "-e", "{{a}}"])),
        ("ruby", json!(["-e", "{{a}}"])),
        ("php", json!(["-r", "{{a}}"])),
        ("pwsh", json!(["-NoProfile", "-Command", "{{a}}"])),
        ("awk", json!(["-F", ",", "{print {{a}}}"])),
        ("awk", json!(["{{a}}", "file"])),
        ("sed", json!(["s/x/{{a}}/"])),
        ("sed", json!(["-n", "-e", "{{a}}"])),
        ("env", json!(["A=1", "sh", "-c", "{{a}}"])),
        ("env", json!(["-S", "{{a}}"])),
        ("env", json!(["{{a}}"])),
        ("sudo", json!(["-u", "me", "timeout", "5", "bash", "-c", "{{a}}"])),
        ("timeout", json!(["5", "{{a}}"])),
        ("nice", json!(["python3", "-c", "{{a}}"])),
        ("xargs", json!(["sh", "-c", "{{a}}"])),
        ("find", json!([".", "-exec", "sh", "-c", "{{a}}", ";"])),
        ("busybox", json!(["sh", "-c", "{{a}}"])),
    ] {
        assert!(tool(program, &args, "").contains("cannot have variables"), "{program} {args}");
    }
    for (program, args) in [("sh", json!([])), ("bash", json!(["-s"])), ("python3", json!(["-"]))] {
        assert!(tool(program, &args, "{{a}}").contains("cannot have"), "{program} {args} < a");
    }
    for (program, args, stdin) in [
        ("sh", json!(["-c", "echo \"$1\"", "sh", "{{a}}"]), "{{a}}"),
        ("bash", json!(["./script.sh", "-c", "{{a}}"]), "{{a}}"),
        ("python3", json!(["-m", "json.tool", "{{a}}"]), "{{a}}"),
        ("python3", json!(["tool.py", "{{a}}"]), ""),
        ("node", json!(["tool.js", "--eval", "{{a}}"]), ""),
        ("perl", json!(["-pe", "s/x/y/", "--", "{{a}}"]), ""),
        ("php", json!(["-dmemory_limit={{a}}", "x.php"]), ""),
        ("awk", json!(["-v", "x={{a}}", "{print x}", "{{a}}"]), ""),
        ("awk", json!(["-f", "prog.awk", "{{a}}"]), ""),
        ("sed", json!(["-n", "1p", "--", "{{a}}"]), ""),
        ("sed", json!(["-e", "1p", "{{a}}"]), ""),
        ("env", json!(["A={{a}}", "ls", "{{a}}"]), ""),
        ("timeout", json!(["{{a}}", "ls"]), ""),
        ("sudo", json!(["-u", "{{a}}", "ls"]), ""),
        ("grep", json!(["-c", "{{a}}"]), ""),
    ] {
        assert_eq!(tool(program, &args, stdin), "", "{program} {args}");
    }
}

#[test]
fn expansion_bombs_are_rejected() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}, ", level - 1).repeat(9);
        bomb.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }
    let reading = ToolReading::of(&format!("{bomb}tools: []\n"), Format::Yaml, ".".as_ref());
    assert!(reading.problems[0].message.contains("aliases"), "{:?}", reading.problems);
}

/// Editors accept what is valid, and reject what is not.
#[test]
fn the_published_schema_describes_the_files() {
    let mut schema: serde_json::Value = serde_json::from_str(SCHEMA).unwrap();
    schema.as_object_mut().unwrap().remove("$schema");
    schema.as_object_mut().unwrap().remove("$id");
    let schema = Schema::compile(&schema).unwrap();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tools");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let value = Format::Yaml.parse(&text).unwrap();
        assert!(schema.accepts(&value), "{}", path.display());
        let reading = ToolReading::of(&text, Format::Yaml, &folder);
        assert_eq!(reading.problems, [], "{}", path.display());
        count += 1;
    }
    assert!(count >= 10, "{count} examples");
    for (tool, expected) in [
        (json!({"name": "x", "run": {"program": "a"}}), true),
        (json!({"name": "x", "run": {"program": "a", "nonsense": 1}}), false),
        (json!({"name": "x"}), false),
        (json!({"name": "x", "run": {"program": "a"}, "flow": [{"return": 1}]}), false),
        (json!({"name": "x", "flow": [{"ask": {"key": "a"}}]}), false),
        (
            json!({"name": "x", "http": {"url": "https://a/", "auth": {"bearer": {"secret": "env:A"}}}}),
            true,
        ),
        (json!({"name": "x", "http": {"url": "/a"}}), false),
        (
            json!({"name": "x", "http": {"url": "https://a/", "lists": "indexed", "timeout": "30",
                "query": {"a": {"spread": {"b": 1}}, "c": {"join": [1]}}}}),
            true,
        ),
        (json!({"name": "x", "http": {"url": "https://a/", "lists": "joined"}}), false),
        (json!({"name": "x", "flow": [{"return": 1}], "output": {"as": "text"}}), true),
    ] {
        let file = json!({"tools": [tool]});
        assert_eq!(schema.accepts(&file), expected, "{file}");
        let reading = ToolReading::of(&file.to_string(), Format::Json, ".".as_ref());
        assert_eq!(reading.file.is_some(), expected, "{file}: {:?}", reading.problems);
    }
}

#[tokio::test]
async fn changes_take_effect_and_broken_files_keep_their_last_version() {
    let tool = |name: &str, text: &str| {
        format!("tools: [{{name: {name}, description: d, run: {{program: echo, args: [{text}]}}}}]")
    };
    let tools =
        Tools::with(&[("a.yaml", &tool("a", "one")), ("b.yaml", &tool("b", "b"))], Trust::System);
    let _watching = tools.library.watch().unwrap();
    let write = |name: &str, text: &str| std::fs::write(tools.path().join(name), text).unwrap();
    assert_eq!(tools.text("a", json!({})).await, "one");
    write("a.yaml", &tool("a", "two"));
    until("the change", async || tools.text("a", json!({})).await == "two").await;
    write("a.yaml", "tools: [");
    until("the problem", async || tools.library.files()[0].is_outdated).await;
    assert_eq!(tools.text("a", json!({})).await, "two");
    assert_eq!(tools.text("b", json!({})).await, "b");
    write("c.json", &json!({"tools": [{"name": "c", "run": {"program": "echo"}}]}).to_string());
    until("the new file", async || tools.listed().await == ["a", "b", "c"]).await;
    std::fs::remove_file(tools.path().join("b.yaml")).unwrap();
    until("the removal", async || tools.listed().await == ["a", "c"]).await;
    write("a.yaml", &tool("renamed", "three"));
    until("the repair", async || tools.listed().await == ["c", "renamed"]).await;
    // Two files with the same name: the first keeps it.
    write("d.yaml", &tool("c", "d"));
    until("the duplicate", async || !tools.library.files().last().unwrap().problems.is_empty())
        .await;
    assert_eq!(tools.text("c", json!({})).await, "");
}

/// Tools take the arguments that they declare, as flows do, unless their schema says otherwise.
#[tokio::test]
async fn unknown_arguments_are_rejected() {
    let tools = Tools::of(
        "tools: [{name: closed, description: d, input: {properties: {text: {}}}, run: {program: echo}}, {name: open, \
         description: d, input: {additionalProperties: true}, run: {program: echo}}]",
    );
    let failure = tools.failure("closed", json!({"txt": 1})).await;
    assert!(failure.contains("did you mean text"), "{failure}");
    assert_eq!(tools.text("open", json!({"txt": 1})).await, "");
}

#[test]
fn missing_secrets_and_cycles_are_named() {
    let folder = tempfile::TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let paths = [
        write(
            "s.yaml",
            "tools: [{name: s, description: d, run: {program: env, env: {A: {secret: 'env:NO_SUCH_KEY'}}}}]",
        ),
        write(
            "p.yaml",
            "tools: [{name: p, description: d, run: {program: env, sandbox: {read: [/no/such/path]}}}]",
        ),
        write("x.yaml", "tools: [{name: x, description: d, flow: [{call: {tool: y}}]}]"),
        write(
            "y.yaml",
            "tools: [{name: y, description: d, flow: [{forEach: {items: [1], do: [{call: {tool: x}}]}}]}]",
        ),
    ];
    let checked = check_tool_files(&paths, None);
    assert!(checked[0].1[0].message.contains("env:NO_SUCH_KEY"), "{checked:?}");
    assert!(!checked[0].1[0].is_error());
    let problem = &checked[1].1[0];
    assert!(problem.message.contains("/no/such/path, which the sandbox lists"), "{checked:?}");
    assert!(checked[2].1[0].message.contains("x -> y -> x"), "{checked:?}");
    assert!(checked[2].1[0].is_error() && checked[3].1[0].is_error());
}

/// The server refuses the second tool of a name, and so does the check.
#[test]
fn duplicate_names_across_files_are_reported() {
    let folder = tempfile::TempDir::new().unwrap();
    let paths = ["a.b", "c", "a_b"].map(|name| {
        let path = folder.path().join(format!("{name}.yaml"));
        let text = format!("tools:\n- {{name: {name}, description: d, run: {{program: echo}}}}\n");
        std::fs::write(&path, text).unwrap();
        path
    });
    let checked = check_tool_files(&paths, None);
    assert_eq!((&checked[0].1, &checked[1].1), (&Vec::new(), &Vec::new()));
    let problem = &checked[2].1[0];
    assert!(problem.is_error() && problem.position.line == 2, "{problem:?}");
    assert!(problem.message.contains("another file declares a tool of this name"), "{problem}");
}

/// A flow calls another by its name with underscores, or without the prefix, as the server finds it.
#[test]
fn cycles_are_found_behind_other_spellings() {
    for (called, name) in [("a_b", "a.b"), ("b", "a.b"), ("x.b", "a.b")] {
        let text = format!(
            "tools: [{{name: {name}, description: d, flow: [{{call: {{tool: {called}}}}}]}}]"
        );
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("t.yaml");
        std::fs::write(&path, text).unwrap();
        let checked = check_tool_files(&[path], None);
        let is_found =
            checked[0].1.iter().any(|one| one.message.contains("calls itself: a.b -> a.b"));
        assert_eq!(is_found, called != "x.b", "{called}: {checked:?}");
    }
}
