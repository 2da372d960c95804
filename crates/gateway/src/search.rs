//! Search over the tools of upstreams, by BM25.
//!
//! A gateway with many tools lists two in their place: `search_tools` finds tools by words, and
//! `call_tool` calls one. Each caller searches what it may call, and nothing else: the statistics of an
//! index tell nothing of tools that are hidden.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mcp_flow_proto::model::{ToolAnnotations, ToolDefinition};
use mcp_flow_proto::{Raw, Revision, RpcError};
use mcp_flow_server::{Context, Reply, Tool, ToolOutput};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Tool that finds tools.
pub(crate) const SEARCH: &str = "search_tools";

/// Tool that calls a tool.
pub(crate) const CALL: &str = "call_tool";

/// Indexes by the tools that they are over.
#[derive(Debug, Default)]
pub(crate) struct SearchIndexes {
    indexes: Mutex<Vec<KnownIndex>>,
}

/// An index, and the tools it is over.
type KnownIndex = (Vec<Arc<Tool>>, Arc<Index>);

/// Inverted index of the words of tools.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// By word: documents, with the weight of the word in them.
    postings: HashMap<String, Vec<(usize, f64)>>,
    /// Words of each document.
    lengths: Vec<f64>,
}

#[derive(Deserialize)]
struct SearchArguments {
    query: String,
    #[serde(default)]
    limit: Option<usize>,
}

#[derive(Deserialize)]
struct CallArguments {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl SearchIndexes {
    /// The index over these tools. Callers with the same permissions share one.
    fn over(&self, tools: &[Arc<Tool>]) -> Arc<Index> {
        let is_same = |(known, _): &KnownIndex| {
            known.len() == tools.len() && known.iter().zip(tools).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        let mut indexes = self.indexes.lock();
        if let Some(at) = indexes.iter().position(is_same) {
            let found = indexes.remove(at);
            let index = found.1.clone();
            indexes.push(found);
            return index;
        }
        let definitions = tools.iter().map(|tool| tool.definition());
        let index = Arc::new(Index::new(definitions));
        if indexes.len() >= MAX_INDEXES {
            indexes.remove(0);
        }
        indexes.push((tools.to_vec(), index.clone()));
        index
    }
}

impl Index {
    /// Indexes the names, descriptions and arguments of tools.
    pub(crate) fn new<'a>(tools: impl Iterator<Item = &'a ToolDefinition>) -> Self {
        let mut index = Self::default();
        for (document, tool) in tools.enumerate() {
            let mut weights = BTreeMap::<String, f64>::new();
            let mut add = |text: &str, weight: f64| {
                for word in words(text) {
                    *weights.entry(word).or_default() += weight;
                }
            };
            add(&tool.name, NAME_WEIGHT);
            add(tool.title.as_deref().unwrap_or_default(), NAME_WEIGHT);
            add(tool.description.as_deref().unwrap_or_default(), 1.0);
            let arguments = tool.input_schema.get("properties").and_then(Value::as_object);
            for (name, schema) in arguments.into_iter().flatten().take(MAX_ARGUMENTS) {
                add(name, 1.0);
                add(schema["description"].as_str().unwrap_or_default(), 0.5);
            }
            index.lengths.push(weights.values().sum());
            for (word, weight) in weights {
                index.postings.entry(word).or_default().push((document, weight));
            }
        }
        index
    }

    /// Finds the documents that match a query best, with their scores.
    pub(crate) fn search(&self, query: &str, most: usize) -> Vec<(usize, f64)> {
        let count = self.lengths.len() as f64;
        let average = (self.lengths.iter().sum::<f64>() / count.max(1.0)).max(1.0);
        let mut scores = HashMap::<usize, f64>::new();
        for word in words(query).take(MAX_WORDS) {
            let Some(found) = self.postings.get(&word) else { continue };
            let with = found.len() as f64;
            let rarity = ((count - with + 0.5) / (with + 0.5)).ln_1p();
            for (document, weight) in found {
                let length = self.lengths[*document] / average;
                let saturated = weight * (K1 + 1.0) / (weight + K1 * (1.0 - B + B * length));
                *scores.entry(*document).or_default() += rarity * saturated;
            }
        }
        let mut scores: Vec<_> = scores.into_iter().collect();
        scores.sort_by(|(one, a), (other, b)| b.total_cmp(a).then(one.cmp(other)));
        scores.truncate(most);
        scores
    }
}

/// The words of a text in lower case: separated by anything but letters and digits, and where a
/// capital follows a small letter.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut separated = String::with_capacity(text.len() + 8);
    let mut was_small = false;
    for letter in text.chars().take(MAX_TEXT_BYTES) {
        if letter.is_uppercase() && was_small {
            separated.push(' ');
        }
        was_small = letter.is_lowercase() || letter.is_numeric();
        match letter.is_alphanumeric() {
            true => separated.extend(letter.to_lowercase()),
            false => separated.push(' '),
        }
    }
    let words: Vec<_> = separated.split_whitespace().map(stem).collect();
    words.into_iter()
}

