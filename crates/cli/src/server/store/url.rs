//! URLs of session stores.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use mcp_flow::store_postgres::PostgresUrl;
use serde::{Deserialize, Serialize};

use super::DEFAULT;

/// URL of a session store.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum StoreUrl {
    /// `memory:`
    Memory,
    /// `redb:PATH`
    Redb(PathBuf),
    /// `sqlite:PATH`
    Sqlite(PathBuf),
    /// `postgres://USER@HOST/DB`
    Postgres(Box<PostgresUrl>),
}

impl StoreUrl {
    /// Returns the file of the store, if it is one.
    pub(crate) fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::Redb(path) | Self::Sqlite(path) => Some(path),
            Self::Memory | Self::Postgres(_) => None,
        }
    }

    /// Returns the file of the store, if it is one, to change it.
    pub(crate) fn path_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Self::Redb(path) | Self::Sqlite(path) => Some(path),
            Self::Memory | Self::Postgres(_) => None,
        }
    }
}

impl Default for StoreUrl {
    fn default() -> Self {
        Self::Sqlite(DEFAULT.into())
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => formatter.write_str("memory:"),
            Self::Redb(path) => write!(formatter, "redb:{}", path.display()),
            Self::Sqlite(path) => write!(formatter, "sqlite:{}", path.display()),
            Self::Postgres(url) => url.fmt(formatter),
        }
    }
}

impl TryFrom<String> for StoreUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<StoreUrl> for String {
    fn from(url: StoreUrl) -> Self {
        url.to_string()
    }
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("memory", "")) => Ok(Self::Memory),
            Some(("redb", path)) if !path.is_empty() => Ok(Self::Redb(path.into())),
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::Sqlite(path.into())),
            Some(("postgres" | "postgresql", _)) => match text.parse::<PostgresUrl>() {
                Ok(url) => Ok(Self::Postgres(Box::new(url))),
                Err(error) => Err(error.to_string()),
            },
            _ => Err("use sqlite:PATH, postgres://USER@HOST/DB, redb:PATH or memory:".to_owned()),
        }
    }
}
