//! Sessions, forms and workflows in a terminal.

use mcp_flow_testkit::scripted::Script;
use serde_json::Value;

use crate::commands::sampling::{ASKING, parrot};

use super::{ALT_ENTER, BACKSPACE, CTRL_C, DOWN, ENTER, StoreFixture, TAB, Terminal};

/// INT-087, INT-096: all prompts of `register`, with an invalid answer that is explained and
/// corrected.
#[test]
fn a_person_registers() {
    let fixture = StoreFixture::new();
    let mut terminal = fixture.call(&["register"]);
    terminal.expect("Enter name");
    terminal.enter("Ada Lovelace");
    terminal.expect("Enter email");
    terminal.enter("ada");
    terminal.expect("the text does not match the expected format");
    terminal.enter("@example.com");
    terminal.expect("Ada Lovelace is registered");
    terminal.expect(r#""email": "ada@example.com""#);
    terminal.ends_with(0);
}

/// MCP-036, INT-118: all prompts of `book_trip`: text, calendar, number, list and confirmation,
/// each with its widget, and two invalid answers.
#[test]
fn a_person_books_a_trip() {
    let fixture = StoreFixture::new();
    let mut terminal = fixture.call(&["book_trip"]);
    terminal.expect("Where to?");
    terminal.enter("O");
    terminal.expect("at least 2 characters are needed");
    terminal.enter("slo");
    terminal.expect("Which day?");
    terminal.press(ENTER);
    terminal.expect("How many go?");
    terminal.enter("12");
    terminal.expect("the number must be at most 9");
    terminal.press(BACKSPACE);
    terminal.press(ENTER);
    terminal.expect("Which offer?");
    terminal.expect("Coach to Oslo");
    terminal.press(DOWN);
    terminal.press(ENTER);
    terminal.expect("Book Coach to Oslo");
    terminal.enter("y");
    terminal.expect("Booked as BUS-1-");
    terminal.ends_with(0);
}

/// INT-097, INT-118: a prompt of every type, including a file completed by tab.
#[test]
fn every_kind_of_question_has_its_widget() {
    let fixture = StoreFixture::new();
    std::fs::write(fixture.folder.path().join("notes-1.txt"), "hi").unwrap();
    let mut terminal = fixture.call(&["all_prompts"]);
    terminal.expect("A word in small letters");
    terminal.enter("abc");
    terminal.expect("Select option");
    terminal.press(DOWN);
    terminal.press(ENTER);
    terminal.expect("Are you sure?");
    terminal.enter("y");
    terminal.expect("Enter amount");
    terminal.enter("2.5");
    terminal.expect("Select date");
    terminal.press(ENTER);
    terminal.expect("Send a small file");
    terminal.press(&format!("{}/not", fixture.folder.path().display()));
    terminal.press(TAB);
    terminal.press(ENTER);
    terminal.expect("Where on the map?");
    terminal.enter(r#"{"x": 1, "y": 2}"#);
    terminal.expect(r#""choice": "b""#);
    terminal.expect("notes-1.txt: 2 bytes");
    terminal.ends_with(0);
}

/// INT-098, MCP-094: ctrl-c interrupts a session and prints how to resume it: answer by answer, or
/// in the terminal until its end.
#[test]
fn an_interrupted_session_is_resumed() {
    let fixture = StoreFixture::new();
    let mut terminal = fixture.call(&["book_trip"]);
    terminal.expect("Where to?");
    terminal.enter("Bergen");
    terminal.expect("Which day?");
    terminal.press(CTRL_C);
    let id = terminal.find("sessions answer --store [^ ]+ (session_[0-9a-zA-Z_-]+)");
    terminal.ends_with(130);

    let (rejected, code) = fixture.answer(&id, "2020-01-01");
    assert_eq!((&rejected["accepted"], code), (&Value::Bool(false), 1));
    let (answered, code) = fixture.answer(&id, "2099-05-17");
    assert_eq!((answered["next"]["prompt"]["message"].as_str(), code), (Some("How many go?"), 0));

    let mut terminal = Terminal::start(&["sessions", "answer", "--store", &fixture.store, &id]);
    terminal.expect("How many go?");
    terminal.enter("5");
    terminal.expect("Which offer?");
    terminal.press(ENTER);
    terminal.expect("Book Night train to Bergen");
    terminal.enter("yes");
    terminal.expect("Booked as RAIL-1-");
    terminal.ends_with(0);
}

/// MCP-036: missing required arguments are asked for by the schema.
#[test]
fn missing_arguments_are_asked_for() {
    let fixture = StoreFixture::new();
    let mut terminal = fixture.call(&["calculator.add", "a=2"]);
    terminal.expect("b");
    terminal.enter("three");
    terminal.expect("enter a number");
    for _ in 0.."three".len() {
        terminal.press(BACKSPACE);
    }
    terminal.enter("3");
    terminal.expect("5");
    terminal.ends_with(0);
}

/// A person runs a workflow: a failed validation is explained, ctrl-c interrupts the run, and it is
/// resumed to its confirmed end.
#[test]
fn a_person_runs_a_workflow() {
    let fixture = StoreFixture::new();
    let workflow = "id: two-steps\nname: Two\ndescription: Two steps\nversion: 1.0.0\nsteps:\n\
        - {id: one, title: One, prompt: 'First {{word}}', requireConfirmation: true,\n   \
           validationCriteria: [{type: contains, value: done}]}\n\
        - {id: two, title: Two, prompt: Second}\n";
    std::fs::write(fixture.folder.path().join("two.yaml"), workflow).unwrap();
    let folder = fixture.folder.path().display().to_string();
    let at = ["--workflows", &folder, "--store", &fixture.store];
    let words = [&["workflow", "run", "two-steps", "word=sesame"], &at[..]].concat();
    let mut terminal = Terminal::start(&words);
    terminal.expect("First sesame");
    terminal.expect("Output of this step?");
    terminal.enter("nothing");
    terminal.expect("does not contain");
    terminal.expect("Output of this step?");
    terminal.enter("it is done");
    terminal.expect("Do you accept the result");
    terminal.press(CTRL_C);
    let id = terminal.find("workflow resume --store [^ ]+ (session_[0-9a-zA-Z_-]+)");
    terminal.ends_with(130);

    let mut terminal = Terminal::start(&["workflow", "resume", "--store", &fixture.store, &id]);
    terminal.expect("Do you accept the result");
    terminal.enter("y");
    terminal.expect("Second");
    terminal.expect("Output of this step?");
    terminal.enter("all");
    terminal.expect("Two is done, in 2 steps");
    terminal.ends_with(0);
}

/// Text may have several lines.
#[test]
fn a_text_of_several_lines_is_typed() {
    let fixture = StoreFixture::new();
    let mut terminal = fixture.call(&["echo", "--format", "json"]);
    terminal.expect("Text to return");
    terminal.expect("alt-enter");
    terminal.press("one");
    terminal.press(ALT_ENTER);
    terminal.enter("two");
    terminal.expect(r#""text":"one\ntwo""#);
    terminal.ends_with(0);
}

/// PAT-028, PAT-034: with the policy `ask`, a call or session is shown with everything that would
/// be sent, and made after confirmation.
#[test]
fn a_call_is_approved_or_not() {
    for (typed, sees, code) in [("y", "5", 0), ("n", "not approved", 5)] {
        let fixture = StoreFixture::new();
        let mut terminal = fixture.call(&["calculator.add", "a=2", "b=3", "--calls", "ask"]);
        terminal.expect(r#"{"a":2,"b":3}"#);
        terminal.expect("Call this tool");
        terminal.enter(typed);
        terminal.expect(sees);
        terminal.ends_with(code);
    }
    let fixture = StoreFixture::new();
    let mut terminal = fixture.call(&["register", "--calls", "ask"]);
    terminal.expect("Arguments for register");
    terminal.enter("n");
    terminal.expect("not approved");
    terminal.ends_with(5);
}

/// Concurrent forms of a server are shown one after the other.
#[test]
fn concurrent_forms_are_shown_one_by_one() {
    let script = Script::new(
        r#"
  *'"tools/list"'*) reply result '{"tools":[{"name":"two","inputSchema":{"type":"object"}}]}' ;;
  *'"tools/call"'*)
    call=$id
    for form in first second; do
      printf '{"jsonrpc":"2.0","id":"%s","method":"elicitation/create","params":%s}\n' $form \
        '{"message":"The '$form' form","requestedSchema":{"type":"object","required":["it"],
          "properties":{"it":{"type":"string","title":"Your '$form' word"}}}}' | tr -d '\n'
      echo
    done ;;
  *'"id":"second"'*) id=$call; reply result '{"content":[{"type":"text","text":"thanks"}]}' ;;
"#,
        "",
    );
    let path = script.path().display().to_string();
    let mut terminal = Terminal::start(&["call", "two", "--", "sh", &path]);
    for form in ["first", "second"] {
        terminal.expect(&format!("The {form} form"));
        terminal.expect(&format!("Your {form} word"));
        terminal.enter(&format!("{form} answer"));
    }
    terminal.expect("thanks");
    terminal.ends_with(0);
    let received = script.received();
    for form in ["first", "second"] {
        let answer = received.iter().find(|message| message["id"] == form).unwrap();
        assert_eq!(answer["result"]["content"]["it"], format!("{form} answer"));
    }
}

/// PAT-049, PAT-051: a sampling request can be edited in the terminal.
#[test]
fn a_request_to_a_model_is_edited() {
    let folder = tempfile::tempdir().unwrap();
    let (config, seen) = parrot(folder.path());
    let script = Script::new(ASKING, "");
    let path = script.path().display().to_string();
    let mut terminal = Terminal::start(&["call", "ask", "--config", &config, "--", "sh", &path]);
    terminal.expect("maxTokens: 100");
    terminal.expect("Allow this request?");
    terminal.enter("edit");
    terminal.expect("alt-enter");
    terminal.enter(" and brief");
    terminal.expect("user (message 1)");
    terminal.press(ENTER);
    terminal.expect("maxTokens");
    terminal.press(ENTER);
    terminal.expect("system: Be polite and brief");
    terminal.expect("Allow this request?");
    terminal.enter("yes");
    terminal.expect("pieces of eight");
    terminal.expect("Send this answer");
    terminal.enter("yes");
    terminal.expect("thanks");
    terminal.ends_with(0);
    let read = std::fs::read_to_string(seen).unwrap();
    assert!(read.contains("Be polite and brief") && read.contains("What does it say?"), "{read}");
}
