//! Names of methods and notifications.

/// Begins the handshake.
pub const INITIALIZE: &str = "initialize";
/// Checks that the peer is alive.
pub const PING: &str = "ping";
/// Asks for the server's versions and capabilities, under a stateless revision.
pub const SERVER_DISCOVER: &str = "server/discover";
/// Lists tools.
pub const TOOLS_LIST: &str = "tools/list";
/// Calls a tool.
pub const TOOLS_CALL: &str = "tools/call";
/// Lists resources.
pub const RESOURCES_LIST: &str = "resources/list";
/// Lists resource templates.
pub const RESOURCES_TEMPLATES_LIST: &str = "resources/templates/list";
/// Reads a resource.
pub const RESOURCES_READ: &str = "resources/read";
/// Subscribes to updates of a resource, under a handshake revision.
pub const RESOURCES_SUBSCRIBE: &str = "resources/subscribe";
/// Ends a subscription to a resource.
pub const RESOURCES_UNSUBSCRIBE: &str = "resources/unsubscribe";
/// Lists prompts.
pub const PROMPTS_LIST: &str = "prompts/list";
/// Gets a prompt with its arguments filled in.
pub const PROMPTS_GET: &str = "prompts/get";
/// Asks for completions of an argument.
pub const COMPLETION_COMPLETE: &str = "completion/complete";
/// Sets the minimum level of log messages for a connection.
pub const LOGGING_SET_LEVEL: &str = "logging/setLevel";
/// Opens a subscription to changes, under a stateless revision.
pub const SUBSCRIPTIONS_LISTEN: &str = "subscriptions/listen";
/// Gets the state of a task.
pub const TASKS_GET: &str = "tasks/get";
/// Answers questions of a task.
pub const TASKS_UPDATE: &str = "tasks/update";
/// Cancels a task.
pub const TASKS_CANCEL: &str = "tasks/cancel";
/// Asks the client to sample its model.
pub const SAMPLING_CREATE_MESSAGE: &str = "sampling/createMessage";
/// Asks the user for input.
pub const ELICITATION_CREATE: &str = "elicitation/create";
/// Asks the client for its roots.
pub const ROOTS_LIST: &str = "roots/list";
/// Closes the connection after all earlier requests are answered.
pub const SHUTDOWN: &str = "shutdown";

/// Announces that the client is ready.
pub const INITIALIZED: &str = "notifications/initialized";
/// Cancels a request, which then gets no response.
pub const CANCELLED: &str = "notifications/cancelled";
/// Cancels a request, which then gets an error response.
pub const CANCEL: &str = "$/cancel";
/// Drains and closes the connection.
pub const SHUTDOWN_NOTIFICATION: &str = "$/shutdown";
/// Reports a failed stream, on `/mcp-flow`.
pub const STREAM_ERROR: &str = "$/streamError";
/// Announces the audio codec of a request, on `/mcp-flow`.
pub const AUDIO: &str = "$/audio";
/// Terminates the process.
pub const EXIT: &str = "exit";
/// Reports the progress of a call.
pub const PROGRESS: &str = "notifications/progress";
/// Announces a change of the tool list.
pub const TOOLS_LIST_CHANGED: &str = "notifications/tools/list_changed";
/// Announces a change of the prompt list.
pub const PROMPTS_LIST_CHANGED: &str = "notifications/prompts/list_changed";
/// Announces a change of the resource list.
pub const RESOURCES_LIST_CHANGED: &str = "notifications/resources/list_changed";
/// Announces that a resource has changed.
pub const RESOURCES_UPDATED: &str = "notifications/resources/updated";
/// Confirms a subscription.
pub const SUBSCRIPTIONS_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// Reports a task whose status has changed.
pub const TASKS: &str = "notifications/tasks";
/// Carries a log message.
pub const MESSAGE: &str = "notifications/message";
