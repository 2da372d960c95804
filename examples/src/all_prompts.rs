//! `all_prompts`: one prompt of every type.

use mcp_flow::prelude::*;
use mcp_flow::question::{FileAnswer, choice, confirm, custom, date, file, number, text};

/// A point, asked for with a custom prompt.
#[data]
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// To the right
    pub x: f64,
    /// Upwards
    pub y: f64,
}

/// The answers.
#[data]
#[derive(Debug, PartialEq)]
pub struct Answers {
    /// A text
    pub text: String,
    /// One of several
    pub choice: String,
    /// Yes or no
    pub confirm: bool,
    /// A number
    pub number: f64,
    /// A day
    pub date: String,
    /// Size of the file in bytes, or its path
    pub file: String,
    /// A point
    pub custom: Point,
}

/// Ask one question of every type, and return the answers
#[flow]
pub async fn all_prompts(flow: Flow) -> FlowResult<Answers> {
    let word = text("A word in small letters").length(3..=50);
    let word = word.pattern("^[a-z]+$").pattern_description("letters from a to z");
    let word = flow.ask("text", word).await?;
    let option = flow.ask("choice", choice("Select option", &OPTIONS)).await?;
    let sure = flow.ask("confirm", confirm("Are you sure?").default(false)).await?;
    let amount = flow.ask("number", number("Enter amount").range(0.0..=1000.0)).await?;
    let day = flow.ask("date", date("Select date")).await?;
    let upload = flow.ask("file", file("Send a small file").max_size(64 * 1024)).await?;
    let point = flow.ask("custom", custom::<Point>("Where on the map?")).await?;
    Ok(Answers {
        text: word,
        choice: option.0.to_owned(),
        confirm: sure,
        number: amount,
        date: day.to_string(),
        file: match upload {
            FileAnswer::Carried { name, data, .. } => format!("{name}: {} bytes", data.len()),
            FileAnswer::At { uri } => uri,
        },
        custom: point,
    })
}

/// Known before the flow runs, so that a value given at the start can be validated.
const OPTIONS: [(&str, &str); 2] = [("a", "Option A"), ("b", "Option B")];
