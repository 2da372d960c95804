//! Sending HTTP requests: address policy, retries, redirects, responses.

mod credentials;
mod filling;
mod request;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use hyper::header::{CONTENT_TYPE, HeaderMap, LOCATION, RETRY_AFTER};
use hyper::{Method, StatusCode};
use mcp_flow_http_client::{
    AddressZone, AllowedAddresses, Fetch, HttpOptions, StreamedResponse, Trust,
};
use mcp_flow_server::tool::Failure;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout_at};
use tokio_util::io::StreamReader;
use url::Url;

use crate::model::{DeclaredTool, HttpAction, OutputForm};
use crate::output::{self, Produced, Progress};
use crate::secret::{MaskedReader, Masker, Secret};
use crate::template::Variables;
use credentials::TokenCache;
use request::{PreparedRequest, prepare};

/// HTTP clients of all tools, and the tokens they were granted.
#[derive(Debug, Default)]
pub(crate) struct HttpClients {
    trust: Trust,
    /// By the hosts that may have private addresses.
    clients: Mutex<BTreeMap<Vec<Box<str>>, Arc<Fetch>>>,
    tokens: TokenCache,
}

impl HttpClients {
    pub(crate) fn new(trust: Trust) -> Self {
        Self { trust, ..Self::default() }
    }

    /// Sends the request of a tool and reads the response.
    pub(crate) async fn call(
        &self,
        tool: &DeclaredTool,
        http: &HttpAction,
        variables: &Variables,
        progress: Progress<'_>,
    ) -> Result<Produced, Failure> {
        let deadline = Instant::now() + http.timeout;
        let fetch = self.client(http)?;
        let mut prepared = prepare(http, variables)?;
        let call = Call { http, fetch: &fetch, deadline };
        let authorization = call.authorize(&self.tokens, false).await?;
        prepared.secrets.extend(authorization.as_ref().map(Secret::without_scheme));
        prepared.secrets.extend(tool.secrets().into_iter().filter_map(|source| source.read().ok()));
        let mut response = call.send(&prepared, authorization.as_ref()).await?;
        if response.status() == StatusCode::UNAUTHORIZED && TokenCache::is_renewable(http) {
            let renewed = call.authorize(&self.tokens, true).await?;
            prepared.secrets.extend(renewed.as_ref().map(Secret::without_scheme));
            response = call.send(&prepared, renewed.as_ref()).await?;
        }
        let masker = Masker::new(&prepared.secrets);
        call.read(tool, response, &prepared, masker, progress).await
    }

    /// Returns the client that may connect to the same addresses.
    fn client(&self, http: &HttpAction) -> Result<Arc<Fetch>, Failure> {
        let mut allowed = http.allow_private.clone();
        allowed.sort();
        let mut clients = self.clients.lock();
        if let Some(client) = clients.get(&allowed) {
            return Ok(client.clone());
        }
        let listed = allowed.clone();
        let addresses =
            AllowedAddresses::only(move |host, address| match AddressZone::of(address) {
                AddressZone::Public => true,
                AddressZone::Private | AddressZone::Loopback => {
                    is_listed(&listed, host) || is_listed(&listed, &address.to_string())
                }
                // Never by a name, which anybody could let resolve to it.
                AddressZone::Reserved => host == address.to_string() && is_listed(&listed, host),
            });
        let options = HttpOptions::new().trust(self.trust.clone()).addresses(addresses);
        let client = Fetch::new(&options, MAX_ERROR_BYTES, RESPONSE_HEAD_TIMEOUT)
            .map_err(|error| Failure::new("UNAVAILABLE", error.to_string()))?;
        let client = Arc::new(client);
        clients.insert(allowed, client.clone());
        Ok(client)
    }
}

/// Returns whether a host is listed, with or without a port.
pub(crate) fn is_listed(listed: &[Box<str>], host: &str) -> bool {
    listed.iter().any(|entry| {
        let bare = match entry.strip_prefix('[') {
            Some(address) => address.split(']').next().unwrap_or_default(),
            None if entry.matches(':').count() == 1 => entry.split(':').next().unwrap_or_default(),
            None => entry,
        };
        bare.eq_ignore_ascii_case(host)
    })
}

/// One call of a tool.
struct Call<'a> {
    http: &'a HttpAction,
    fetch: &'a Fetch,
    deadline: Instant,
}

