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
/// End the process now.
pub const EXIT: &str = "exit";
/// How far a call has come.
pub const PROGRESS: &str = "notifications/progress";
/// There are other tools than before.
pub const TOOLS_LIST_CHANGED: &str = "notifications/tools/list_changed";
/// A subscription has begun.
pub const SUBSCRIPTIONS_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// A log message.
pub const MESSAGE: &str = "notifications/message";
