//! Apps (`io.modelcontextprotocol/ui`, SEP-1865): metadata of tools with a user interface, and of the
//! HTML resources that are the interfaces.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Meta;

/// Identifier of the extension.
pub const APPS_EXTENSION: &str = "io.modelcontextprotocol/ui";

/// MIME type of an app's HTML.
pub const APP_MIME_TYPE: &str = "text/html;profile=mcp-app";

/// Member of `_meta` with the metadata of apps.
const UI: &str = "ui";

/// Callers that a tool is visible to. A tool without any restriction is for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// The model.
    Model,
    /// Apps of the same server.
    App,
}

impl Visibility {
    /// Returns whether the `_meta` of a tool allows these callers, which it does unless it says
    /// otherwise.
    ///
    /// ```
    /// use mcp_flow_proto::model::Visibility;
    /// use serde_json::json;
    ///
    /// let meta = |value: serde_json::Value| value.as_object().cloned().unwrap_or_default();
    /// let app_only = meta(json!({"ui": {"visibility": ["app"]}}));
    /// assert!(Visibility::App.allows(&app_only) && !Visibility::Model.allows(&app_only));
    /// assert!(Visibility::Model.allows(&meta(json!({}))));
    /// ```
    pub fn allows(self, meta: &Meta) -> bool {
        let name = match self {
            Self::Model => "model",
            Self::App => "app",
        };
        let listed = meta.get(UI).and_then(|ui| ui.get("visibility")).and_then(Value::as_array);
        listed.is_none_or(|listed| listed.iter().any(|one| one == name))
    }
}

/// Metadata of an app: what its page needs of the host.
///
/// Nothing is allowed by default: no network, no frames, no device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AppMetadata {
    /// Origins that the page may use.
    #[serde(rename = "csp", skip_serializing_if = "AppSecurityPolicy::is_empty")]
    pub security_policy: AppSecurityPolicy,
    /// Capabilities of the browser that it asks for; hosts may refuse.
    #[serde(skip_serializing_if = "<[_]>::is_empty", serialize_with = "as_members")]
    pub permissions: Vec<AppPermission>,
    /// Origin of its own that it needs, in a form that its host defines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Preference for a visible border.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefers_border: Option<bool>,
}

/// Origins that the page of an app may use, such as `https://api.example.com` or
/// `https://*.example.com`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AppSecurityPolicy {
    /// Network requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connect_domains: Vec<String>,
    /// Scripts, styles, images, fonts and media.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_domains: Vec<String>,
    /// Frames in the page.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frame_domains: Vec<String>,
    /// Base URIs of the document.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub base_uri_domains: Vec<String>,
}

impl AppSecurityPolicy {
    /// Returns whether it names no origin.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// All origins.
    pub fn origins(&self) -> impl Iterator<Item = &String> {
        let lists = [
            &self.connect_domains,
            &self.resource_domains,
            &self.frame_domains,
            &self.base_uri_domains,
        ];
        lists.into_iter().flatten()
    }
}

/// A capability of the browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppPermission {
    /// Camera.
    Camera,
    /// Microphone.
    Microphone,
    /// Location of the device.
    Geolocation,
    /// Writing to the clipboard.
    ClipboardWrite,
}

impl AppPermission {
    const fn name(self) -> &'static str {
        match self {
            Self::Camera => "camera",
            Self::Microphone => "microphone",
            Self::Geolocation => "geolocation",
            Self::ClipboardWrite => "clipboardWrite",
        }
    }
}

fn as_members<S: serde::Serializer>(
    permissions: &[AppPermission],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(permissions.iter().map(|one| (one.name(), Map::new())))
}

impl AppMetadata {
    /// Adds the metadata to the `_meta` of a resource; nothing if it is empty.
    pub fn add_to(&self, meta: &mut Meta) {
        if *self != Self::default() {
            let value = serde_json::to_value(self).unwrap_or_default();
            meta.insert(UI.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AppMetadata, AppPermission, AppSecurityPolicy};
    use crate::model::Meta;
    use serde_json::json;

    #[test]
    fn metadata_has_the_members_of_the_extension() {
        let written = |metadata: AppMetadata| {
            let mut meta = Meta::new();
            metadata.add_to(&mut meta);
            json!(meta)
        };
        assert_eq!(written(AppMetadata::default()), json!({}));
        let all = AppMetadata {
            security_policy: AppSecurityPolicy {
                connect_domains: vec!["https://api.example".to_owned()],
                ..AppSecurityPolicy::default()
            },
            permissions: vec![AppPermission::Camera, AppPermission::ClipboardWrite],
            domain: None,
            prefers_border: Some(false),
        };
        assert_eq!(
            written(all),
            json!({"ui": {"csp": {"connectDomains": ["https://api.example"]},
                "permissions": {"camera": {}, "clipboardWrite": {}}, "prefersBorder": false}})
        );
    }
}
