//! Operations of a description, and the tools they become.

use serde_json::{Map, Value, json};
use wildmatch::WildMatch;

use super::schema::Schemas;
use super::{Import, resolve};

/// One operation.
pub(super) struct Operation<'a> {
    pub(super) spec: &'a Value,
    pub(super) path: &'a str,
    pub(super) method: &'static str,
    /// The path item.
    pub(super) item: &'a Value,
    pub(super) value: &'a Value,
}

/// Reason an operation is left out.
pub(super) struct Skipped(pub(super) String);

impl Operation<'_> {
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.method.to_uppercase(), self.path)
    }

    pub(super) fn is_selected(&self, patterns: &[WildMatch]) -> bool {
        let id = self.value.get("operationId").and_then(Value::as_str).unwrap_or_default();
        let title = self.title();
        let matches = |pattern: &WildMatch| {
            pattern.matches(id) || pattern.matches(self.path) || pattern.matches(&title)
        };
        patterns.is_empty() || patterns.iter().any(matches)
    }

    /// Name made of the operation's id, or of its method and path.
    pub(super) fn name(&self) -> String {
        let id = self.value.get("operationId").and_then(Value::as_str);
        let source = match id {
            Some(id) => id.to_owned(),
            None => format!("{}_{}", self.method, self.path),
        };
        let mut name = String::new();
        for character in source.chars() {
            match character {
                '/' if id.is_some() => name.push('.'),
                'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' => name.push(character),
                _ if name.ends_with(['_', '.']) => {}
                _ => name.push('_'),
            }
        }
        let name = name.trim_matches(['_', '.', '-']).to_owned();
        if name.is_empty() { self.method.to_owned() } else { name }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.value.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
    }

    /// Returns whether the description says what a successful response looks like.
    fn has_response_schema(&self) -> bool {
        let responses = self.value.get("responses").and_then(Value::as_object);
        responses.into_iter().flatten().filter(|(status, _)| status.starts_with('2')).any(
            |(_, response)| {
                let content =
                    resolve(self.spec, response).get("content").and_then(Value::as_object);
                content.into_iter().flatten().any(|(_, media)| media.get("schema").is_some())
            },
        )
    }

    /// Parameters of the operation and of its path item; the operation's take precedence.
    fn parameters(&self) -> Vec<&Value> {
        let mut all: Vec<&Value> = Vec::new();
        for owner in [self.value, self.item] {
            let list = owner.get("parameters").and_then(Value::as_array);
            for parameter in list.into_iter().flatten() {
                let parameter = resolve(self.spec, parameter);
                let key = |one: &Value| (one["name"].clone(), one["in"].clone());
                if !all.iter().any(|other| key(other) == key(parameter)) {
                    all.push(parameter);
                }
            }
        }
        all
    }
}

