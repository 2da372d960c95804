//! File questions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Optional, Question};
use crate::prompt::{Prompt, PromptType};

/// Question for a file.
#[derive(Clone, Debug)]
pub struct File(Prompt);

/// Creates a question for a file. It may have a megabyte unless [`File::max_size`] is set.
pub fn file(message: impl AsRef<str>) -> File {
    File(Prompt::new(PromptType::File, message.as_ref()))
}

impl File {
    /// Sets the most bytes of the file.
    #[must_use]
    pub fn max_size(mut self, bytes: u64) -> Self {
        self.0.validation.max_size = Some(bytes);
        self
    }

    /// Allows a MIME type, like `text/csv` or `image/*`. All are allowed if none is set.
    #[must_use]
    pub fn mime_type(mut self, kind: impl Into<String>) -> Self {
        self.0.validation.mime_types.push(kind.into());
        self
    }

    /// Allows a URI scheme, like `s3` or that of your resources. `https` and `http` are allowed if
    /// none is set.
    #[must_use]
    pub fn uri_scheme(mut self, scheme: impl Into<String>) -> Self {
        self.0.validation.uri_schemes.push(scheme.into());
        self
    }

    /// Makes the answer optional.
    pub fn optional(mut self) -> Optional<Self> {
        self.0.validation.required = None;
        Optional(self)
    }
}

/// A file answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileAnswer {
    /// The file itself, inline.
    Carried {
        /// File name without directories.
        name: String,
        /// Declared MIME type.
        mime_type: Option<String>,
        /// Content.
        data: Vec<u8>,
    },
    /// The URI of the file, which has not been fetched.
    At {
        /// Absolute URI with one of the allowed schemes.
        uri: String,
    },
}

impl Question for File {
    type Answer = FileAnswer;

    fn prompt(&self) -> &Prompt {
        &self.0
    }

    fn read(&self, value: Value) -> Option<FileAnswer> {
        if let Some(uri) = value.get("uri") {
            return Some(FileAnswer::At { uri: uri.as_str()?.to_owned() });
        }
        Some(FileAnswer::Carried {
            name: value.get("name")?.as_str()?.to_owned(),
            mime_type: value.get("mimeType").and_then(Value::as_str).map(str::to_owned),
            data: STANDARD.decode(value.get("data")?.as_str()?).ok()?,
        })
    }
}
