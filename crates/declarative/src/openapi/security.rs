//! Credentials and addresses of the tools that operations become.

use serde_json::{Map, Value, json};

use super::operation::{Operation, Request};
use super::{Import, resolve};
use crate::read::is_private;

impl Import<'_> {
    /// Allows the host of a private address: the author of the description, or `--server`, names it.
    pub(super) fn allow_private(&mut self, url: &str, http: &mut Map<String, Value>) {
        let Ok(url) = url::Url::parse(url) else { return };
        if let (true, Some(host)) = (is_private(&url), url.host_str()) {
            http.insert("allow_private".to_owned(), json!([host]));
            if !self.private.iter().any(|known| known == host) {
                self.private.push(host.to_owned());
            }
        }
    }

    /// Adds credentials, as references to environment variables.
    pub(super) fn add_security(
        &mut self,
        operation: &Operation<'_>,
        http: &mut Map<String, Value>,
        request: &mut Request,
    ) {
        let owners = [operation.value, self.spec];
        let Some(alternatives) = owners.iter().find_map(|owner| owner.get("security")?.as_array())
        else {
            return;
        };
        // An empty requirement means that credentials are optional.
        let Some(chosen) =
            alternatives.iter().find_map(|one| one.as_object().filter(|one| !one.is_empty()))
        else {
            return;
        };
        for name in chosen.keys() {
            let scheme = &self.spec["components"]["securitySchemes"][name];
            let scheme = resolve(self.spec, scheme);
            let variable = variable_name(&self.options.prefix, name);
            let secret = |suffix: &str| json!({"secret": format!("env:{variable}{suffix}")});
            let kind = scheme["type"].as_str().unwrap_or_default();
            let http_scheme = scheme["scheme"].as_str().unwrap_or_default().to_ascii_lowercase();
            match (kind, http_scheme.as_str()) {
                ("http", "bearer") => {
                    http.insert("auth".to_owned(), json!({"bearer": secret("")}));
                    self.secrets.push(variable);
                }
                ("http", "basic") => {
                    let (user, password) = (secret("_USER"), secret("_PASSWORD"));
                    let basic = json!({"username": user, "password": password});
                    http.insert("auth".to_owned(), json!({"basic": basic}));
                    self.secrets.push(format!("{variable}_USER"));
                    self.secrets.push(format!("{variable}_PASSWORD"));
                }
                ("apiKey", _) => {
                    let header = scheme["name"].as_str().unwrap_or_default().to_owned();
                    match scheme["in"].as_str() {
                        Some("header") => {
                            request.headers.insert(header, secret(""));
                            self.secrets.push(variable);
                        }
                        Some("query") => {
                            request.query.insert(header, secret(""));
                            self.secrets.push(variable);
                        }
                        _ => self
                            .left_out
                            .push(format!("{}: the key {name} is a cookie", operation.title())),
                    }
                }
                ("oauth2", _) => {
                    let flow = &scheme["flows"]["clientCredentials"];
                    match flow["tokenUrl"].as_str() {
                        Some(url) => {
                            let scopes: Vec<_> = chosen[name]
                                .as_array()
                                .into_iter()
                                .flatten()
                                .filter_map(Value::as_str)
                                .collect();
                            let mut oauth = json!({
                                "token_url": url,
                                "client_id": secret("_CLIENT_ID"),
                                "client_secret": secret("_CLIENT_SECRET"),
                            });
                            if !scopes.is_empty() {
                                oauth["scope"] = scopes.join(" ").into();
                            }
                            http.insert("auth".to_owned(), json!({"oauth": oauth}));
                            self.secrets.push(format!("{variable}_CLIENT_ID"));
                            self.secrets.push(format!("{variable}_CLIENT_SECRET"));
                        }
                        None => {
                            http.insert("auth".to_owned(), json!({"bearer": secret("_TOKEN")}));
                            self.secrets.push(format!("{variable}_TOKEN"));
                        }
                    }
                }
                ("openIdConnect", _) => {
                    http.insert("auth".to_owned(), json!({"bearer": secret("_TOKEN")}));
                    self.secrets.push(format!("{variable}_TOKEN"));
                }
                _ => {
                    self.left_out
                        .push(format!("{}: the security scheme {name}", operation.title()));
                }
            }
        }
    }
}

/// Name of the environment variable of a security scheme.
fn variable_name(prefix: &str, scheme: &str) -> String {
    let text = format!("{prefix}_{scheme}");
    let text: String = text
        .chars()
        .map(|one| if one.is_ascii_alphanumeric() { one.to_ascii_uppercase() } else { '_' })
        .collect();
    let words: Vec<_> = text.split('_').filter(|word| !word.is_empty()).collect();
    words.join("_")
}