impl Import<'_> {
    /// Builds the tool of an operation.
    pub(super) fn tool(&mut self, operation: &Operation<'_>) -> Result<Value, Skipped> {
        let is_deprecated = operation.value.get("deprecated") == Some(&Value::Bool(true));
        if is_deprecated && self.options.only.is_empty() {
            return Err(Skipped("it is deprecated; name it with --only".to_owned()));
        }
        let mut request = Request::default();
        let mut schemas = Schemas::new(self.spec);
        for parameter in operation.parameters() {
            self.add_parameter(operation, parameter, &mut request, &mut schemas)?;
        }
        self.add_body(operation, &mut request, &mut schemas)?;
        let url = self.url(operation, &request)?;
        let mut http = Map::new();
        http.insert("method".to_owned(), operation.method.to_uppercase().into());
        self.allow_private(&url, &mut http);
        http.insert("url".to_owned(), url.into());
        if request.has_indexes {
            http.insert("lists".to_owned(), "indexed".into());
        }
        self.add_security(operation, &mut http, &mut request);
        for (name, members) in [("query", request.query), ("headers", request.headers)] {
            if !members.is_empty() {
                http.insert(name.to_owned(), members.into());
            }
        }
        if let Some(body) = request.body {
            http.insert("body".to_owned(), body);
        }
        let mut input = json!({"type": "object", "properties": request.properties});
        if !request.required.is_empty() {
            input["required"] = request.required.into();
        }
        let (definitions, left_out) = schemas.finish();
        self.left_out.extend(left_out.iter().map(|what| format!("{}: {what}", operation.title())));
        self.responses += usize::from(operation.has_response_schema());
        if !definitions.is_empty() {
            input["$defs"] = definitions.into();
        }
        let mut tool = Map::new();
        tool.insert("name".to_owned(), self.name(operation).into());
        if let Some(title) = operation.text("summary") {
            tool.insert("title".to_owned(), mcp_flow_proto::text::prefix(title, 200).into());
        }
        let description = operation.text("description").or(operation.text("summary"));
        let description = description.map(str::to_owned).unwrap_or_else(|| operation.title());
        let description = mcp_flow_proto::text::prefix(&description, MAX_DESCRIPTION);
        tool.insert("description".to_owned(), description.into());
        tool.insert("input".to_owned(), input);
        tool.insert("annotations".to_owned(), annotations(operation.method));
        tool.insert("http".to_owned(), http.into());
        Ok(tool.into())
    }

    fn add_parameter(
        &mut self,
        operation: &Operation<'_>,
        parameter: &Value,
        request: &mut Request,
        schemas: &mut Schemas<'_>,
    ) -> Result<(), Skipped> {
        if parameter.is_null() {
            return Err(Skipped("the reference of a parameter cannot be resolved".to_owned()));
        }
        let name = parameter["name"].as_str().unwrap_or_default().to_owned();
        let place = parameter["in"].as_str().unwrap_or_default();
        let is_required = parameter["required"] == true || place == "path";
        let mut leave_out = |reason: &str| {
            let what = format!("the {place} parameter `{name}`: {reason}");
            match is_required {
                true => Err(Skipped(what)),
                false => {
                    self.left_out.push(format!("{}: {what}", operation.title()));
                    Ok(())
                }
            }
        };
        if name.is_empty() {
            return leave_out("it has no name");
        }
        let content = parameter.get("content").and_then(Value::as_object);
        let schema = match (parameter.get("schema"), content) {
            (Some(schema), _) => schema,
            (None, Some(content)) if content.len() == 1 => {
                return leave_out("its value is encoded as a document");
            }
            _ => return leave_out("it has no schema"),
        };
        let style = parameter["style"].as_str().unwrap_or(match place {
            "query" | "cookie" => "form",
            _ => "simple",
        });
        let explodes = match &parameter["explode"] {
            Value::Bool(explodes) => *explodes,
            _ => style == "form",
        };
        let kind = kind_of(self.spec, schema);
        let mut wrapped = None;
        match place {
            "path" | "header" if style != "simple" => {
                return leave_out(&format!("its style is {style}"));
            }
            "path" | "header" if kind == Some("object") => {
                return leave_out("it is an object");
            }
            "query" => match (style, kind) {
                ("form", Some("object")) if !explodes => {
                    return leave_out("it is an object in one parameter");
                }
                ("form", Some("object")) => wrapped = Some("spread"),
                ("form", Some("array")) if !explodes => wrapped = Some("join"),
                ("deepObject", Some("array")) => request.has_indexes = true,
                ("form" | "deepObject", _) => {}
                _ => return leave_out(&format!("its style is {style}")),
            },
            _ => {}
        }
        match place {
            "path" | "query" => {}
            "header" => {
                let lower = name.to_ascii_lowercase();
                if ["accept", "content-type", "authorization"].contains(&lower.as_str()) {
                    return Ok(());
                }
                if RESERVED.contains(&lower.as_str()) {
                    return leave_out("the connection sets this header");
                }
            }
            "cookie" => return leave_out("arguments do not set cookies"),
            _ => return leave_out("its location `in` is unknown"),
        }
        let argument = request.argument(&name, place);
        let mut property = schemas.convert(schema).map_err(Skipped)?;
        describe(&mut property, parameter.get("description"));
        request.properties.insert(argument.clone(), property);
        if is_required {
            request.required.push(argument.as_str().into());
        }
        let value = format!("{{{{{argument}}}}}");
        match place {
            "path" => request.path.push((name, value)),
            "query" => {
                let value = match wrapped {
                    Some(wrapped) => json!({wrapped: value}),
                    None => value.into(),
                };
                request.query.insert(name, value);
            }
            _ => {
                request.headers.insert(name, value.into());
            }
        }
        Ok(())
    }

    fn add_body(
        &mut self,
        operation: &Operation<'_>,
        request: &mut Request,
        schemas: &mut Schemas<'_>,
    ) -> Result<(), Skipped> {
        let Some(body) = operation.value.get("requestBody") else { return Ok(()) };
        let body = resolve(self.spec, body);
        let is_required = body["required"] == true;
        let content = body.get("content").and_then(Value::as_object);
        let content: Vec<_> = content.into_iter().flatten().collect();
        let find = |wanted: &dyn Fn(&str) -> bool| {
            content
                .iter()
                .copied()
                .find(|(kind, _)| wanted(kind.split(';').next().unwrap_or_default().trim()))
        };
        let is_json =
            |kind: &str| kind == "application/json" || kind.ends_with("+json") || kind == "*/*";
        let found = find(&is_json)
            .or_else(|| find(&|kind| kind == "application/x-www-form-urlencoded"))
            .or_else(|| find(&|kind| kind.starts_with("text/")));
        let Some((kind, media)) = found else {
            let kinds: Vec<_> = content.iter().map(|(kind, _)| kind.as_str()).collect();
            let what = format!("the body can only be {}", kinds.join(", "));
            if is_required {
                return Err(Skipped(what));
            }
            self.left_out.push(format!("{}: {what}", operation.title()));
            return Ok(());
        };
        if kind != "application/json" && kind != "*/*" {
            request.headers.insert("Content-Type".to_owned(), kind.as_str().into());
        }
        let schema = media.get("schema").cloned().unwrap_or_else(|| json!({}));
        if kind == "application/x-www-form-urlencoded" {
            self.read_encoding(operation, media, request);
        }
        let argument = request.argument("body", "body");
        let mut property = schemas.convert(&schema).map_err(Skipped)?;
        describe(&mut property, body.get("description"));
        request.properties.insert(argument.clone(), property);
        if is_required {
            request.required.push(argument.as_str().into());
        }
        request.body = Some(format!("{{{{{argument}}}}}").into());
        Ok(())
    }

    /// Reads the encoding of a form, as far as a tool file can have it.
    fn read_encoding(&mut self, operation: &Operation<'_>, media: &Value, request: &mut Request) {
        let properties = &resolve(self.spec, &media["schema"])["properties"];
        let mut has_repeated = false;
        for (name, property) in properties.as_object().into_iter().flatten() {
            let encoding = &media["encoding"][name];
            let style = encoding["style"].as_str();
            let is_list = kind_of(self.spec, property) == Some("array");
            request.has_indexes |= is_list && style == Some("deepObject");
            has_repeated |= is_list && style != Some("deepObject");
            let reason = match style {
                Some(style) if !matches!(style, "form" | "deepObject") => {
                    format!("its style is {style}")
                }
                _ if is_list && encoding["explode"] == false => {
                    "its items are in one parameter".to_owned()
                }
                _ => continue,
            };
            let title = operation.title();
            self.left_out.push(format!("{title}: the encoding of `{name}` in the form: {reason}"));
        }
        if has_repeated && request.has_indexes {
            let title = operation.title();
            self.left_out.push(format!("{title}: all lists of the form are sent with indexes"));
        }
    }

    /// Returns the URL with variables for the parameters of the path.
    fn url(&self, operation: &Operation<'_>, request: &Request) -> Result<String, Skipped> {
        let servers = [operation.value, operation.item, self.spec].into_iter();
        let server = servers.filter_map(|owner| owner.get("servers")?.get(0)).next();
        let base = match (&self.options.server, server) {
            (Some(base), _) => base.clone(),
            (None, Some(server)) => {
                let mut base = server["url"].as_str().unwrap_or_default().to_owned();
                let variables = server.get("variables").and_then(Value::as_object);
                for (name, variable) in variables.into_iter().flatten() {
                    let default = variable["default"].as_str().unwrap_or_default();
                    base = base.replace(&format!("{{{name}}}"), default);
                }
                base
            }
            (None, None) => String::new(),
        };
        if !base.starts_with("http://") && !base.starts_with("https://") {
            let reason = "the description has no absolute server URL; set it with --server";
            return Err(Skipped(reason.to_owned()));
        }
        if base.contains(['{', '}']) {
            return Err(Skipped("a variable of the server URL has no default".to_owned()));
        }
        // A fragment or a query in a path only tells operations apart.
        let path = operation.path.split(['#', '?']).next().unwrap_or_default();
        let mut path = path.to_owned();
        for (name, value) in &request.path {
            path = path.replace(&format!("{{{name}}}"), value);
        }
        let rest = path.replace("{{", "").replace("}}", "");
        if rest.contains(['{', '}']) {
            return Err(Skipped("a variable of the path is not a parameter".to_owned()));
        }
        Ok(format!("{}/{}", base.trim_end_matches('/'), path.trim_start_matches('/')))
    }
}

