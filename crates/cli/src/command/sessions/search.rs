//! Options that select sessions from a list.

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use serde_json::{Map, Value};

/// Sessions to list: those that fit every option.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Search {
    /// Only sessions of this flow
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,

    /// Only sessions in this state
    #[arg(long, value_name = "STATE", value_parser = STATES)]
    state: Option<String>,

    /// Only sessions of this owner: in a store, or as an admin
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,

    /// Only sessions started at this time or later: a date, or a time in RFC 3339
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<DateTime<Utc>>,

    /// Only sessions started before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    before: Option<DateTime<Utc>>,

    /// Only sessions whose flow has set this label; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    labels: Vec<(String, String)>,
}

impl Search {
    /// Returns the params of `interaction.list` and `admin/sessions`.
    pub(super) fn params(&self) -> Map<String, Value> {
        let mut params = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            params.extend(value.map(|value| (name.to_owned(), value)));
        };
        put("flow", self.flow.clone().map(Value::from));
        put("state", self.state.clone().map(Value::from));
        put("owner", self.owner.clone().map(Value::from));
        put("from", self.since.map(|time| time.timestamp_millis().into()));
        put("to", self.before.map(|time| (time.timestamp_millis() - 1).into()));
        if !self.labels.is_empty() {
            let labels = self.labels.iter();
            let labels = labels.map(|(key, value)| (key.clone(), Value::from(value.as_str())));
            put("labels", Some(Value::Object(labels.collect())));
        }
        params
    }

    /// Returns whether only admins can list these sessions of a server.
    pub(super) fn needs_admin(&self) -> bool {
        self.owner.is_some()
    }
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn parse_time(text: &str) -> Result<DateTime<Utc>, String> {
    let time = match text.parse::<NaiveDate>() {
        Ok(day) => Ok(day.and_time(NaiveTime::MIN).and_utc()),
        Err(_) => DateTime::parse_from_rfc3339(text).map(|time| time.to_utc()),
    };
    let time = time.map_err(|_| "write a date such as 2026-01-31, or 2026-01-31T12:00:00Z")?;
    if time.timestamp_millis() < 0 { Err("must be after 1970".to_owned()) } else { Ok(time) }
}

/// States of a session, and `stuck` for one that is set aside.
const STATES: [&str; 8] =
    ["idle", "active", "waiting_user", "processing", "completed", "cancelled", "error", "stuck"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Search, parse_label, parse_time};

    #[test]
    fn searches_become_params() {
        let search = Search {
            state: Some("stuck".to_owned()),
            since: Some(parse_time("2024-01-01").unwrap()),
            before: Some(parse_time("2024-01-02T00:00:00+01:00").unwrap()),
            labels: vec![parse_label("customer=a=b").unwrap()],
            ..Search::default()
        };
        let expected = json!({"state": "stuck", "from": 1_704_067_200_000_u64,
            "to": 1_704_149_999_999_u64, "labels": {"customer": "a=b"}});
        assert_eq!(json!(search.params()), expected);
        for bad in ["", "yesterday", "1969-12-31", "2024-13-01"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
        assert!(parse_label("customer").is_err());
    }
}
