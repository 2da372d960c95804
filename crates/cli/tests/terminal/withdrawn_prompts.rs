//! Prompts that the server withdraws while a person answers them.

use std::fs;

use mcp_flow_testkit::scripted::Script;

use super::Terminal;

/// A withdrawn form is closed with a message, and the next form gets the next keys.
#[test]
fn a_withdrawn_form_takes_no_keys() {
    let withdraw =
        r#"'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"first"}}'"#;
    let script = script(&format!("printf '%s\\n' {withdraw}; form second"));
    let path = script.path().display().to_string();
    let mut terminal = Terminal::start(&["call", "two", "--", "sh", &path]);
    terminal.expect("Your first word");
    terminal.press("never sent");
    proceed(&script);
    terminal.expect("The question was withdrawn.");
    terminal.expect("Your second word");
    terminal.enter("second answer");
    terminal.expect("thanks");
    terminal.ends_with(0);
    let received = script.received();
    let answer = received.iter().find(|message| message["id"] == "second").unwrap();
    assert_eq!(answer["result"]["content"]["it"], "second answer");
    assert!(!received.iter().any(|message| message["id"] == "first"), "{received:?}");
}

/// A command that exits with an open prompt restores the terminal.
#[test]
fn the_terminal_is_restored_when_the_command_ends() {
    let script = script("kill -TERM $PPID");
    let path = script.path().display().to_string();
    let words = ["call", "two", "--", "sh", &path];
    let mut terminal = Terminal::run("\"$0\" \"$@\"; echo ended with $?; stty -a", &words);
    terminal.expect("Your first word");
    proceed(&script);
    terminal.expect("ended with 130");
    terminal.expect(" icanon");
    terminal.ends_with(0);
}

/// A server that sends a form, waits for [`proceed`] and runs a shell line.
fn script(then: &str) -> Script {
    Script::new(
        &r#"
  *'"tools/list"'*) reply result '{"tools":[{"name":"two","inputSchema":{"type":"object"}}]}' ;;
  *'"tools/call"'*)
    call=$id
    form() {
      printf '{"jsonrpc":"2.0","id":"%s","method":"elicitation/create","params":%s}\n' $1 \
        '{"message":"The '$1' form","requestedSchema":{"type":"object","required":["it"],"properties":{"it":{"type":"string","title":"Your '$1' word"}}}}'
    }
    mkfifo proceed
    form first
    read -r _ <proceed
    THEN ;;
  *'"id":"second"'*) id=$call; reply result '{"content":[{"type":"text","text":"thanks"}]}' ;;
"#
        .replace("THEN", then),
        "",
    )
}

fn proceed(script: &Script) {
    fs::write(script.path().with_file_name("proceed"), "\n").unwrap();
}
