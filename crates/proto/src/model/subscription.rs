//! Subscriptions to changes of lists and resources.

use serde::Serialize;

use super::Meta;
use crate::id::RequestId;
use crate::raw::{Params, Raw, ValueKind};

/// The lists whose changes are announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Topics {
    /// The tool list.
    pub tools_list_changed: bool,
    /// The prompt list.
    pub prompts_list_changed: bool,
    /// The resource list.
    pub resources_list_changed: bool,
}

impl Topics {
    /// Returns the topics in either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            tools_list_changed: self.tools_list_changed || other.tools_list_changed,
            prompts_list_changed: self.prompts_list_changed || other.prompts_list_changed,
            resources_list_changed: self.resources_list_changed || other.resources_list_changed,
        }
    }

    /// Returns the topics in both sets.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self {
            tools_list_changed: self.tools_list_changed && other.tools_list_changed,
            prompts_list_changed: self.prompts_list_changed && other.prompts_list_changed,
            resources_list_changed: self.resources_list_changed && other.resources_list_changed,
        }
    }
}

/// The changes a subscription covers. Only what is wanted is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", into = "WireFilter")]
pub struct SubscriptionFilter {
    /// Changes of whole lists.
    pub topics: Topics,
    /// URIs of resources whose changes are wanted.
    pub resources: Vec<String>,
    /// Ids of tasks whose status is wanted. None if the request does not mention tasks.
    pub tasks: Option<Vec<String>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireFilter {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    resources_list_changed: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resource_subscriptions: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_ids: Option<Vec<String>>,
}

impl From<SubscriptionFilter> for WireFilter {
    fn from(filter: SubscriptionFilter) -> Self {
        let Topics { tools_list_changed, prompts_list_changed, resources_list_changed } =
            filter.topics;
        let (resource_subscriptions, task_ids) = (filter.resources, filter.tasks);
        Self {
            tools_list_changed,
            prompts_list_changed,
            resources_list_changed,
            resource_subscriptions,
            task_ids,
        }
    }
}

impl SubscriptionFilter {
    /// Reads the params of `subscriptions/listen`. The error is a sentence naming the invalid
    /// member. Unknown topics are left out, which the acknowledgement shows.
    pub fn from_params(params: Params<'_>) -> Result<Self, String> {
        let [wanted] = params.members(["notifications"]).map_err(|error| error.to_string())?;
        let wanted = wanted.ok_or("notifications is required")?;
        if wanted.kind() != ValueKind::Object {
            return Err("notifications must be an object".to_owned());
        }
        let names =
            ["toolsListChanged", "promptsListChanged", "resourcesListChanged", RESOURCES, TASKS];
        let [tools, prompts, resources, uris, tasks] =
            wanted.members(names).map_err(|error| error.to_string())?;
        let list = |name: &str, member: Option<Raw<'_>>| {
            let member = member.filter(|member| member.kind() != ValueKind::Null);
            let list = member.map(Raw::decode::<Vec<String>>).transpose();
            list.map_err(|_| format!("notifications.{name} must be a list of strings"))
        };
        Ok(Self {
            topics: Topics {
                tools_list_changed: flag(names[0], tools)?,
                prompts_list_changed: flag(names[1], prompts)?,
                resources_list_changed: flag(names[2], resources)?,
            },
            resources: list(RESOURCES, uris)?.unwrap_or_default(),
            tasks: list(TASKS, tasks)?,
        })
    }
}

fn flag(name: &str, member: Option<Raw<'_>>) -> Result<bool, String> {
    match member.map(|member| (member.kind(), member)) {
        None | Some((ValueKind::Null, _)) => Ok(false),
        Some((ValueKind::Boolean, member)) => Ok(member.decode().unwrap_or_default()),
        Some(_) => Err(format!("notifications.{name} must be true or false")),
    }
}

const RESOURCES: &str = "resourceSubscriptions";
const TASKS: &str = "taskIds";

/// The params of a notification that belongs to a subscription, or to none.
#[derive(Debug, Serialize)]
pub struct SubscriptionParams {
    /// `_meta` that identifies the subscription.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
    /// The accepted filter, in the acknowledgement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notifications: Option<SubscriptionFilter>,
}

/// Returns the `_meta` of messages that belong to the subscription opened by this request.
pub fn subscription_meta(id: &RequestId) -> Meta {
    let mut meta = Meta::new();
    let id = serde_json::to_value(id).unwrap_or_default();
    meta.insert("io.modelcontextprotocol/subscriptionId".to_owned(), id);
    meta
}

#[cfg(test)]
mod tests {
    use super::SubscriptionFilter;
    use crate::raw::{Params, Raw};

    #[test]
    fn a_filter_is_read_and_written_or_the_error_names_the_member() {
        for filter in [
            r#"{"toolsListChanged":true}"#,
            r#"{"promptsListChanged":true,"resourcesListChanged":true}"#,
            r#"{"resourceSubscriptions":["file:///a","x:/b"]}"#,
            r#"{"taskIds":["a"]}"#,
            r#"{"taskIds":[]}"#,
            "{}",
        ] {
            check(filter, Ok(filter));
        }
        check(r#"{"toolsListChanged":false,"unheardOf":7}"#, Ok("{}"));
        check(r#"{"resourceSubscriptions":null}"#, Ok("{}"));
        check("[]", Err("notifications must be an object"));
        let fault = "notifications.toolsListChanged must be true or false";
        check(r#"{"toolsListChanged":1}"#, Err(fault));
        let fault = "notifications.resourceSubscriptions must be a list of strings";
        check(r#"{"resourceSubscriptions":"x"}"#, Err(fault));
        check(r#"{"resourceSubscriptions":[1]}"#, Err(fault));
        check(r#"{"taskIds":"a"}"#, Err("notifications.taskIds must be a list of strings"));
        let missing = SubscriptionFilter::from_params(Params::new(Some(Raw::Json("{}"))));
        assert_eq!(missing.unwrap_err(), "notifications is required");
    }

    fn check(filter: &str, expected: Result<&str, &str>) {
        let text = format!(r#"{{"notifications":{filter}}}"#);
        let read = SubscriptionFilter::from_params(Params::new(Some(Raw::Json(&text))));
        let written = read.map(|filter| serde_json::to_string(&filter).unwrap());
        assert_eq!(written.as_deref().map_err(String::as_str), expected, "{filter}");
    }
}