/// Parts of a request.
#[derive(Default)]
pub(super) struct Request {
    properties: Map<String, Value>,
    required: Vec<Value>,
    /// Names of parameters, and their templates.
    path: Vec<(String, String)>,
    pub(super) query: Map<String, Value>,
    pub(super) headers: Map<String, Value>,
    body: Option<Value>,
    /// Set if lists have indexes.
    has_indexes: bool,
}

impl Request {
    /// Returns the name of an argument that is a variable, and that no other has.
    fn argument(&self, name: &str, place: &str) -> String {
        let is_allowed = |one: &char| one.is_ascii_alphanumeric() || *one == '_' || *one == '-';
        let plain: String =
            name.chars().map(|one| if is_allowed(&one) { one } else { '_' }).collect();
        let plain = plain.trim_matches('_').to_owned();
        let plain = if plain.is_empty() { place.to_owned() } else { plain };
        let mut argument = plain.clone();
        let mut number = 2;
        while self.properties.contains_key(&argument) {
            argument = match number {
                2 => format!("{plain}_{place}"),
                number => format!("{plain}_{place}_{number}"),
            };
            number += 1;
        }
        argument
    }
}

/// Returns the type of a schema, also if it may be null.
fn kind_of<'a>(spec: &'a Value, schema: &'a Value) -> Option<&'a str> {
    let schema = resolve(spec, schema);
    match &schema["type"] {
        Value::String(kind) => Some(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        _ if schema.get("properties").is_some() => Some("object"),
        _ if schema.get("items").is_some() => Some("array"),
        _ => {
            let parts = ["anyOf", "oneOf", "allOf"].into_iter();
            let parts = parts.filter_map(|name| schema.get(name)?.as_array()).flatten();
            // One level: references can be circular.
            parts
                .filter_map(|part| resolve(spec, part)["type"].as_str())
                .find(|kind| *kind != "null")
        }
    }
}

fn describe(schema: &mut Value, description: Option<&Value>) {
    if let (Value::Object(schema), Some(Value::String(text))) = (schema, description) {
        let text = mcp_flow_proto::text::prefix(text.trim(), MAX_DESCRIPTION);
        schema.entry("description").or_insert_with(|| text.into());
    }
}

fn annotations(method: &str) -> Value {
    match method {
        "get" | "head" | "options" => json!({"readOnly": true, "openWorld": true}),
        "put" => json!({"destructive": true, "idempotent": true, "openWorld": true}),
        "delete" => json!({"destructive": true, "idempotent": true, "openWorld": true}),
        "patch" => json!({"destructive": true, "openWorld": true}),
        _ => json!({"destructive": false, "openWorld": true}),
    }
}

const MAX_DESCRIPTION: usize = 4 * 1024;

const RESERVED: [&str; 8] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "te",
    "trailer",
    "upgrade",
    "expect",
];
