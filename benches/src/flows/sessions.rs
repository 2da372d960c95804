//! Sessions of the flow `ledger` over a pipe, answered as fast as they ask.

use std::{
    fmt::Write as _,
    io::Write as _,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::json;

use super::Bench;
use crate::{
    cluster::store_key,
    peer::{Peer, Pipes},
    placement::Placement,
    reply::excerpt,
};

/// A server and its sessions, with at most one request in flight for each.
pub(crate) struct Sessions {
    pub(super) peer: Peer,
    pipes: Pipes,
    sessions: Vec<Session>,
    /// Number of entries each session asks for.
    entries: u32,
    requests: String,
    longest_wait: Duration,
}

/// A slot for a session: when one ends, the next begins in it.
#[derive(Default)]
struct Session {
    id: Option<String>,
}

impl Sessions {
    /// Starts a server with a store, and a number of slots.
    pub(crate) fn start(
        bench: Bench<'_>,
        store: &str,
        (count, entries): (usize, u32),
        placement: Placement,
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(bench.mcp_flow);
        command.args(["stdio", "--diagnostics", "--ledger", "--store", store]);
        command.current_dir(bench.folder).env("MCP_FLOW_STORE_KEY", store_key());
        // The next question comes in the reply, so that a turn is one request and one reply.
        let inline = json!({"experimental": {"interaction": {"delivery": "inline"}}});
        let (peer, pipes) = Peer::start_as(&inline, command, placement)?;
        let sessions = (0..count).map(|_| Session::default()).collect();
        Ok(Self {
            peer,
            pipes,
            sessions,
            entries,
            requests: String::new(),
            longest_wait: Duration::ZERO,
        })
    }

    /// Returns the longest time without a reply while requests were in flight.
    pub(crate) fn longest_wait(&self) -> Duration {
        self.longest_wait
    }

    /// Starts a session in every slot.
    pub(crate) fn begin(&mut self) -> anyhow::Result<()> {
        for slot in 0..self.sessions.len() {
            self.sessions[slot].id = None;
            self.write(slot)?;
        }
        self.exchange(self.sessions.len(), |_| false).map(drop)
    }

    /// Answers in all slots concurrently for a period. Returns the answers per second.
    pub(crate) fn answer_for(&mut self, time: Duration) -> anyhow::Result<f64> {
        self.longest_wait = Duration::ZERO;
        let start = Instant::now();
        let answers = self.answer_while(|_| start.elapsed() < time)?;
        Ok(answers as f64 / start.elapsed().as_secs_f64())
    }

    /// Makes a number of turns in all slots concurrently.
    pub(super) fn answer_times(&mut self, turns: usize) -> anyhow::Result<()> {
        // The first request of each slot is sent in any case.
        let more = turns.saturating_sub(self.sessions.len());
        self.answer_while(|sent| sent < more).map(drop)
    }

    /// Answers once in every slot, one after the other. Returns the latency of each.
    pub(super) fn answer_in_turn(&mut self) -> anyhow::Result<Vec<Duration>> {
        let mut times = Vec::with_capacity(self.sessions.len());
        for slot in 0..self.sessions.len() {
            let start = Instant::now();
            self.write(slot)?;
            self.exchange(1, |_| false)?;
            times.push(start.elapsed());
        }
        Ok(times)
    }

    fn answer_while(&mut self, more: impl FnMut(usize) -> bool) -> anyhow::Result<usize> {
        for slot in 0..self.sessions.len() {
            self.write(slot)?;
        }
        self.exchange(self.sessions.len(), more)
    }

    /// Queues the next request of a slot.
    fn write(&mut self, slot: usize) -> anyhow::Result<()> {
        let (method, params) = match &self.sessions[slot].id {
            Some(id) => (
                "interaction.respond",
                format!(
                    r#""sessionId":"{id}","response":{{"value":"an entry of the usual length"}}"#
                ),
            ),
            None => (
                "interaction.start",
                format!(r#""toolName":"ledger","initialParams":{{"entries":{}}}"#, self.entries),
            ),
        };
        writeln!(
            self.requests,
            r#"{{"jsonrpc":"2.0","id":{slot},"method":"{method}","params":{{{params}}}}}"#
        )?;
        Ok(())
    }

    /// Sends the queued requests and reads replies until none is in flight. Each reply leads to the
    /// next request while more are wanted. Returns the number of answers.
    fn exchange(
        &mut self,
        mut open: usize,
        mut more: impl FnMut(usize) -> bool,
    ) -> anyhow::Result<usize> {
        let (mut answers, mut sent) = (0, 0);
        let mut ready = Vec::new();
        while open > 0 {
            self.pipes.requests.write_all(self.requests.as_bytes())?;
            self.requests.clear();
            let sessions = &mut self.sessions;
            let waiting = Instant::now();
            let went_on = self.pipes.replies.read_batch(|line| {
                let (slot, was_answer) = take(line, sessions)?;
                answers += usize::from(was_answer);
                ready.push(slot);
                anyhow::Ok(())
            })?;
            self.longest_wait = self.longest_wait.max(waiting.elapsed());
            ensure!(went_on, "the server closed its output with {open} turns open");
            for slot in ready.drain(..) {
                // A finished session is followed by another, whose start is not a turn.
                if self.sessions[slot].id.is_none() {
                    self.write(slot)?;
                } else if more(sent) {
                    sent += 1;
                    self.write(slot)?;
                } else {
                    open -= 1;
                }
            }
        }
        Ok(answers)
    }
}

/// Reads a reply. Returns its slot, and whether it was to an answer.
fn take(line: &[u8], sessions: &mut [Session]) -> anyhow::Result<(usize, bool)> {
    let reply: Reply<'_> = serde_json::from_slice(line)
        .with_context(|| format!("not the reply of a turn: {}", excerpt(line)))?;
    let session = sessions.get_mut(reply.id).context("a reply to nothing")?;
    match (reply.result.session_id, reply.result.next) {
        (Some(id), Next { prompt: Some(_), .. }) => {
            session.id = Some(id.to_owned());
            Ok((reply.id, false))
        }
        (None, Next { prompt: Some(_), .. }) => Ok((reply.id, true)),
        (None, Next { complete: Some(_), .. }) => {
            session.id = None;
            Ok((reply.id, true))
        }
        _ => bail!("a turn led to {}", excerpt(line)),
    }
}

#[derive(Deserialize)]
struct Reply<'a> {
    id: usize,
    #[serde(borrow)]
    result: Turn<'a>,
}

#[derive(Deserialize)]
struct Turn<'a> {
    #[serde(borrow, rename = "sessionId")]
    session_id: Option<&'a str>,
    next: Next,
}

#[derive(Deserialize)]
struct Next {
    prompt: Option<IgnoredAny>,
    complete: Option<IgnoredAny>,
}
