//! `mcp-flow tail`: follows the calls of a running server.

use std::process::ExitCode;

use futures_util::StreamExt as _;
use mcp_flow::client::host::DenyAll;
use mcp_flow::client::{Client, ClientEvent};
use mcp_flow_cassette::{Masker, MessageMasker};
use serde_json::{Value, json};

use crate::client::connect::ConnectOptions;
use crate::client::error::explain;
use crate::exit::{Exit, Failure};
use crate::terminal::output::{self, Format, columns, sanitize};

/// Follow the calls of a running server, one line each
///
/// Needs admin access: on a local address everyone has it while authentication is disabled. Secrets are
/// masked.
#[derive(Debug, clap::Args)]
#[command(override_usage = "mcp-flow tail [OPTIONS] TARGET")]
pub(crate) struct Tail {
    /// Server: an address, or a name in the configuration
    #[arg(value_name = "TARGET")]
    target: Vec<String>,

    /// Show only methods that match, with * for any text; may be repeated
    #[arg(long = "method", value_name = "PATTERN", help_heading = "Filters")]
    methods: Vec<String>,

    /// Show only calls of tools, prompts and resources that match, with * for any text; may be repeated
    #[arg(long = "name", value_name = "PATTERN", help_heading = "Filters")]
    names: Vec<String>,

    /// Show only calls of this principal; may be repeated
    #[arg(long = "principal", value_name = "NAME", help_heading = "Filters")]
    principals: Vec<String>,

    /// Show only calls over this transport, such as http or stdio; may be repeated
    #[arg(long = "transport", value_name = "NAME", help_heading = "Filters")]
    transports: Vec<String>,

    /// Show only calls that failed
    #[arg(long, help_heading = "Filters")]
    errors: bool,

    /// Show only calls that took at least this long, in milliseconds
    #[arg(long, value_name = "MILLISECONDS", help_heading = "Filters")]
    slower_than: Option<f64>,

    /// Show only calls whose params or result contain this text
    #[arg(long, value_name = "TEXT", help_heading = "Filters")]
    contains: Option<String>,

    /// Begin with the calls that the server has recorded already
    #[arg(long)]
    history: bool,

    /// Exit after this number of calls
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Mask the values of members with this name, besides passwords, tokens, keys and the like; may be
    /// repeated
    #[arg(long = "mask", value_name = "NAME")]
    masked: Vec<String>,

    #[command(flatten)]
    connect: ConnectOptions,
}

impl Tail {
    pub(crate) fn run(mut self) -> anyhow::Result<ExitCode> {
        // Notifications need a lasting connection.
        self.connect.prefer_handshake();
        let (target, rest) = self.connect.find_target(&self.target)?;
        super::reject_extra_arguments(rest)?;
        self.connect.with_client(&target, DenyAll, async |client| {
            self.follow(client).await?;
            Ok(ExitCode::SUCCESS)
        })
    }

    async fn follow(&self, client: &Client) -> anyhow::Result<()> {
        let mut masker = MessageMasker::new(Masker::new(&self.masked));
        let mut left = self.count;
        // Before the watch begins, so that nothing it sends is missed.
        let mut events = client.events();
        let begun = watch(client, self.history).await?;
        if self.show_all(&begun["exchanges"], &mut masker, &mut left)? {
            return Ok(());
        }
        while let Some(event) = events.next().await {
            match event {
                ClientEvent::Other { method, params } if method == TRAFFIC => {
                    if let Some(skipped) = params["skipped"].as_u64().filter(|count| *count > 0) {
                        eprintln!("mcp-flow: {skipped} calls were left out");
                    }
                    if self.show_all(&params["exchanges"], &mut masker, &mut left)? {
                        return Ok(());
                    }
                }
                // A watch ends with its connection.
                ClientEvent::Connected { again: true, .. } => {
                    eprintln!("mcp-flow: connected again; calls in between are not shown");
                    watch(client, false).await?;
                }
                _ => {}
            }
        }
        anyhow::bail!("the server ended the connection")
    }

