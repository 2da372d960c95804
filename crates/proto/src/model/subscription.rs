//! What a client wants to be told of.

use serde::Serialize;

use super::Meta;
use crate::id::RequestId;
use crate::raw::{Kind, Params};

/// Which changes a subscription is about. Only what is wanted is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Topics {
    /// The list of tools.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tools_list_changed: bool,
}

impl Topics {
    /// These and those.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { tools_list_changed: self.tools_list_changed || other.tools_list_changed }
    }

    /// Reads the params of `subscriptions/listen`; the error is a sentence naming the member at
    /// fault. Topics nobody here knows are left out, as an acknowledgement then shows.
    pub fn from_params(params: Params<'_>) -> Result<Self, String> {
        let [topics] = params.members(["notifications"]).map_err(|error| error.to_string())?;
        let topics = topics.ok_or("notifications is required")?;
        if topics.kind() != Kind::Object {
            return Err("notifications must be an object".to_owned());
        }
        let [tools] = topics.members(["toolsListChanged"]).map_err(|error| error.to_string())?;
        let tools_list_changed = match tools.map(|tools| (tools.kind(), tools)) {
            None | Some((Kind::Null, _)) => false,
            Some((Kind::Boolean, tools)) => tools.decode().unwrap_or_default(),
            Some(_) => return Err("notifications.toolsListChanged must be true or false".into()),
        };
        Ok(Self { tools_list_changed })
    }
}

/// The params of a message that belongs to a subscription, or of one that belongs to none.
#[derive(Debug, Serialize)]
pub struct SubscriptionParams {
    /// Which subscription.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
    /// What it is about, when it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notifications: Option<Topics>,
}

/// The `_meta` of every message of the subscription this request opened.
pub fn subscription_meta(id: &RequestId) -> Meta {
    let mut meta = Meta::new();
    let id = serde_json::to_value(id).unwrap_or_default();
    meta.insert("io.modelcontextprotocol/subscriptionId".to_owned(), id);
    meta
}

#[cfg(test)]
mod tests {
    use super::Topics;
    use crate::raw::{Params, Raw};

    #[test]
    fn a_filter_is_read_or_its_fault_is_named() {
        check(r#"{"notifications":{"toolsListChanged":true}}"#, Ok(true));
        check(r#"{"notifications":{"toolsListChanged":false,"unheardOf":7}}"#, Ok(false));
        check(r#"{"notifications":{}}"#, Ok(false));
        check("{}", Err("notifications is required"));
        check(r#"{"notifications":[]}"#, Err("notifications must be an object"));
        check(
            r#"{"notifications":{"toolsListChanged":1}}"#,
            Err("notifications.toolsListChanged must be true or false"),
        );
    }

    fn check(text: &str, expected: Result<bool, &str>) {
        let topics = Topics::from_params(Params::new(Some(Raw::Json(text))));
        let found = topics.map(|topics| topics.tools_list_changed);
        assert_eq!(found.as_ref().map_err(String::as_str).copied(), expected, "{text}");
    }
}
