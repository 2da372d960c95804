//! The types handlers decode their params into and build their results from.
//!
//! Members the official text does not name are tolerated on receipt everywhere here.

mod capability;
mod content;
mod elicitation;
mod input;
mod lifecycle;
mod meta;
mod notification;
mod roots;
mod sampling;
mod subscription;
mod tool;

pub use capability::{
    ClientCapabilities, ElicitationCapability, Implementation, ListCapability, RootsCapability,
    SamplingCapability, ServerCapabilities,
};
pub use content::{
    Annotations, Audience, Blob, Content, ContentForm, ContentList, Media, MediaError,
    ResourceBody, ResourceContents, ResourceLink, guess_mime_type,
};
pub use elicitation::{
    BadForm, Choice, ElicitAction, ElicitForm, ElicitResult, ElicitUrl, Field, FieldKind,
    FormSchema, TextFormat, Unsayable,
};
pub use input::{InputParams, InputRequest, InputRequiredResult};
pub use lifecycle::{DiscoverResult, InitializeParams, InitializeResult, RequestedVersion};
pub use meta::{Meta, RequestMeta};
pub use notification::{
    CancelParams, LogLevel, LogMessage, ProgressParams, SetLevelParams, UnknownLevel,
};
pub use roots::{ListRootsResult, Root};
pub use sampling::{
    CreateMessage, IncludeContext, ModelHint, ModelPreferences, Role, SampleResult,
    SamplingContent, SamplingMessage, ToolChoice, ToolResult, ToolUse,
};
pub use subscription::{SubscriptionParams, Topics, subscription_meta};
pub use tool::{
    CallParams, CallResult, ListParams, ListToolsResult, ToolAnnotations, ToolDefinition,
};
