//! Form fields for elicitation.

use serde_json::{Number, Value};

/// The fields of a form, in display order.
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
    /// Creates a form with these fields.
    pub fn new(fields: impl Into<Vec<Field>>) -> Self {
        Self { fields: fields.into() }
    }
}

/// One field of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Name of the value in the result.
    pub name: String,
    /// Display name.
    pub title: Option<String>,
    /// Description of the field.
    pub description: Option<String>,
    /// The field must be filled in.
    pub required: bool,
    /// Type and constraints of the value.
    pub kind: FieldKind,
}

/// The type of a field, with its constraints and default.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldKind {
    /// Text.
    Text {
        /// Minimum number of characters.
        min_length: Option<u64>,
        /// Maximum number of characters.
        max_length: Option<u64>,
        /// Format of the text.
        format: Option<TextFormat>,
        /// Default value.
        default: Option<String>,
    },
    /// A number.
    Number {
        /// The number must be an integer.
        whole: bool,
        /// Minimum value.
        minimum: Option<Number>,
        /// Maximum value.
        maximum: Option<Number>,
        /// Default value.
        default: Option<Number>,
    },
    /// A boolean.
    Boolean {
        /// Default value.
        default: Option<bool>,
    },
    /// A single choice.
    Choice {
        /// The options.
        choices: Vec<FormChoice>,
        /// Default value.
        default: Option<String>,
    },
    /// A multiple choice.
    Choices {
        /// The options.
        choices: Vec<FormChoice>,
        /// Minimum number of selected options.
        min_items: Option<u64>,
        /// Maximum number of selected options.
        max_items: Option<u64>,
        /// Default value.
        default: Option<Vec<String>>,
    },
}

/// The format of a text field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// An e-mail address.
    Email,
    /// A URI.
    Uri,
    /// A date, such as `2026-07-28`.
    Date,
    /// A date and time, such as `2026-07-28T12:00:00Z`.
    DateTime,
}

impl TextFormat {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::Email, Self::Uri, Self::Date, Self::DateTime];

    /// Returns the format's name in JSON Schema.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Uri => "uri",
            Self::Date => "date",
            Self::DateTime => "date-time",
        }
    }
}

/// An option of a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormChoice {
    /// The value in the result.
    pub value: String,
    /// Display name, if it differs from the value.
    pub title: Option<String>,
}

impl From<&str> for FormChoice {
    fn from(value: &str) -> Self {
        Self { value: value.to_owned(), title: None }
    }
}

impl From<(&str, &str)> for FormChoice {
    fn from((value, title): (&str, &str)) -> Self {
        Self { value: value.to_owned(), title: Some(title.to_owned()) }
    }
}

impl Field {
    fn new(name: impl Into<String>, kind: FieldKind) -> Self {
        Self { name: name.into(), title: None, description: None, required: false, kind }
    }

    /// Creates a text field.
    pub fn text(name: impl Into<String>) -> Self {
        let (min_length, max_length, format, default) = (None, None, None, None);
        Self::new(name, FieldKind::Text { min_length, max_length, format, default })
    }

    /// Creates a field for any number.
    pub fn number(name: impl Into<String>) -> Self {
        let (minimum, maximum, default) = (None, None, None);
        Self::new(name, FieldKind::Number { whole: false, minimum, maximum, default })
    }

    /// Creates a field for an integer.
    pub fn integer(name: impl Into<String>) -> Self {
        let (minimum, maximum, default) = (None, None, None);
        Self::new(name, FieldKind::Number { whole: true, minimum, maximum, default })
    }

    /// Creates a boolean field.
    pub fn boolean(name: impl Into<String>) -> Self {
        Self::new(name, FieldKind::Boolean { default: None })
    }

    /// Creates a single-choice field. Each option may have a display name.
    pub fn choice<C: Into<FormChoice>>(
        name: impl Into<String>,
        choices: impl IntoIterator<Item = C>,
    ) -> Self {
        let choices = choices.into_iter().map(C::into).collect();
        Self::new(name, FieldKind::Choice { choices, default: None })
    }

    /// Creates a multiple-choice field. Clients before 2025-11-25 do not support it.
    pub fn choices<C: Into<FormChoice>>(
        name: impl Into<String>,
        choices: impl IntoIterator<Item = C>,
    ) -> Self {
        let choices = choices.into_iter().map(C::into).collect();
        let (min_items, max_items, default) = (None, None, None);
        Self::new(name, FieldKind::Choices { choices, min_items, max_items, default })
    }

    /// Makes the field required.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Sets the display name.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the description.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets bounds on the number of characters or of selected options.
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

    /// Sets bounds on a number.
    #[must_use]
    pub fn range(mut self, least: impl Into<Number>, most: impl Into<Number>) -> Self {
        if let FieldKind::Number { minimum, maximum, .. } = &mut self.kind {
            (*minimum, *maximum) = (Some(least.into()), Some(most.into()));
        }
        self
    }

    /// Sets the format of a text.
    #[must_use]
    pub fn format(mut self, kind: TextFormat) -> Self {
        if let FieldKind::Text { format, .. } = &mut self.kind {
            *format = Some(kind);
        }
        self
    }

    /// Sets the default value. A value that does not fit the field is ignored.
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
