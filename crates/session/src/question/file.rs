//! Questions answered by a file.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Optional, Question};
use crate::prompt::{Prompt, PromptType};

/// A question answered by a file.
#[derive(Clone, Debug)]
pub struct File(Prompt);

/// Asks for a file. It may have a megabyte unless [`File::max_size`] says otherwise.
pub fn file(message: impl AsRef<str>) -> File {
    File(Prompt::new(PromptType::File, message.as_ref()))
}

impl File {
    /// The most bytes the file may have.
    #[must_use]
    pub fn max_size(mut self, bytes: u64) -> Self {
        self.0.validation.max_size = Some(bytes);
        self
    }

    /// A kind of file that is taken, like `text/csv` or `image/*`; all are if none is named.
    #[must_use]
    pub fn mime_type(mut self, kind: impl Into<String>) -> Self {
        self.0.validation.mime_types.push(kind.into());
        self
    }

    /// A scheme of addresses that is taken in place of a file, like `s3` or that of your resources;
    /// `https` and `http` are if none is named.
    #[must_use]
    pub fn uri_scheme(mut self, scheme: impl Into<String>) -> Self {
        self.0.validation.uri_schemes.push(scheme.into());
        self
    }

    /// Lets the question go unanswered.
    pub fn optional(mut self) -> Optional<Self> {
        self.0.validation.required = None;
        Optional(self)
    }
}

/// A file as it was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileAnswer {
    /// The file itself.
    Carried {
        /// Its name, without folders.
        name: String,
        /// What kind of file it is said to be.
        mime_type: Option<String>,
        /// What is in it.
        data: Vec<u8>,
    },
    /// Where the file is. Nothing has been fetched.
    At {
        /// An absolute URI of one of the schemes the question takes.
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