/// A word without the ending of a plural.
fn stem(word: &str) -> String {
    let plural = word.strip_suffix('s').filter(|rest| rest.len() > 2 && !rest.ends_with('s'));
    plural.unwrap_or(word).to_owned()
}

/// The tools `search_tools` and `call_tool`. `tools` returns the ones that a caller may search.
pub(crate) fn tools(
    visible: impl Fn(&Context) -> Vec<Arc<Tool>> + Send + Sync + 'static,
) -> Result<Vec<Tool>, mcp_flow_server::BadTool> {
    let indexes = SearchIndexes::default();
    let search = Tool::builder(SEARCH)
        .description(
            "Finds tools by words of their names, descriptions and arguments. Returns the best \
             matches with their input schemas; call one with call_tool.",
        )
        .input_schema(json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words that describe what to do"},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS,
                    "description": "Most tools to return; 8 if absent"},
            },
            "required": ["query"],
        }))
        .annotations(ToolAnnotations { read_only_hint: Some(true), ..ToolAnnotations::default() })
        .quick(move |context: &Context, arguments: SearchArguments| {
            let tools = visible(context);
            let most = arguments.limit.unwrap_or(RESULTS).clamp(1, MAX_RESULTS);
            let found = indexes.over(&tools).search(&arguments.query, most);
            let found = found.into_iter().filter_map(|(at, score)| {
                let definition = tools.get(at)?.definition();
                let name = definition.name.as_str().into();
                let wire = definition.wire(name, Revision::V2026_07_28);
                let mut wire = serde_json::to_value(wire).ok()?;
                wire["score"] = ((score * 1000.0).round() / 1000.0).into();
                Some(wire)
            });
            let found: Vec<_> = found.collect();
            ToolOutput::structured(json!({"tools": found}))
        })?;
    let call = Tool::forwarded(
        ToolDefinition {
            name: CALL.to_owned(),
            description: Some("Calls a tool that search_tools found.".to_owned()),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "Name of the tool"},
                    "arguments": {"type": "object", "description": "Its arguments"},
                },
                "required": ["name"],
            })
            .as_object()
            .cloned()
            .unwrap_or_default(),
            ..ToolDefinition::default()
        },
        |context, arguments: Raw<'_>| match arguments.decode::<CallArguments>() {
            Ok(CallArguments { name, .. }) if [SEARCH, CALL].contains(&name.as_str()) => {
                Reply::Ready(Err(RpcError::invalid_params(format!("{name} is no such tool"))))
            }
            Ok(CallArguments { name, arguments }) => {
                let arguments = Value::Object(arguments).to_string();
                context.call_other_tool(&name, Raw::Json(&arguments))
            }
            Err(problem) => Reply::Ready(Err(RpcError::invalid_params(problem.to_string()))),
        },
    )?;
    Ok(vec![search, call])
}

/// Limit on the growth of a word's weight (BM25).
const K1: f64 = 1.2;

/// Influence of a document's length (BM25).
const B: f64 = 0.75;

/// Weight of a word in a name.
const NAME_WEIGHT: f64 = 2.0;

const RESULTS: usize = 8;

const MAX_RESULTS: usize = 50;

const MAX_WORDS: usize = 64;

const MAX_ARGUMENTS: usize = 200;

const MAX_INDEXES: usize = 16;

/// Characters of a text that are indexed.
const MAX_TEXT_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::{Index, words};
    use mcp_flow_proto::model::ToolDefinition;
    use serde_json::json;

    fn tool(name: &str, description: &str, argument: &str) -> ToolDefinition {
        ToolDefinition {
            name: name.to_owned(),
            description: Some(description.to_owned()),
            input_schema: json!({"properties": {argument: {"type": "string"}}})
                .as_object()
                .cloned()
                .unwrap_or_default(),
            ..ToolDefinition::default()
        }
    }

    #[test]
    fn words_are_separated() {
        let found: Vec<_> = words("git.createPullRequest list_files2 Éa").collect();
        assert_eq!(found, ["git", "create", "pull", "request", "list", "files2", "éa"]);
    }

    #[test]
    fn the_best_match_comes_first() {
        let tools = [
            tool("git.create_pull_request", "Opens a pull request on a repository", "title"),
            tool("files.read_file", "Reads the contents of a file", "path"),
            tool("files.write_file", "Writes a file", "path"),
            tool("mail.send", "Sends a message to a person", "recipient"),
        ];
        let index = Index::new(tools.iter());
        for (query, best) in [
            ("read a file", 1),
            ("pull requests", 0),
            ("send mail", 3),
            ("recipient", 3),
            ("writeFile", 2),
        ] {
            let found = index.search(query, 3);
            assert_eq!(found.first().map(|(at, _)| *at), Some(best), "{query} {found:?}");
        }
        assert!(index.search("zebra", 3).is_empty());
        assert!(index.search("", 3).is_empty());
        assert_eq!(index.search("file", 1).len(), 1);
    }
}
