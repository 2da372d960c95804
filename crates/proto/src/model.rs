//! Types of MCP's params and results, which handlers decode and encode.
//!
//! Unknown members are ignored on receipt.

mod app;
mod cache;
mod capability;
mod completion;
mod content;
mod decode;
mod elicitation;
mod icon;
mod input;
mod lifecycle;
mod list;
mod meta;
mod notification;
mod prompt;
mod resource;
mod roots;
mod sampling;
mod subscription;
mod task;
mod tool;
mod trace;

pub use app::{
    APP_MIME_TYPE, APPS_EXTENSION, AppMetadata, AppPermission, AppSecurityPolicy, Visibility,
};
pub use cache::{CacheHint, CacheScope};
pub use capability::{
    ClientCapabilities, ClientExtensions, ElicitationCapability, Implementation, ListCapability,
    ResourceCapability, RootsCapability, SamplingCapability, ServerCapabilities,
};
pub use completion::{
    CompleteParams, CompleteResult, CompletionValues, MAX_COMPLETIONS, Reference,
};
pub use content::{
    Annotations, Audience, Blob, Content, ContentForm, ContentList, Media, MediaError,
    ResourceBody, ResourceContents, ResourceLink, guess_mime_type,
};
pub use elicitation::{
    BadForm, ElicitAction, ElicitForm, ElicitResult, ElicitUrl, Field, FieldKind, FormChoice,
    FormSchema, TextFormat, UnsupportedField,
};
pub use icon::{Icon, IconTheme, is_website};
pub use input::{InputParams, InputRequest, InputRequiredResult};
pub use lifecycle::{DiscoverResult, InitializeParams, InitializeResult, RequestedVersion};
pub use list::{ListParams, ListResult, StatelessMembers};
pub use meta::{Meta, RequestMeta};
pub use notification::{
    CancelParams, LogLevel, LogMessage, ProgressParams, SetLevelParams, UnknownLevel,
};
pub use prompt::{
    GetPromptResult, MessageList, PromptArgument, PromptDefinition, PromptMessage, Role,
};
pub use resource::{
    Description, ReadResult, ResourceDefinition, TemplateDefinition, UpdatedParams, uri_from_params,
};
pub use roots::{ListRootsResult, Root};
pub use sampling::{
    CreateMessage, IncludeContext, ModelHint, ModelPreferences, SampleResult, SamplingContent,
    SamplingMessage, ToolChoice, ToolResult, ToolUse,
};
pub use subscription::{SubscriptionFilter, SubscriptionParams, Topics, subscription_meta};
pub use task::{
    CreateTaskResult, DetailedTask, TASK_RESULT_TYPE, TASKS_EXTENSION, TaskParams, TaskState,
};
pub use tool::{CallParams, CallResult, ToolAnnotations, ToolDefinition, WireTool};
pub use trace::{BadTraceParent, TraceContext, TraceParent};
