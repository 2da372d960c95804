//! The official Rust SDK.

use std::io::Write;
use std::sync::{Arc, Mutex};

use interop::{ARGUMENTS, LIMIT, Served, program, rises};
use rmcp::model::{
    CallToolRequestParams, CancelledNotificationParam, ClientCapabilities, ClientConfig,
    ClientRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    ErrorData, Implementation, ProgressNotificationParam, ProtocolVersion, Request,
};
use rmcp::service::{
    NotificationContext, PeerRequestOptions, RequestContext, RequestHandle, RunningService,
};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient, ServiceError};
use serde_json::json;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// MCP-006, MCP-016, MCP-017: with the handshake, without it, and with `server/discover`.
#[tokio::test]
async fn the_rust_sdk_lists_and_calls() {
    for (lifecycle, revision) in lifecycles() {
        within_limit(async |carrier| {
            let (client, _) = connect(carrier, lifecycle.clone()).await;
            let server = client.peer_info().expect("the server introduces itself");
            assert_eq!(server.protocol_version, revision);
            assert_eq!(server.server_info.as_ref().expect("it has a name").name, "mcp-flow");
            let tools = client.list_all_tools().await.unwrap();
            let add = tools.iter().find(|tool| tool.name == "calculator.add").unwrap();
            assert_eq!(add.input_schema["required"], json!(["a", "b"]));
            assert_eq!(sum(&client).await, "5");
            let failure = client.call_tool(CallToolRequestParams::new("fail")).await.unwrap();
            assert_eq!(failure.is_error, Some(true));
            client.cancel().await.unwrap();
        })
        .await;
    }
}

/// MCP-085, C-45: progress rises, and arrives while the call runs.
#[tokio::test]
async fn the_rust_sdk_receives_progress() {
    for (lifecycle, _) in lifecycles() {
        within_limit(async |carrier| {
            let (client, mut progress) = connect(carrier, lifecycle.clone()).await;
            let call = sleep(&client, 300).await;
            let token = call.progress_token.clone();
            call.await_response().await.unwrap();
            let mut values = Vec::new();
            while let Ok(notification) = progress.try_recv() {
                assert_eq!(notification.progress_token, token);
                assert_eq!(notification.total, Some(300.0));
                values.push(notification.progress);
            }
            rises(&values);
            client.cancel().await.unwrap();
        })
        .await;
    }
}

/// MCP-086, C-12: a cancelled call ends at the client, and releases the only permit.
#[tokio::test]
async fn the_rust_sdk_cancels() {
    for (lifecycle, _) in lifecycles() {
        within_limit(async |carrier| {
            let (client, mut progress) = connect(carrier, lifecycle.clone()).await;
            let call = sleep(&client, 60_000).await;
            progress.recv().await.expect("the call is running");
            let cancel = CancelledNotificationParam::new(Some(call.id.clone()), None);
            client.notify_cancelled(cancel).await.unwrap();
            let outcome = call.await_response().await;
            assert!(matches!(outcome, Err(ServiceError::Cancelled { .. })), "{outcome:?}");
            assert_eq!(sum(&client).await, "5");
            client.cancel().await.unwrap();
        })
        .await;
    }
}

/// C-06, INT-100: a flow prompts the user of the SDK, by elicitation or in rounds, and its result
/// has the answers.
#[tokio::test]
async fn the_rust_sdk_answers_a_flow() {
    for (lifecycle, _) in lifecycles() {
        within_limit(async |carrier| {
            let (client, _) = connect(carrier, lifecycle.clone()).await;
            let result = client.call_tool(CallToolRequestParams::new("register")).await.unwrap();
            let said = json!({"name": "Ada Lovelace", "email": "ada@example.com"});
            assert_eq!(result.is_error, Some(false), "{result:?}");
            let structured = result.structured_content.expect("a flow's result is structured");
            for key in ["name", "email"] {
                assert_eq!(structured[key], said[key], "{structured}");
            }
            client.cancel().await.unwrap();
        })
        .await;
    }
}

type Client = RunningService<RoleClient, Listener>;

