//! The names of methods and notifications, each written once.

/// Opens a connection under a handshake revision.
pub const INITIALIZE: &str = "initialize";
/// Asks whether the peer is alive.
pub const PING: &str = "ping";
/// Asks what the server is and speaks, under a stateless revision.
pub const SERVER_DISCOVER: &str = "server/discover";
/// Lists tools.
pub const TOOLS_LIST: &str = "tools/list";
/// Calls a tool.
pub const TOOLS_CALL: &str = "tools/call";
/// Lists resources.
pub const RESOURCES_LIST: &str = "resources/list";
/// Lists templates of resources.
pub const RESOURCES_TEMPLATES_LIST: &str = "resources/templates/list";
/// Reads a resource.
pub const RESOURCES_READ: &str = "resources/read";
/// Asks to be told when a resource changes, under a handshake revision.
pub const RESOURCES_SUBSCRIBE: &str = "resources/subscribe";
/// Asks not to be told any more.
pub const RESOURCES_UNSUBSCRIBE: &str = "resources/unsubscribe";
/// Lists prompts.
pub const PROMPTS_LIST: &str = "prompts/list";
/// Gets a prompt, filled in.
pub const PROMPTS_GET: &str = "prompts/get";
/// Asks what an argument could go on to be.
pub const COMPLETION_COMPLETE: &str = "completion/complete";
/// Sets the least severe level of log messages a connection wants.
pub const LOGGING_SET_LEVEL: &str = "logging/setLevel";
/// Asks to be told of changes, under a stateless revision.
pub const SUBSCRIPTIONS_LISTEN: &str = "subscriptions/listen";
/// Asks the client's model.
pub const SAMPLING_CREATE_MESSAGE: &str = "sampling/createMessage";
/// Asks the person behind the client.
pub const ELICITATION_CREATE: &str = "elicitation/create";
/// Asks the client for its roots.
pub const ROOTS_LIST: &str = "roots/list";
/// Asks to end the connection after everything before it is answered.
pub const SHUTDOWN: &str = "shutdown";

/// The client is ready for normal operation.
pub const INITIALIZED: &str = "notifications/initialized";
/// Stop a request and do not answer it.
pub const CANCELLED: &str = "notifications/cancelled";
/// Stop a request and answer it with an error.
pub const CANCEL: &str = "$/cancel";
/// End the connection after draining it.
pub const SHUTDOWN_NOTIFICATION: &str = "$/shutdown";
/// A stream has failed, on `/mcp-flow`.
pub const STREAM_ERROR: &str = "$/streamError";
/// What the sound of a request is written in, on `/mcp-flow`.
pub const AUDIO: &str = "$/audio";
/// End the process now.
pub const EXIT: &str = "exit";
/// How far a call has come.
pub const PROGRESS: &str = "notifications/progress";
/// There are other tools than before.
pub const TOOLS_LIST_CHANGED: &str = "notifications/tools/list_changed";
/// There are other prompts than before.
pub const PROMPTS_LIST_CHANGED: &str = "notifications/prompts/list_changed";
/// There are other resources than before.
pub const RESOURCES_LIST_CHANGED: &str = "notifications/resources/list_changed";
/// A resource holds something else than before.
pub const RESOURCES_UPDATED: &str = "notifications/resources/updated";
/// A subscription has begun.
pub const SUBSCRIPTIONS_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// A log message.
pub const MESSAGE: &str = "notifications/message";
