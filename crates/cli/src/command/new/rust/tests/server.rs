//! The server as a client sees it, and after a crash.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use mcp_flow::client::interaction::{InteractionSession, NextStep};
use mcp_flow::client::{Client, HttpOptions, connector, in_process};
use serde_json::{Map, Value, json};

#[tokio::test]
async fn a_tool_and_a_resource() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let server = NEW_CRATE::server(&folder.path().join("journal.db"))?;
    let client = Client::builder().connect(in_process(&server)).await?;
    let greeting = client.call_tool("greet", json!({"name": "Ada"})).await?;
    assert_eq!(greeting.text(), "Hello, Ada!");
    let purpose = client.read_resource("about:purpose").raw().await?;
    assert_eq!(
        purpose["contents"][0]["text"],
        "Greets people and deploys services."
    );
    Ok(())
}

/// Answers as a table: question, then answer. The program is killed before each answer, and at the end.
#[tokio::test]
async fn a_flow_survives_crashes() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (mut program, client) = start(folder.path()).await?;
    let arguments = Map::from_iter([("service".to_owned(), json!("shop"))]);
    let mut session = client.start_session("deploy", arguments).await?;

    let answers = [
        ("Where to?", json!("staging")),
        ("Deploy shop to staging?", json!(true)),
    ];
    for (question, answer) in answers {
        (program, session) = restart(program, folder.path(), session.id()).await?;
        assert_eq!(next_question(&mut session).await?, question);
        session.answer(answer).await?;
    }
    assert_eq!(result(&mut session).await?, "Deployed shop to staging");
    (program, session) = restart(program, folder.path(), session.id()).await?;
    assert_eq!(result(&mut session).await?, "Deployed shop to staging");
    program.kill()?;
    program.wait()?;

    let log = std::fs::read_to_string(folder.path().join("deployments.log"))?;
    assert_eq!(log, "shop to staging\n");
    Ok(())
}

/// Kills the program, starts it again and resumes a session.
async fn restart(
    mut program: Child,
    folder: &Path,
    session: &str,
) -> Result<(Child, InteractionSession), Box<dyn Error>> {
    program.kill()?;
    program.wait()?;
    let (program, client) = start(folder).await?;
    Ok((program, client.resume_session(session)))
}

/// Starts the program in `folder` and connects to it.
async fn start(folder: &Path) -> Result<(Child, Client), Box<dyn Error>> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_NEW-NAME"))
        .args(["--listen", "127.0.0.1:0"])
        .env("STATE_DIRECTORY", folder)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut url = String::new();
    BufReader::new(program.stdout.take().ok_or("no output")?).read_line(&mut url)?;
    let connector = connector(url.trim(), &HttpOptions::new())?;
    let client = Client::builder().connect_by(connector).await?;
    Ok((program, client))
}

async fn next_question(session: &mut InteractionSession) -> Result<String, Box<dyn Error>> {
    match session.next().await? {
        NextStep::Prompt(question) => Ok(question.prompt.message.clone()),
        NextStep::Finished(end) => Err(format!("finished early: {:?}", end.data).into()),
    }
}

async fn result(session: &mut InteractionSession) -> Result<Value, Box<dyn Error>> {
    match session.next().await? {
        NextStep::Finished(end) => Ok(end.data["value"].clone()),
        NextStep::Prompt(question) => Err(format!("asks: {}", question.prompt.message).into()),
    }
}