    /// Shows those that pass the filters. Returns whether there were enough.
    fn show_all(
        &self,
        exchanges: &Value,
        masker: &mut MessageMasker,
        left: &mut Option<u64>,
    ) -> anyhow::Result<bool> {
        for exchange in exchanges.as_array().into_iter().flatten() {
            let mut shown = exchange.clone();
            // Those that are not shown ask the questions of others.
            masker.mask_exchange(&mut shown);
            if !self.is_wanted(exchange) {
                continue;
            }
            match self.connect.format {
                Format::Json => output::print_json(&shown)?,
                format => output::print(&sanitize(&line(&shown, format)))?,
            }
            if let Some(left) = left {
                *left -= 1;
                if *left == 0 {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn is_wanted(&self, exchange: &Value) -> bool {
        let text = |name: &str| exchange[name].as_str().unwrap_or_default();
        let is_one = |wanted: &[String], value: &str| {
            wanted.is_empty() || wanted.iter().any(|one| matches(one, value))
        };
        let contains = |wanted: &String| {
            ["params", "result"].iter().any(|member| text(member).contains(wanted.as_str()))
                || exchange["error"].to_string().contains(wanted.as_str())
        };
        is_one(&self.methods, text("method"))
            && is_one(&self.names, &name_of(exchange).unwrap_or_default())
            && is_one(&self.principals, text("principal"))
            && is_one(&self.transports, text("transport"))
            && (!self.errors || is_failure(exchange))
            && self.slower_than.is_none_or(|least| exchange["time"].as_f64() >= Some(least))
            && self.contains.as_ref().is_none_or(contains)
    }
}

async fn watch(client: &Client, history: bool) -> anyhow::Result<Value> {
    let params = json!({"topics": ["traffic"], "history": history});
    match client.request("admin/watch", params).await {
        Ok(begun) => Ok(begun),
        Err(error) if error.server().is_some_and(|error| error.code == -32601) => {
            let message = "the server has no admin extension; `mcp-flow serve` has it";
            Err(Failure::new(Exit::Protocol, message).into())
        }
        Err(error) => Err(explain(error)),
    }
}

/// Compares a text with a pattern in which * stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(start) else { return false };
    let mut parts = rest.split('*').collect::<Vec<_>>();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match left.find(part) {
            Some(found) => left = &left[found + part.len()..],
            None => return false,
        }
    }
    left.ends_with(end)
}

fn is_failure(exchange: &Value) -> bool {
    exchange["failed"] == true || !exchange["error"].is_null()
}

/// Name of the tool, prompt, resource or session that a call is for.
fn name_of(exchange: &Value) -> Option<String> {
    let params = exchange["params"].as_str()?;
    let read: Option<Value> = serde_json::from_str(params).ok();
    let members = ["name", "uri", "toolName", "sessionId"];
    match read {
        Some(read) => members.iter().find_map(|name| read[*name].as_str().map(str::to_owned)),
        // Long params are cut off; the name is at their beginning.
        None => members.iter().find_map(|name| {
            let (_, rest) = params.split_once(&format!("\"{name}\":\""))?;
            rest.split('"').next().map(str::to_owned)
        }),
    }
}

/// One line for people: time, transport, principal, method, name, outcome, duration, params and result.
fn line(exchange: &Value, format: Format) -> String {
    let text = |name: &str| exchange[name].as_str().unwrap_or_default();
    let error = &exchange["error"];
    let outcome = match (error.is_null(), exchange["failed"] == true) {
        (false, _) => {
            let name = error["data"]["name"].as_str().map(str::to_owned);
            name.unwrap_or_else(|| error["code"].to_string())
        }
        (true, true) => "failed".to_owned(),
        (true, false) => "ok".to_owned(),
    };
    let reply = match error.is_null() {
        true => text("result").to_owned(),
        false => error["message"].as_str().unwrap_or_default().to_owned(),
    };
    let milliseconds = exchange["time"].as_f64().unwrap_or_default();
    let name = name_of(exchange).unwrap_or_default();
    let at = time_of_day(exchange["at"].as_u64().unwrap_or_default());
    let params = &without_meta(text("params"));
    if format == Format::Plain {
        let fields = [
            at.as_str(),
            text("transport"),
            text("principal"),
            text("method"),
            &name,
            &outcome,
            &format!("{milliseconds:.3}"),
            params,
            &reply,
        ];
        return fields.map(|field| field.replace(['\t', '\n'], " ")).join("\t");
    }
    let space = if name.is_empty() { "" } else { " " };
    let mut line = format!(
        "{at}  {}  {}  {}{space}{name}  {outcome}  {milliseconds:.1} ms",
        text("transport"),
        text("principal"),
        text("method"),
    );
    for part in [params, &reply] {
        line.push_str("  ");
        line.extend(part.chars().map(|one| if one == '\n' { ' ' } else { one }).take(MAX_PART));
    }
    // A line that wraps is hard to read.
    match columns() {
        Some(columns) => line.chars().take(columns.into()).collect(),
        None => line,
    }
}

/// The params without `_meta`, which is the same in most requests.
fn without_meta(params: &str) -> String {
    let read = serde_json::from_str::<Value>(params);
    let Ok(Value::Object(mut members)) = read else { return params.to_owned() };
    members.retain(|name, _| name != "_meta");
    Value::Object(members).to_string()
}

/// Time of day in UTC.
fn time_of_day(millis: u64) -> String {
    let seconds = millis / 1000;
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{:03}", seconds % 60, millis % 1000)
}

const TRAFFIC: &str = "notifications/admin/traffic";

/// Longest part of params and result on a line, in characters.
const MAX_PART: usize = 500;

#[cfg(test)]
mod tests {
    use super::{line, matches, name_of};
    use crate::terminal::output::Format;
    use mcp_flow_cassette::{Masker, MessageMasker};
    use serde_json::json;

    #[test]
    fn patterns_match_any_text_at_a_star() {
        for (pattern, text, expected) in [
            ("tools/call", "tools/call", true),
            ("tools/call", "tools/list", false),
            ("tools/*", "tools/list", true),
            ("*", "", true),
            ("*.add", "calculator.add", true),
            ("c*l*r.*", "calculator.add", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn lines_have_no_secrets() {
        let exchange = json!({
            "at": 45_296_789, "transport": "http", "principal": "ada", "method": "tools/call",
            "params": "{\"name\":\"login\",\"arguments\":{\"password\":\"hunter2\",\"note\":\"{\\\"apiKey\\\":\\\"hunter2\\\"}\"}}",
            "result": "{\"content\":[{\"text\":\"https://ada:hunter2@example.com\"}],\"cut off", "time": 1.25,
        });
        let mut shown = exchange.clone();
        MessageMasker::new(Masker::new(&[])).mask_exchange(&mut shown);
        for format in [Format::Table, Format::Plain] {
            let line = line(&shown, format);
            assert!(!line.contains("hunter2") && line.contains("login"), "{line}");
            assert!(line.starts_with("12:34:56.789"), "{line}");
        }
        let cut = json!({"params": "{\"name\":\"long\",\"arguments\":{\"text\":\"aaaa"});
        assert_eq!(name_of(&cut).as_deref(), Some("long"));
    }
}
