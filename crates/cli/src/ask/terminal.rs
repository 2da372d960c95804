//! Questions as widgets of a terminal.

use std::fmt;

use chrono::NaiveDate;
use inquire::list_option::ListOption;
use inquire::ui::RenderConfig;
use inquire::validator::{ErrorMessage, Validation};
use inquire::{Confirm, DateSelect, InquireError, MultiSelect, Select, Text};
use mcp_flow::client::neutral;
use mcp_flow::session::InvalidAnswer;
use mcp_flow::session::prompt::ChoiceOption;
use serde_json::Value;

use super::keyboard::{Keyboard, Withdrawal};
use super::path::Paths;
use super::question::{Question, Widget, spelled};
use super::{Asked, WITHDRAWN, complaint, shown};

/// Shows the widget that fits the question, until the answer does or the question is withdrawn.
pub(super) fn ask(question: &Question, withdrawal: &Withdrawal) -> Result<Asked, InquireError> {
    let answered = match Keyboard::get() {
        Some(keyboard) => keyboard.ask(withdrawal, || show(question)),
        None => show(question).map(Some),
    };
    match answered {
        Ok(Some(value)) => Ok(Asked::Answer(value)),
        Ok(None) => {
            eprintln!("{WITHDRAWN}");
            Ok(Asked::Declined)
        }
        Err(InquireError::OperationInterrupted) => Ok(Asked::Interrupted),
        Err(InquireError::OperationCanceled) if question.is_required() => Ok(Asked::Declined),
        Err(InquireError::OperationCanceled) => Ok(Asked::Answer(Value::Null)),
        Err(InquireError::IO(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Ok(Asked::NoMore)
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

/// Texts, numbers, paths and JSON are typed.
fn text(question: &Question) -> Result<Value, InquireError> {
    let (message, help) = (shown(&question.message), help(question));
    let default = question.default.as_ref().map(|default| shown(&spelled(default)));
    let placeholder = match &question.widget {
        Widget::Text { placeholder } => placeholder.as_deref().map(shown),
        _ => None,
    };
    let rules = question.clone();
    let mut widget = Text::new(&message)
        .with_render_config(look())
        .with_validator(move |typed: &str| Ok(verdict(rules.read(typed).err())));
    widget.help_message = help.as_deref();
    widget.placeholder = placeholder.as_deref();
    // What is edited stands on the line already, unless it cannot be shown as it is.
    let old = default.as_deref().filter(|_| question.widget == Widget::Edit);
    match old.filter(|old| question.default.as_ref().is_some_and(|default| default == old)) {
        Some(old) => widget.initial_value = Some(old),
        None => widget.default = default.as_deref(),
    }
    if matches!(question.widget, Widget::File | Widget::Path) {
        widget = widget.with_autocomplete(Paths);
    }
    let typed = widget.prompt()?;
    // What stands for the default as a text is the default, whatever type it has.
    match default.is_some_and(|default| default == typed) {
        true => Ok(question.default.clone().unwrap_or_default()),
        false => question.read(&typed).map_err(|violation| InquireError::Custom(violation.into())),
    }
}

fn select(question: &Question, choices: &[ChoiceOption]) -> Result<Value, InquireError> {
    let (message, help) = (shown(&question.message), help(question));
    let mut widget = Select::new(&message, labels(choices)).with_render_config(look());
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
        MultiSelect::new(&message, labels(choices)).with_render_config(look()).with_validator(
            move |chosen: &[ListOption<&Label>]| Ok(verdict(rules.check(&judge(chosen)).err())),
        );
    if help.is_some() {
        widget.help_message = help.as_deref();
    }
    let chosen = widget.raw_prompt()?;
    Ok(pick(&chosen.iter().map(ListOption::as_ref).collect::<Vec<_>>()))
}

fn confirm(question: &Question) -> Result<Value, InquireError> {
    let (message, help) = (shown(&question.message), help(question));
    let mut widget = Confirm::new(&message).with_render_config(look());
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
        .with_render_config(look())
        .with_week_start(chrono::Weekday::Mon)
        .with_formatter(&|day| day.to_string())
        .with_validator(move |day: NaiveDate| {
            Ok(verdict(rules.check(&day.to_string().into()).err()))
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

/// A choice as it is listed.
#[derive(Clone)]
struct Label(String);

impl fmt::Display for Label {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

fn labels(choices: &[ChoiceOption]) -> Vec<Label> {
    choices.iter().map(|choice| Label(neutral::shorten(&choice.label, LONGEST_LABEL))).collect()
}

fn help(question: &Question) -> Option<String> {
    let own = question.help.as_deref().map(shown);
    own.or_else(|| match &question.widget {
        Widget::Edit => Some("alt-enter begins another line".to_owned()),
        Widget::Text { .. } if question.may_be_long() => {
            Some("alt-enter begins another line".to_owned())
        }
        Widget::File => Some("a path, completed by tab, or an address".to_owned()),
        Widget::Path => Some("a path, completed by tab".to_owned()),
        Widget::Json => Some(r#"JSON, such as {"name": "value"}"#.to_owned()),
        _ => None,
    })
}

fn verdict(violation: Option<InvalidAnswer>) -> Validation {
    match violation {
        None => Validation::Valid,
        Some(violation) => Validation::Invalid(ErrorMessage::Custom(complaint(&violation))),
    }
}

/// How many characters of a choice are listed, on one line.
const LONGEST_LABEL: usize = 200;

/// Colours, unless they are not wanted.
fn look() -> RenderConfig<'static> {
    match crate::show::wants_colour() {
        true => RenderConfig::default_colored(),
        false => RenderConfig::empty(),
    }
}