/// Forwards progress to the test, and fills in forms.
struct Listener(mpsc::UnboundedSender<ProgressNotificationParam>);

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        ClientConfig::new(capabilities, Implementation::new("interop", "1.0.0"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { requested_schema, .. } = request else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        let answers = json!({"name": "Ada Lovelace", "email": "ada@example.com"});
        let asked = requested_schema.properties.keys();
        let content: serde_json::Map<_, _> =
            asked.map(|key| (key.clone(), answers[key.as_str()].clone())).collect();
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content.into()))
    }

    async fn on_progress(
        &self,
        notification: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        // The test may have stopped listening.
        let _ = self.0.send(notification);
    }
}

async fn connect(
    carrier: &Carrier,
    lifecycle: ClientLifecycleMode,
) -> (Client, mpsc::UnboundedReceiver<ProgressNotificationParam>) {
    let (sender, progress) = mpsc::unbounded_channel();
    let listener = Listener(sender);
    let client = match carrier {
        Carrier::Stdio => {
            let mut command = Command::new(program());
            command.args(ARGUMENTS).kill_on_drop(true);
            let transport = TokioChildProcess::new(command).unwrap();
            listener.serve_with_lifecycle(transport, lifecycle).await
        }
        Carrier::Http(served) => {
            let transport = StreamableHttpClientTransport::from_uri(served.url("mcp"));
            listener.serve_with_lifecycle(transport, lifecycle).await
        }
    };
    (client.unwrap(), progress)
}

/// Transport of the messages.
enum Carrier {
    Stdio,
    Http(Box<Served>),
}

async fn sum(client: &Client) -> String {
    let arguments = json!({"a": 2, "b": 3}).as_object().cloned().unwrap_or_default();
    let call = CallToolRequestParams::new("calculator.add").with_arguments(arguments);
    let result = client.call_tool(call).await.unwrap();
    result.content[0].as_text().expect("sums are text").text.clone()
}

/// Starts a call that can be cancelled. The SDK gives every request a progress token.
async fn sleep(client: &Client, milliseconds: u64) -> RequestHandle<RoleClient> {
    let arguments = json!({"ms": milliseconds}).as_object().cloned().unwrap_or_default();
    let call = CallToolRequestParams::new("sleep").with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(Request::new(call));
    client.send_cancellable_request(request, PeerRequestOptions::no_options()).await.unwrap()
}

/// Runs one scenario over every transport of the SDK, and panics if it takes too long, if the SDK
/// warns about the server, or if a session is left over.
async fn within_limit(scenario: impl AsyncFn(&Carrier)) {
    for carrier in [Carrier::Stdio, Carrier::Http(Box::new(Served::start().await))] {
        without_complaints(Box::pin(scenario(&carrier))).await;
        if let Carrier::Http(served) = carrier {
            served.end().await;
        }
    }
}

async fn without_complaints(scenario: impl Future<Output = ()>) {
    let complaints = Complaints::default();
    let writer = complaints.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || writer.clone())
        .finish();
    let listening = tracing::subscriber::set_default(subscriber);
    timeout(LIMIT, scenario).await.expect("the scenario ends in time");
    drop(listening);
    let complaints = complaints.0.lock().unwrap();
    assert!(complaints.is_empty(), "{}", String::from_utf8_lossy(&complaints));
}

/// Log of the SDK.
#[derive(Clone, Default)]
struct Complaints(Arc<Mutex<Vec<u8>>>);

impl Write for Complaints {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Ways the SDK connects, and the revision each should negotiate.
fn lifecycles() -> [(ClientLifecycleMode, ProtocolVersion); 3] {
    let modern = ProtocolVersion::V_2026_07_28;
    let preferred_versions = vec![modern.clone()];
    [
        (ClientLifecycleMode::Initialize, ProtocolVersion::V_2025_11_25),
        (
            ClientLifecycleMode::Discover { preferred_versions: preferred_versions.clone() },
            modern.clone(),
        ),
        (ClientLifecycleMode::Auto { preferred_versions, legacy_version: None }, modern),
    ]
}