impl Call<'_> {
    /// Returns the value of the `Authorization` header, for which a token may have to be granted.
    async fn authorize(&self, tokens: &TokenCache, renew: bool) -> Result<Option<Secret>, Failure> {
        let authorized = timeout_at(self.deadline, tokens.authorize(self.http, self.fetch, renew));
        authorized.await.map_err(|_| self.timed_out())?
    }

    /// Sends a request, again where that is safe, and follows redirects within the origin.
    async fn send(
        &self,
        prepared: &PreparedRequest,
        authorization: Option<&Secret>,
    ) -> Result<StreamedResponse, Failure> {
        let mut url = prepared.url.clone();
        let mut method = self.http.method.clone();
        let mut has_body = true;
        for _ in 0..=MAX_REDIRECTS {
            let attempt = Attempt { url: &url, method: &method, has_body, authorization };
            let response = self.send_repeatedly(prepared, &attempt).await?;
            let status = response.status();
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let Some(location) = location.filter(|_| is_redirect(status)) else {
                return Ok(response);
            };
            let next = Url::parse(&url).ok().and_then(|base| base.join(location).ok());
            let next = next.filter(|next| next.origin() == self.http.origin.origin());
            let Some(next) = next else {
                let message = format!(
                    "{} answered {status} with a redirect to another origin, which is not followed",
                    self.name()
                );
                return Err(Failure::new("REDIRECTED", message));
            };
            let is_repeated = matches!(status.as_u16(), 307 | 308);
            if !is_repeated && method != Method::HEAD {
                // Anything but GET would be changed to GET silently.
                if status != StatusCode::SEE_OTHER && method != Method::GET {
                    return Ok(response);
                }
                (method, has_body) = (Method::GET, false);
            }
            url = String::from(next.clone());
            if let Some(fragment) = next.fragment() {
                url.truncate(url.len() - fragment.len() - 1);
            }
        }
        let message = format!("{} redirects more than {MAX_REDIRECTS} times", self.name());
        Err(Failure::new("REDIRECTED", message))
    }

    async fn send_repeatedly(
        &self,
        prepared: &PreparedRequest,
        attempt: &Attempt<'_>,
    ) -> Result<StreamedResponse, Failure> {
        let masker = Masker::new(&prepared.secrets);
        let is_idempotent = matches!(
            *attempt.method,
            Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE
        );
        let mut left = self.http.retries;
        let mut pause = FIRST_PAUSE;
        loop {
            let request = prepared.request(attempt).map_err(|message| self.failed(&message))?;
            let sent = timeout_at(self.deadline, self.fetch.open(request)).await;
            let sent = sent.map_err(|_| self.timed_out())?;
            let (wait, is_safe) = match &sent {
                Ok(response) => match response.status().as_u16() {
                    429 | 502 | 503 | 504 => (retry_after(response.headers()), is_idempotent),
                    _ => (None, false),
                },
                // It would be refused again.
                Err(error) if error.is_refused_address() => {
                    let message = format!(
                        "{error}; the author of the tool can list it under `allow_private`"
                    );
                    return Err(self.failed(&message));
                }
                // It was never sent.
                Err(error) if error.is_unsent() => (None, true),
                Err(_) => (None, is_idempotent),
            };
            let wait = wait.unwrap_or(pause);
            // The server may ask for any time.
            let again = Instant::now().checked_add(wait).filter(|again| *again < self.deadline);
            if !is_safe || left == 0 || again.is_none() {
                return sent.map_err(|error| self.failed(&masker.text(&error.to_string())));
            }
            drop(sent);
            left -= 1;
            tokio::time::sleep(wait).await;
            pause *= 2;
        }
    }

    async fn read(
        &self,
        tool: &DeclaredTool,
        response: StreamedResponse,
        prepared: &PreparedRequest,
        masker: Masker,
        progress: Progress<'_>,
    ) -> Result<Produced, Failure> {
        let (head, body) = response.into_parts();
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.map(str::to_owned);
        let body = body.map(|piece| piece.map_err(|error| io::Error::other(error.to_string())));
        let is_file = tool.output.form == Some(OutputForm::File) && head.status.is_success();
        // A file may take long, as long as it goes on.
        let (deadline, idle) = (self.deadline, self.http.timeout);
        let body = body.boxed();
        let limited = futures_util::stream::try_unfold(body, move |mut body| async move {
            let until = if is_file { Instant::now() + idle } else { deadline };
            match timeout_at(until, body.try_next()).await {
                Ok(piece) => Ok(piece?.map(|piece| (piece, body))),
                Err(_) => Err(io::Error::other("the response was not complete in time")),
            }
        });
        let mut reader = MaskedReader::new(StreamReader::new(Box::pin(limited)), masker);
        if !head.status.is_success() {
            return Err(self.refused(head.status, &mut reader, prepared).await);
        }
        let is_json = content_type.as_deref().is_some_and(is_json);
        let form = tool.output.form.unwrap_or(match is_json {
            true => OutputForm::Json,
            false => OutputForm::Text,
        });
        let is_empty = head.status == StatusCode::NO_CONTENT || self.http.method == Method::HEAD;
        let form = if is_empty && form == OutputForm::Json { OutputForm::Text } else { form };
        output::read(reader, tool, form, content_type.as_deref(), progress).await
    }

    /// Describes a response that is no success.
    async fn refused(
        &self,
        status: StatusCode,
        body: &mut (impl AsyncRead + Unpin),
        prepared: &PreparedRequest,
    ) -> Failure {
        let mut bytes = Vec::new();
        let _ = body.take(MAX_ERROR_BYTES as u64).read_to_end(&mut bytes).await;
        let text = String::from_utf8_lossy(&bytes);
        let text = mcp_flow_proto::text::truncate(text.trim(), SHOWN).into_owned();
        // Queries hold keys, and whole texts of people.
        let url = prepared.url.split('?').next().unwrap_or_default();
        let what = format!("{} {url} answered {status}", self.http.method);
        let message = if text.is_empty() { what } else { format!("{what}: {text}") };
        Failure::new(format!("HTTP_{}", status.as_u16()), message).with("status", status.as_u16())
    }

    fn failed(&self, message: &str) -> Failure {
        Failure::new("UNREACHABLE", format!("{} failed: {message}", self.name()))
    }

    fn timed_out(&self) -> Failure {
        let message = format!("{} did not answer within {:?}", self.name(), self.http.timeout);
        Failure::new("TIMED_OUT", message)
    }

    fn name(&self) -> String {
        let host = self.http.origin.host_str().unwrap_or_default();
        format!("the request to {host}")
    }
}

/// One attempt at a request.
struct Attempt<'a> {
    url: &'a str,
    method: &'a Method,
    has_body: bool,
    authorization: Option<&'a Secret>,
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json") || essence.ends_with("+json")
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

const MAX_REDIRECTS: usize = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Bytes that are read of a response that is no success.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// Characters of it that are shown.
const SHOWN: usize = 4 * 1024;

/// Limit on the time to the head of a response; tools have their own.
const RESPONSE_HEAD_TIMEOUT: Duration = Duration::from_secs(60 * 60);
