//! Questions as interactive widgets of the terminal.

use std::fmt;

use chrono::NaiveDate;
use inquire::list_option::ListOption;
use inquire::ui::RenderConfig;
use inquire::validator::{ErrorMessage, Validation};
use inquire::{Confirm, DateSelect, InquireError, MultiSelect, Select, Text};
use mcp_flow::client::sanitize::shorten;
use mcp_flow::session::InvalidAnswer;
use mcp_flow::session::prompt::ChoiceOption;
use serde_json::Value;

use super::keyboard::{Keyboard, Withdrawal};
use super::path_completion::Paths;
use super::question::{Question, Widget, value_text};
use super::{Reply, report_withdrawn, shown, violation_text};

/// Shows the widget of a question until the answer is valid or the question is withdrawn.
pub(super) fn ask(question: &Question, withdrawal: &Withdrawal) -> Result<Reply, InquireError> {
    let answered = match Keyboard::get() {
        Some(keyboard) => keyboard.ask(withdrawal, || show(question)),
        None => show(question).map(Some),
    };
    match answered {
        Ok(Some(value)) => Ok(Reply::Answer(value)),
        Ok(None) => {
            report_withdrawn();
            Ok(Reply::Declined)
        }
        Err(InquireError::OperationInterrupted) => Ok(Reply::Interrupted),
        Err(InquireError::OperationCanceled) if question.is_required() => Ok(Reply::Declined),
        Err(InquireError::OperationCanceled) => Ok(Reply::Answer(Value::Null)),
        Err(InquireError::IO(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Ok(Reply::EndOfInput)
        }
        Err(error) => Err(error),
    }
}

fn show(question: &Question) -> Result<Value, InquireError> {
    match &question.widget {
        Widget::Choice(choices) if !choices.is_empty() => select(question, choices),
        Widget::Choices(choices) if !choices.is_empty() => select_several(question, choices),
        Widget::Confirm => confirm(question),
        Widget::Decision => select(question, &question.rules.choices),
        Widget::Date { earliest, latest } => date(question, earliest.as_deref(), latest.as_deref()),
        _ => text(question),
    }
}

/// Widget for texts, numbers, paths and JSON.
fn text(question: &Question) -> Result<Value, InquireError> {
    let (message, help) = (shown(&question.message), help(question));
    let default = question.default.as_ref().map(|default| shown(&value_text(default)));
    let placeholder = match &question.widget {
        Widget::Text { placeholder } => placeholder.as_deref().map(shown),
        _ => None,
    };
    let rules = question.clone();
    let mut widget = Text::new(&message)
        .with_render_config(style())
        .with_validator(move |typed: &str| Ok(validation(rules.parse(typed).err())));
    widget.help_message = help.as_deref();
    widget.placeholder = placeholder.as_deref();
    // The old text is on the line to be edited, unless sanitizing has changed it.
    let old = default.as_deref().filter(|_| question.widget == Widget::Edit);
    match old.filter(|old| question.default.as_ref().is_some_and(|default| default == old)) {
        Some(old) => widget.initial_value = Some(old),
        None => widget.default = default.as_deref(),
    }
    if matches!(question.widget, Widget::File | Widget::Path) {
        widget = widget.with_autocomplete(Paths);
    }
    let typed = widget.prompt()?;
    // The text of the default stands for the default, whatever its type is.
    match default.is_some_and(|default| default == typed) {
        true => Ok(question.default.clone().unwrap_or_default()),
        false => question.parse(&typed).map_err(|violation| InquireError::Custom(violation.into())),
    }
}

fn select(question: &Question, choices: &[ChoiceOption]) -> Result<Value, InquireError> {
    let (message, help) = (shown(&question.message), help(question));
    let mut widget = Select::new(&message, labels(choices)).with_render_config(style());
    let default = question.default.as_ref();
    let start = choices.iter().position(|choice| Some(&choice.value) == default);
    widget.starting_cursor = start.unwrap_or_default();
    if help.is_some() {
        widget.help_message = help.as_deref();
    }
    let chosen = widget.raw_prompt()?.index;
    Ok(choices.get(chosen).map(|choice| choice.value.clone()).unwrap_or_default())
}

fn select_several(question: &Question, choices: &[ChoiceOption]) -> Result<Value, InquireError> {
    let (message, help, rules) = (shown(&question.message), help(question), question.clone());
    let values: Vec<_> = choices.iter().map(|choice| choice.value.clone()).collect();
    let pick = move |chosen: &[ListOption<&Label>]| -> Value {
        chosen.iter().filter_map(|option| values.get(option.index).cloned()).collect()
    };
    let judge = pick.clone();
    let mut widget =
        MultiSelect::new(&message, labels(choices)).with_render_config(style()).with_validator(
            move |chosen: &[ListOption<&Label>]| Ok(validation(rules.check(&judge(chosen)).err())),
        );
    if help.is_some() {
        widget.help_message = help.as_deref();
    }
    let chosen = widget.raw_prompt()?;
    Ok(pick(&chosen.iter().map(ListOption::as_ref).collect::<Vec<_>>()))
}

fn confirm(question: &Question) -> Result<Value, InquireError> {
    let (message, help) = (shown(&question.message), help(question));
    let mut widget = Confirm::new(&message).with_render_config(style());
    widget.default = question.default.as_ref().and_then(Value::as_bool);
    widget.help_message = help.as_deref();
    widget.prompt().map(Value::from)
}

fn date(
    question: &Question,
    earliest: Option<&str>,
    latest: Option<&str>,
) -> Result<Value, InquireError> {
    let day = |text: &str| text.parse::<NaiveDate>().ok();
    let (message, help, rules) = (shown(&question.message), help(question), question.clone());
    let mut widget = DateSelect::new(&message)
        .with_render_config(style())
        .with_week_start(chrono::Weekday::Mon)
        .with_formatter(&|day| day.to_string())
        .with_validator(move |day: NaiveDate| {
            Ok(validation(rules.check(&day.to_string().into()).err()))
        });
    widget.min_date = earliest.and_then(day);
    widget.max_date = latest.and_then(day);
    if let Some(earliest) = widget.min_date {
        widget.starting_date = widget.starting_date.max(earliest);
    }
    if let Some(default) = question.default.as_ref().and_then(Value::as_str).and_then(day) {
        widget.starting_date = default;
    }
    if help.is_some() {
        widget.help_message = help.as_deref();
    }
    widget.prompt().map(|day| day.to_string().into())
}

/// Label of a choice in a list.
#[derive(Clone)]
struct Label(String);

impl fmt::Display for Label {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

fn labels(choices: &[ChoiceOption]) -> Vec<Label> {
    choices.iter().map(|choice| Label(shorten(&choice.label, MAX_LABEL_LENGTH))).collect()
}

fn help(question: &Question) -> Option<String> {
    let own = question.help.as_deref().map(shown);
    own.or_else(|| match &question.widget {
        Widget::Edit => Some("press alt-enter for a new line".to_owned()),
        Widget::Text { .. } if question.may_be_long() => {
            Some("press alt-enter for a new line".to_owned())
        }
        Widget::File => Some("a path (tab completes it) or a URL".to_owned()),
        Widget::Path => Some("a path (tab completes it)".to_owned()),
        Widget::Json => Some(r#"JSON, for example {"name": "value"}"#.to_owned()),
        _ => None,
    })
}

fn validation(violation: Option<InvalidAnswer>) -> Validation {
    match violation {
        None => Validation::Valid,
        Some(violation) => Validation::Invalid(ErrorMessage::Custom(violation_text(&violation))),
    }
}

/// Number of characters of a choice's label that are shown.
const MAX_LABEL_LENGTH: usize = 200;

/// Style of widgets, with colours unless they are disabled.
fn style() -> RenderConfig<'static> {
    match crate::terminal::output::wants_colour() {
        true => RenderConfig::default_colored(),
        false => RenderConfig::empty(),
    }
}
