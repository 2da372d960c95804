//! What a server wants a model to read, and what the model answered: shown to the person, who
//! approves, edits or denies it (PAT-049, PAT-051).

use mcp_flow::client::guard::Review;
use mcp_flow::client::model::{
    Content, CreateMessage, IncludeContext, ModelPreferences, Role, SampleResult, SamplingContent,
};
use mcp_flow::session::prompt::{Prompt, PromptType, RangeBound};
use serde_json::Value;

use crate::ask::question::Question;
use crate::ask::{Asked, Decision};
use crate::host::Person;
use crate::show::neutral;

/// Something that is shown, and of which parts can be changed.
pub(crate) trait Reviewed {
    /// All of it, and nothing that moves a cursor.
    fn shown(&self) -> String;

    /// The parts that can be changed.
    fn parts(&mut self) -> Vec<Part<'_>>;
}

/// A part that can be changed, under a name for people.
pub(crate) struct Part<'a> {
    name: String,
    value: Editable<'a>,
}

enum Editable<'a> {
    Text(&'a mut String),
    Count(&'a mut u32),
}

impl Person {
    /// Shows something and has it decided. What was edited is shown and decided anew.
    pub(crate) async fn review<T: Reviewed>(
        &self,
        title: &str,
        question: &str,
        mut subject: T,
    ) -> Review<T> {
        let _turn = self.turn.lock().await;
        loop {
            self.meter.clear();
            eprintln!("{title}\n{}", subject.shown());
            let decided = match self.asker.review(question).await {
                Ok(Decision::Approve) => return Review::Approved(subject),
                Ok(Decision::Edit) => self.edit(&mut subject).await,
                Ok(Decision::Deny) => Err("the person said no".to_owned()),
                Ok(Decision::Interrupted) => Err(self.leave()),
                Ok(Decision::Nobody) => Err("nobody is there to allow it".to_owned()),
                Err(error) => Err(format!("it could not be asked: {error:#}")),
            };
            if let Err(why) = decided {
                return Review::Denied(why);
            }
        }
    }

    async fn edit(&self, subject: &mut impl Reviewed) -> Result<(), String> {
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
            match (self.asker.ask_person(question).await, value) {
                (Ok(Asked::Answer(Value::String(text))), Editable::Text(old)) => *old = text,
                (Ok(Asked::Answer(number)), Editable::Count(old)) => {
                    let count = number.as_u64().and_then(|count| u32::try_from(count).ok());
                    *old = count.unwrap_or(*old);
                }
                (Ok(Asked::Interrupted), _) => return Err(self.leave()),
                // Whoever says nothing keeps it as it is.
                (Ok(_), _) => {}
                (Err(error), _) => return Err(format!("it could not be edited: {error:#}")),
            }
        }
        Ok(())
    }
}

impl Reviewed for CreateMessage {
    fn shown(&self) -> String {
        let mut lines = Vec::new();
        let mut line = |name: &str, value: String| lines.push(format!("  {name}: {value}"));
        if let Some(system) = &self.system_prompt {
            line("system", neutral(system));
        }
        for message in &self.messages {
            for content in &message.content {
                line(role(message.role), said(content));
            }
        }
        for tool in &self.tools {
            line("may use", neutral(&tool.name));
        }
        line("maxTokens", self.max_tokens.to_string());
        if let Some(temperature) = self.temperature {
            line("temperature", temperature.to_string());
        }
        if !self.stop_sequences.is_empty() {
            line("stopSequences", neutral(&format!("{:?}", self.stop_sequences)));
        }
        if let Some(preferences) = &self.model_preferences {
            line("modelPreferences", preferred(preferences));
        }
        if let Some(IncludeContext::ThisServer | IncludeContext::AllServers) = self.include_context
        {
            line("includeContext", "asked for; none is added".to_owned());
        }
        lines.join("\n")
    }

    fn parts(&mut self) -> Vec<Part<'_>> {
        let system = self.system_prompt.as_mut();
        let system =
            system.map(|text| Part { name: "system".to_owned(), value: Editable::Text(text) });
        let messages = self.messages.iter_mut().enumerate().flat_map(|(place, message)| {
            let name = format!("{} (message {})", role(message.role), place + 1);
            texts(&mut message.content, name)
        });
        let tokens =
            Part { name: "maxTokens".to_owned(), value: Editable::Count(&mut self.max_tokens) };
        system.into_iter().chain(messages).chain([tokens]).collect()
    }
}

impl Reviewed for SampleResult {
    fn shown(&self) -> String {
        let lines: Vec<_> =
            self.content.iter().map(|content| format!("  {}", said(content))).collect();
        lines.join("\n")
    }

    fn parts(&mut self) -> Vec<Part<'_>> {
        texts(&mut self.content, "answer".to_owned()).collect()
    }
}

/// The texts among pieces of content, under one name.
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

/// Which model the server would like, in the words of the protocol.
fn preferred(preferences: &ModelPreferences) -> String {
    let ModelPreferences { hints, cost_priority, speed_priority, intelligence_priority } =
        preferences;
    let names: Vec<_> = hints.iter().filter_map(|hint| hint.name.as_deref()).map(neutral).collect();
    let hints = (!names.is_empty()).then(|| format!("hints {}", names.join(", ")));
    let priorities = [
        ("costPriority", cost_priority),
        ("speedPriority", speed_priority),
        ("intelligencePriority", intelligence_priority),
    ];
    let priorities =
        priorities.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", (*value)?)));
    let said: Vec<_> = hints.into_iter().chain(priorities).collect();
    if said.is_empty() { "none".to_owned() } else { said.join("; ") }
}

/// One piece of a conversation with a model.
fn said(content: &SamplingContent) -> String {
    match content {
        SamplingContent::Content(Content::Text { text, .. }) => neutral(text),
        SamplingContent::Content(Content::Image { .. }) => "[an image]".to_owned(),
        SamplingContent::Content(Content::Audio { .. }) => "[audio]".to_owned(),
        other => neutral(&format!("{other:?}")),
    }
}
