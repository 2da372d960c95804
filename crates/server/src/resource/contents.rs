//! Contents of resources.

use std::any::Any;
use std::borrow::Cow;
use std::error::Error;
use std::{fmt, io};

use mcp_flow_proto::model::ResourceContents;
use serde_json::Value;

use crate::bulk::Bulk;

/// The contents of a resource.
#[derive(Debug)]
pub enum Contents {
    /// All of them, usually as one entry.
    Entries(Vec<ResourceContents>),
    /// A payload of any size, still to be read.
    Bulk(Bulk),
}

/// Types that a function reading a resource may return.
#[diagnostic::on_unimplemented(
    message = "a resource cannot hold `{Self}`",
    label = "no content of a resource",
    note = "return text, `Vec<u8>`, `serde_json::Value`, `Bulk` or `ResourceContents`",
    note = "return what can fail as `Result<_, E>` where `E` is any error, or `ReadError`"
)]
pub trait IntoContents {
    /// Converts it into the contents of the resource with this URI and MIME type.
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<Contents, ReadError>;
}

impl IntoContents for Contents {
    fn into_contents(self, _: &str, _: Option<&str>) -> Result<Contents, ReadError> {
        Ok(self)
    }
}

impl IntoContents for Bulk {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<Contents, ReadError> {
        Ok(Contents::Bulk(self.or_described_as(uri, mime_type)))
    }
}

impl IntoContents for ResourceContents {
    fn into_contents(self, _: &str, _: Option<&str>) -> Result<Contents, ReadError> {
        Ok(Contents::Entries(vec![self]))
    }
}

impl IntoContents for Vec<ResourceContents> {
    fn into_contents(self, _: &str, _: Option<&str>) -> Result<Contents, ReadError> {
        Ok(Contents::Entries(self))
    }
}

impl IntoContents for String {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<Contents, ReadError> {
        Ok(entry(ResourceContents::text(uri, self), mime_type))
    }
}

impl IntoContents for &str {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<Contents, ReadError> {
        self.to_owned().into_contents(uri, mime_type)
    }
}

impl IntoContents for Cow<'_, str> {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<Contents, ReadError> {
        self.into_owned().into_contents(uri, mime_type)
    }
}

impl IntoContents for Vec<u8> {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<Contents, ReadError> {
        Ok(entry(ResourceContents::bytes(uri, self), mime_type))
    }
}

impl IntoContents for Value {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<Contents, ReadError> {
        self.to_string().into_contents(uri, mime_type.or(Some("application/json")))
    }
}

impl<T: IntoContents, E: IntoReadError> IntoContents for Result<T, E> {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<Contents, ReadError> {
        self.map_err(E::into_read_error)?.into_contents(uri, mime_type)
    }
}

fn entry(contents: ResourceContents, mime_type: Option<&str>) -> Contents {
    Contents::Entries(vec![match mime_type {
        Some(mime_type) => contents.with_mime_type(mime_type),
        None => contents,
    }])
}

/// Error while reading a resource.
///
/// Any `std::error::Error` converts into one by `?`.
// Not a `std::error::Error`, so that every such error can convert into this type by `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The resource does not exist.
    NotFound,
    /// The caller may not read it, for this reason.
    Denied(String),
    /// Reading failed, for this reason.
    Failed(String),
}

impl<E: Error + 'static> From<E> for ReadError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        by_kind(&error, message)
    }
}

/// Errors that reading a resource may fail with: anything that implements `Display`, or a
/// [`ReadError`].
pub trait IntoReadError {
    /// Converts it.
    fn into_read_error(self) -> ReadError;
}

impl IntoReadError for ReadError {
    fn into_read_error(self) -> ReadError {
        self
    }
}

impl<E: fmt::Display + 'static> IntoReadError for E {
    fn into_read_error(self) -> ReadError {
        by_kind(&self, format!("{self:#}"))
    }
}

/// An I/O error of kind `NotFound` means the resource does not exist; all others are failures.
fn by_kind(error: &dyn Any, message: String) -> ReadError {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    if kind == Some(io::ErrorKind::NotFound) {
        ReadError::NotFound
    } else {
        ReadError::Failed(message)
    }
}

#[cfg(test)]
mod tests {
    use super::{Contents, IntoContents, ReadError};
    use mcp_flow_proto::model::ResourceContents;
    use serde_json::json;
    use std::io;

    /// PAT-017: text is text, bytes are a blob, and the MIME type is the one described.
    #[test]
    fn contents_are_made_of_what_functions_return() {
        let text = ResourceContents::text("x:/a", "hi");
        check("hi", Some("text/x"), &text.clone().with_mime_type("text/x"));
        check("hi".to_owned(), None, &text);
        check(vec![1, 2], None, &ResourceContents::bytes("x:/a", [1, 2]));
        let value = ResourceContents::text("x:/a", "[1]").with_mime_type("application/json");
        check(json!([1]), None, &value);
        check(text.clone(), Some("text/x"), &text);
    }

    #[test]
    fn missing_files_are_not_found() {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let refused =
            |result: Result<String, ReadError>| result.into_contents("x:/a", None).unwrap_err();
        assert_eq!(refused(Err(missing().into())), ReadError::NotFound);
        let direct = Err::<String, _>(missing()).into_contents("x:/a", None);
        assert_eq!(direct.unwrap_err(), ReadError::NotFound);
        let failed = Err::<String, _>("broken").into_contents("x:/a", None);
        assert_eq!(failed.unwrap_err(), ReadError::Failed("broken".to_owned()));
    }

    fn check(returned: impl IntoContents, mime_type: Option<&str>, expected: &ResourceContents) {
        match returned.into_contents("x:/a", mime_type) {
            Ok(Contents::Entries(entries)) => assert_eq!(entries, std::slice::from_ref(expected)),
            other => panic!("{other:?}"),
        }
    }
}
