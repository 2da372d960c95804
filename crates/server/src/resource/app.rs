//! Apps: HTML resources in which hosts show the results of tools (SEP-1865).

use mcp_flow_proto::model::{APP_MIME_TYPE, AppMetadata, AppPermission, CacheHint, Icon};

use super::contents::IntoContents;
use super::{BadResource, Resource, ResourceBuilder};
use crate::context::Context;
use crate::tool::is_app_uri;

/// An app: an HTML page that a host shows beside the result of a tool, in a sandboxed frame.
///
/// ```
/// use mcp_flow_server::{App, Context, Server, Tool};
/// use serde_json::Value;
///
/// let page = App::builder("ui://clock/face")
///     .title("Clock")
///     .connect("https://time.example.com")
///     .html("<!doctype html><title>Clock</title><p id=time></p><script>…</script>");
/// let time = Tool::builder("get_time")
///     .description("Returns the time")
///     .ui("ui://clock/face")
///     .quick(|_: &Context, _: Value| "12:00");
///
/// let server = Server::builder("clock", "1.0.0").resources(page).tools(time).build().unwrap();
/// ```
///
/// The page talks to its host by `postMessage`, as the extension defines; it reaches the server only
/// through it. Nothing else is allowed unless the builder says so.
#[derive(Debug)]
pub struct App;

/// Builds an app; finished by [`html`](Self::html) or [`read`](Self::read).
#[derive(Debug)]
#[must_use]
pub struct AppBuilder {
    uri: String,
    resource: ResourceBuilder,
    metadata: AppMetadata,
}

impl App {
    /// Starts building an app with this URI, which begins with `ui://`.
    pub fn builder(uri: impl Into<String>) -> AppBuilder {
        let uri = uri.into();
        let resource = Resource::builder(uri.as_str()).mime_type(APP_MIME_TYPE);
        AppBuilder { uri, resource, metadata: AppMetadata::default() }
    }
}

impl AppBuilder {
    /// Sets a short name; defaults to the last segment of the URI.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.resource = self.resource.name(name);
        self
    }

    /// Sets the display name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.resource = self.resource.title(title);
        self
    }

    /// Sets the description.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.resource = self.resource.description(description);
        self
    }

    /// Adds an icon: an image in an `https:` or `data:` URI.
    pub fn icon(mut self, icon: impl Into<Icon>) -> Self {
        self.resource = self.resource.icon(icon);
        self
    }

    /// Sets how long the page may be cached, and by whom.
    pub fn cache(mut self, hint: CacheHint) -> Self {
        self.resource = self.resource.cache(hint);
        self
    }

    /// Allows network requests to an origin, such as `https://api.example.com`.
    pub fn connect(mut self, origin: impl Into<String>) -> Self {
        self.metadata.security_policy.connect_domains.push(origin.into());
        self
    }

    /// Allows scripts, styles, images, fonts and media of an origin.
    pub fn load(mut self, origin: impl Into<String>) -> Self {
        self.metadata.security_policy.resource_domains.push(origin.into());
        self
    }

    /// Allows frames of an origin in the page.
    pub fn frame(mut self, origin: impl Into<String>) -> Self {
        self.metadata.security_policy.frame_domains.push(origin.into());
        self
    }

    /// Allows base URIs of an origin.
    pub fn base_uri(mut self, origin: impl Into<String>) -> Self {
        self.metadata.security_policy.base_uri_domains.push(origin.into());
        self
    }

    /// Asks for a capability of the browser, which a host may refuse.
    pub fn permission(mut self, permission: AppPermission) -> Self {
        self.metadata.permissions.push(permission);
        self
    }

    /// Asks for an origin of its own, in a form that the host defines.
    pub fn domain(mut self, domain: impl Into<String>) -> Self {
        self.metadata.domain = Some(domain.into());
        self
    }

    /// Asks for a visible border, or for none.
    pub fn prefers_border(mut self, is_preferred: bool) -> Self {
        self.metadata.prefers_border = Some(is_preferred);
        self
    }

    /// Finishes it with a constant page, such as `include_str!("clock.html")`.
    pub fn html(self, html: impl Into<String>) -> Result<Resource, BadResource> {
        self.described()?.text(html)
    }

    /// Finishes it with an async function that writes the page.
    pub fn read<R, F, W>(self, function: F) -> Result<Resource, BadResource>
    where
        R: IntoContents,
        F: Fn(Context) -> W + Send + Sync + 'static,
        W: Future<Output = R> + Send + 'static,
    {
        self.described()?.read(function)
    }

    fn described(self) -> Result<ResourceBuilder, BadResource> {
        let Self { uri, mut resource, metadata } = self;
        if !is_app_uri(&uri) {
            return Err(BadResource::App(uri));
        }
        if let Some(origin) = metadata.security_policy.origins().find(|one| !is_origin(one)) {
            return Err(BadResource::Origin { uri, origin: origin.clone() });
        }
        metadata.add_to(&mut resource.contents_meta);
        let listed = resource.contents_meta.clone();
        Ok(listed.into_iter().fold(resource, |resource, (name, value)| resource.meta(name, value)))
    }
}

/// Returns whether a text is an origin, perhaps with a wildcard for subdomains. Anything else could
/// end a directive of the page's policy and begin another one.
fn is_origin(text: &str) -> bool {
    let rest = ["https://", "wss://", "http://", "ws://"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme));
    let Some(rest) = rest else { return false };
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (rest, None),
    };
    let host = host.strip_prefix("*.").unwrap_or(host);
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    host.split('.').all(is_label) && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::{App, is_origin};
    use mcp_flow_proto::model::{APP_MIME_TYPE, AppPermission};
    use serde_json::json;

    #[test]
    fn an_app_is_a_resource_with_metadata() {
        let app = App::builder("ui://clock/face")
            .connect("https://api.example")
            .permission(AppPermission::ClipboardWrite)
            .prefers_border(true)
            .html("<p>")
            .unwrap();
        let expected = json!({"csp": {"connectDomains": ["https://api.example"]},
            "permissions": {"clipboardWrite": {}}, "prefersBorder": true});
        let described = &app.definition().description;
        assert_eq!(described.mime_type.as_deref(), Some(APP_MIME_TYPE));
        assert_eq!(described.meta["ui"], expected);
        let contents = app.fixed().unwrap();
        assert_eq!(contents.meta.as_ref().unwrap()["ui"], expected);
        assert_eq!(contents.mime_type.as_deref(), Some(APP_MIME_TYPE));
    }

    #[test]
    fn apps_with_other_uris_or_origins_are_rejected() {
        for (uri, origin, expected) in [
            ("ui://a", "https://a.example", ""),
            ("https://a.example", "https://a.example", "begin with ui://"),
            ("ui://a", "https://a.example; script-src *", "is not an origin"),
        ] {
            let built = App::builder(uri).connect(origin).html("");
            let error = built.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(expected) && error.is_empty() == expected.is_empty(), "{error}");
        }
    }

    #[test]
    fn origins_are_recognized() {
        for (text, expected) in [
            ("https://a.example", true),
            ("https://*.a.example:8443", true),
            ("wss://a.example", true),
            ("http://localhost:3000", true),
            ("https://a.example/path", false),
            ("https://", false),
            ("*", false),
            ("data:", false),
            ("'unsafe-eval'", false),
            ("https://a.example 'unsafe-eval'", false),
            ("https://a.example:99999", false),
            ("https://a.*.example", false),
        ] {
            assert_eq!(is_origin(text), expected, "{text}");
        }
    }
}
