//! Review of sampling requests and of a model's answers: the person approves, edits or denies them
//! (PAT-049, PAT-051).

use mcp_flow::client::approval::Review;
use mcp_flow::client::model::{
    Content, CreateMessage, IncludeContext, ModelPreferences, Role, SampleResult, SamplingContent,
};
use mcp_flow::session::prompt::{Prompt, PromptType, RangeBound};
use serde_json::Value;

use crate::client::user::TerminalUser;
use crate::terminal::ask::question::Question;
use crate::terminal::ask::{Decision, Reply};
use crate::terminal::output::sanitize;

/// A message that a person reviews, with parts that can be edited.
pub(crate) trait Reviewable {
    /// Its full text, without control characters.
    fn to_text(&self) -> String;

    /// Its editable parts.
    fn parts(&mut self) -> Vec<Part<'_>>;
}

/// Editable part, under a name for people.
pub(crate) struct Part<'a> {
    name: String,
    value: Editable<'a>,
}

enum Editable<'a> {
    Text(&'a mut String),
    Count(&'a mut u32),
}

impl TerminalUser {
    /// Shows something and asks for a decision; after an edit, shows it and asks again.
    pub(crate) async fn review<T: Reviewable>(
        &self,
        title: &str,
        question: &str,
        mut subject: T,
    ) -> Review<T> {
        let _turn = self.turn.lock().await;
        loop {
            self.progress.clear();
            eprintln!("{title}\n{}", subject.to_text());
            let decided = match self.input.review(question).await {
                Ok(Decision::Approve) => return Review::Approved(subject),
                Ok(Decision::Edit) => self.edit(&mut subject).await,
                Ok(Decision::Deny) => Err("the user denied it".to_owned()),
                Ok(Decision::Interrupted) => Err(self.leave()),
                Ok(Decision::NoUser) => Err("no user is available to allow it".to_owned()),
                Err(error) => Err(format!("the user could not be asked: {error:#}")),
            };
            if let Err(why) = decided {
                return Review::Denied(why);
            }
        }
    }

    async fn edit(&self, subject: &mut impl Reviewable) -> Result<(), String> {
        for Part { name, value } in subject.parts() {
            let question = match &value {
                Editable::Text(text) => Question::edit(&name, text),
                Editable::Count(count) => {
                    let mut prompt = Prompt::new(PromptType::Number, &name);
                    prompt.validation.integer = true;
                    prompt.validation.min = Some(RangeBound::Number(1.into()));
                    prompt.validation.max = Some(RangeBound::Number(u32::MAX.into()));
                    prompt.default_value = Some((**count).into());
                    Question::of_prompt(&name, prompt)
                }
            };
            match (self.input.ask_user(question).await, value) {
                (Ok(Reply::Answer(Value::String(text))), Editable::Text(old)) => *old = text,
                (Ok(Reply::Answer(number)), Editable::Count(old)) => {
                    let count = number.as_u64().and_then(|count| u32::try_from(count).ok());
                    *old = count.unwrap_or(*old);
                }
                (Ok(Reply::Interrupted), _) => return Err(self.leave()),
                // No answer keeps the old value.
                (Ok(_), _) => {}
                (Err(error), _) => return Err(format!("the user could not edit it: {error:#}")),
            }
        }
        Ok(())
    }
}

impl Reviewable for CreateMessage {
    fn to_text(&self) -> String {
        let mut lines = Vec::new();
        let mut line = |name: &str, value: String| lines.push(format!("  {name}: {value}"));
        if let Some(system) = &self.system_prompt {
            line("system", sanitize(system));
        }
        for message in &self.messages {
            for content in &message.content {
                line(role(message.role), content_text(content));
            }
        }
        for tool in &self.tools {
            line("tool", sanitize(&tool.name));
        }
        line("maxTokens", self.max_tokens.to_string());
        if let Some(temperature) = self.temperature {
            line("temperature", temperature.to_string());
        }
        if !self.stop_sequences.is_empty() {
            line("stopSequences", sanitize(&format!("{:?}", self.stop_sequences)));
        }
        if let Some(preferences) = &self.model_preferences {
            line("modelPreferences", preferences_text(preferences));
        }
        if let Some(IncludeContext::ThisServer | IncludeContext::AllServers) = self.include_context
        {
            line("includeContext", "requested; none is included".to_owned());
        }
        lines.join("\n")
    }

    fn parts(&mut self) -> Vec<Part<'_>> {
        let system = self.system_prompt.as_mut();
        let system =
            system.map(|text| Part { name: "system".to_owned(), value: Editable::Text(text) });
        let messages = self.messages.iter_mut().enumerate().flat_map(|(index, message)| {
            let name = format!("{} (message {})", role(message.role), index + 1);
            texts(&mut message.content, name)
        });
        let tokens =
            Part { name: "maxTokens".to_owned(), value: Editable::Count(&mut self.max_tokens) };
        system.into_iter().chain(messages).chain([tokens]).collect()
    }
}

impl Reviewable for SampleResult {
    fn to_text(&self) -> String {
        let lines: Vec<_> =
            self.content.iter().map(|content| format!("  {}", content_text(content))).collect();
        lines.join("\n")
    }

    fn parts(&mut self) -> Vec<Part<'_>> {
        texts(&mut self.content, "answer".to_owned()).collect()
    }
}

/// Returns the texts among pieces of content, all under one name.
fn texts(content: &mut [SamplingContent], name: String) -> impl Iterator<Item = Part<'_>> {
    content.iter_mut().filter_map(move |content| match content {
        SamplingContent::Content(Content::Text { text, .. }) => {
            Some(Part { name: name.clone(), value: Editable::Text(text) })
        }
        _ => None,
    })
}

fn role(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

/// Formats the server's model preferences with the names of the protocol.
fn preferences_text(preferences: &ModelPreferences) -> String {
    let ModelPreferences { hints, cost_priority, speed_priority, intelligence_priority } =
        preferences;
    let names: Vec<_> =
        hints.iter().filter_map(|hint| hint.name.as_deref()).map(sanitize).collect();
    let hints = (!names.is_empty()).then(|| format!("hints {}", names.join(", ")));
    let priorities = [
        ("costPriority", cost_priority),
        ("speedPriority", speed_priority),
        ("intelligencePriority", intelligence_priority),
    ];
    let priorities =
        priorities.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", (*value)?)));
    let parts: Vec<_> = hints.into_iter().chain(priorities).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join("; ") }
}

/// Formats one piece of content of a message to or from a model.
fn content_text(content: &SamplingContent) -> String {
    match content {
        SamplingContent::Content(Content::Text { text, .. }) => sanitize(text),
        SamplingContent::Content(Content::Image { .. }) => "[an image]".to_owned(),
        SamplingContent::Content(Content::Audio { .. }) => "[audio]".to_owned(),
        other => sanitize(&format!("{other:?}")),
    }
}
