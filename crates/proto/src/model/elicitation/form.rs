//! What a form may ask for.

use serde_json::{Number, Value};

/// The fields of a form, in the order they are shown.
///
/// ```
/// use mcp_flow_proto::model::{Field, FormSchema};
///
/// let form = FormSchema::new([
///     Field::text("name").required().length(1, 50),
///     Field::choice("color", ["red", "green"]).title("Favourite colour"),
/// ]);
/// assert_eq!(form.to_schema()["required"], serde_json::json!(["name"]));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FormSchema {
    /// The fields.
    pub fields: Vec<Field>,
}

impl FormSchema {
    /// A form of these fields.
    pub fn new(fields: impl Into<Vec<Field>>) -> Self {
        Self { fields: fields.into() }
    }
}

/// One field of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The name its value has in the answer.
    pub name: String,
    /// Name for people.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Whether it must be filled in.
    pub required: bool,
    /// What may be filled in.
    pub kind: FieldKind,
}

/// What may be filled into a field.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldKind {
    /// Text.
    Text {
        /// How many characters at least.
        min_length: Option<u64>,
        /// How many characters at most.
        max_length: Option<u64>,
        /// What kind of text.
        format: Option<TextFormat>,
        /// What is there to begin with.
        default: Option<String>,
    },
    /// A number.
    Number {
        /// Whether it must be whole.
        whole: bool,
        /// The least it may be.
        minimum: Option<Number>,
        /// The most it may be.
        maximum: Option<Number>,
        /// What is there to begin with.
        default: Option<Number>,
    },
    /// Yes or no.
    Boolean {
        /// What is there to begin with.
        default: Option<bool>,
    },
    /// One of several.
    Choice {
        /// What there is to choose from.
        choices: Vec<Choice>,
        /// What is chosen to begin with.
        default: Option<String>,
    },
    /// Some of several.
    Choices {
        /// What there is to choose from.
        choices: Vec<Choice>,
        /// How many at least.
        min_items: Option<u64>,
        /// How many at most.
        max_items: Option<u64>,
        /// What is chosen to begin with.
        default: Option<Vec<String>>,
    },
}

/// What kind of text a field takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// An address for mail.
    Email,
    /// A URI.
    Uri,
    /// A day, as `2026-07-28`.
    Date,
    /// A moment, as `2026-07-28T12:00:00Z`.
    DateTime,
}

impl TextFormat {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Email, Self::Uri, Self::Date, Self::DateTime];

    /// The word for it in a schema.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Uri => "uri",
            Self::Date => "date",
            Self::DateTime => "date-time",
        }
    }
}

/// Something to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The value in the answer.
    pub value: String,
    /// What people read, if something else.
    pub title: Option<String>,
}

impl From<&str> for Choice {
    fn from(value: &str) -> Self {
        Self { value: value.to_owned(), title: None }
    }
}

impl From<(&str, &str)> for Choice {
    fn from((value, title): (&str, &str)) -> Self {
        Self { value: value.to_owned(), title: Some(title.to_owned()) }
    }
}

impl Field {
    fn new(name: impl Into<String>, kind: FieldKind) -> Self {
        Self { name: name.into(), title: None, description: None, required: false, kind }
    }

    /// A field for text.
    pub fn text(name: impl Into<String>) -> Self {
        let (min_length, max_length, format, default) = (None, None, None, None);
        Self::new(name, FieldKind::Text { min_length, max_length, format, default })
    }

    /// A field for any number.
    pub fn number(name: impl Into<String>) -> Self {
        let (minimum, maximum, default) = (None, None, None);
        Self::new(name, FieldKind::Number { whole: false, minimum, maximum, default })
    }

    /// A field for a whole number.
    pub fn integer(name: impl Into<String>) -> Self {
        let (minimum, maximum, default) = (None, None, None);
        Self::new(name, FieldKind::Number { whole: true, minimum, maximum, default })
    }

    /// A field for yes or no.
    pub fn boolean(name: impl Into<String>) -> Self {
        Self::new(name, FieldKind::Boolean { default: None })
    }

    /// A field for one of several values, each with a title for people or without.
    pub fn choice<C: Into<Choice>>(
        name: impl Into<String>,
        choices: impl IntoIterator<Item = C>,
    ) -> Self {
        let choices = choices.into_iter().map(C::into).collect();
        Self::new(name, FieldKind::Choice { choices, default: None })
    }

    /// A field for some of several values. Before 2025-11-25 no client knows such a field.
    pub fn choices<C: Into<Choice>>(
        name: impl Into<String>,
        choices: impl IntoIterator<Item = C>,
    ) -> Self {
        let choices = choices.into_iter().map(C::into).collect();
        let (min_items, max_items, default) = (None, None, None);
        Self::new(name, FieldKind::Choices { choices, min_items, max_items, default })
    }

    /// Must be filled in.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Gives it a name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Says what it is for.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Bounds the characters of a text, or the number of choices.
    #[must_use]
    pub fn length(mut self, least: u64, most: u64) -> Self {
        match &mut self.kind {
            FieldKind::Text { min_length: min, max_length: max, .. }
            | FieldKind::Choices { min_items: min, max_items: max, .. } => {
                (*min, *max) = (Some(least), Some(most));
            }
            _ => {}
        }
        self
    }

    /// Bounds a number.
    #[must_use]
    pub fn range(mut self, least: impl Into<Number>, most: impl Into<Number>) -> Self {
        if let FieldKind::Number { minimum, maximum, .. } = &mut self.kind {
            (*minimum, *maximum) = (Some(least.into()), Some(most.into()));
        }
        self
    }

    /// Says what kind of text it is.
    #[must_use]
    pub fn format(mut self, kind: TextFormat) -> Self {
        if let FieldKind::Text { format, .. } = &mut self.kind {
            *format = Some(kind);
        }
        self
    }

    /// Fills it in to begin with. What does not fit the field is left out.
    #[must_use]
    pub fn default_value(mut self, value: impl Into<Value>) -> Self {
        match (&mut self.kind, value.into()) {
            (FieldKind::Text { default, .. }, Value::String(text))
            | (FieldKind::Choice { default, .. }, Value::String(text)) => *default = Some(text),
            (FieldKind::Number { default, .. }, Value::Number(number)) => *default = Some(number),
            (FieldKind::Boolean { default }, Value::Bool(value)) => *default = Some(value),
            (FieldKind::Choices { default, .. }, list @ Value::Array(_)) => {
                *default = serde_json::from_value(list).ok();
            }
            _ => {}
        }
        self
    }
}
