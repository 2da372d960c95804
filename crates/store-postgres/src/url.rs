//! URLs of stores.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use mcp_flow_tls::Trust;
use tokio_postgres::Config;

/// URL of a PostgreSQL database: `postgres://USER@HOST/DB`, with the parameters of libpq, such as
/// `?host=/socket/dir` or `?sslmode=require`. `sslrootcert=FILE` names the certificates to trust
/// instead of those of the system. Displayed without its password.
#[derive(Clone)]
pub struct PostgresUrl {
    pub(crate) config: Config,
    pub(crate) trust: Trust,
    text: String,
}

/// Reason a URL cannot be used.
#[derive(Debug)]
pub struct BadPostgresUrl(String);

impl fmt::Display for BadPostgresUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for BadPostgresUrl {}

impl FromStr for PostgresUrl {
    type Err = BadPostgresUrl;

    fn from_str(text: &str) -> Result<Self, BadPostgresUrl> {
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        let mut trust = Trust::System;
        let mut kept = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("sslrootcert", path)) => trust = Trust::File(PathBuf::from(path)),
                // With TLS the certificate is always verified, its name included.
                Some(("sslmode", "verify-ca" | "verify-full")) => kept.push("sslmode=require"),
                _ => kept.push(part),
            }
        }
        let query = kept.join("&");
        let joined = if query.is_empty() { base.to_owned() } else { format!("{base}?{query}") };
        let config: Config = joined.parse().map_err(|error: tokio_postgres::Error| {
            let cause = std::error::Error::source(&error)
                .map_or(String::new(), |cause| format!(": {cause}"));
            BadPostgresUrl(format!("{error}{cause}; use postgres://USER@HOST/DB"))
        })?;
        if config.get_dbname().is_none() {
            let problem = "name the database: postgres://USER@HOST/DB".to_owned();
            return Err(BadPostgresUrl(problem));
        }
        Ok(Self { config, trust, text: without_password(text) })
    }
}

/// Removes the password from a URL.
fn without_password(text: &str) -> String {
    let query = |text: &str| match text.split_once('?') {
        Some((base, query)) => {
            let kept: Vec<_> =
                query.split('&').filter(|part| !part.starts_with("password=")).collect();
            if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) }
        }
        None => text.to_owned(),
    };
    let text = query(text);
    let Some((scheme, rest)) = text.split_once("://") else { return text };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{host}{}", &rest[end..])
        }
        None => text,
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl PartialEq for PostgresUrl {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config && self.text == other.text
    }
}

impl Eq for PostgresUrl {}

#[cfg(test)]
mod tests {
    use super::PostgresUrl;

    #[test]
    fn passwords_are_not_displayed() {
        for (url, shown) in [
            ("postgres://ada@db/flows", "postgres://ada@db/flows"),
            ("postgres://ada:secret@db:5433/flows", "postgres://ada@db:5433/flows"),
            ("postgres://ada:a@b@db/flows", "postgres://ada@db/flows"),
            ("postgres:///flows?host=/run/x&password=secret", "postgres:///flows?host=/run/x"),
            ("postgresql://ada@/flows?host=/tmp", "postgresql://ada@/flows?host=/tmp"),
        ] {
            let url: PostgresUrl = url.parse().unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), shown);
        }
        for mode in ["verify-ca", "verify-full"] {
            let url: PostgresUrl =
                format!("postgres://ada@db/flows?sslmode={mode}").parse().unwrap();
            assert_eq!(url.config.get_ssl_mode(), tokio_postgres::config::SslMode::Require);
        }
        for bad in ["postgres://ada@db", "postgres://db/x?colour=red", "postgres://db:port/x"] {
            assert!(bad.parse::<PostgresUrl>().is_err(), "{bad}");
        }
    }
}
