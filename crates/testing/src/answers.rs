//! Answers as a table.

use serde_json::Value;

/// Answers by the keys of their questions.
///
/// A JSON object, or pairs if a flow asks the same question more than once:
///
/// ```
/// use mcp_flow_testing::Answers;
/// use serde_json::json;
///
/// let answers = Answers::from(json!({"city": "Oslo", "nights": 3}));
/// let answers = Answers::from([("item", json!("tea")), ("item", json!("milk"))]);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers(Vec<(String, Value)>);

impl Answers {
    /// Returns the answer to the question that is asked under this key for the `nth` time, counted
    /// from 0.
    pub(crate) fn get(&self, key: &str, nth: usize) -> Option<&Value> {
        self.0.iter().filter(|(of, _)| of == key).nth(nth).map(|(_, answer)| answer)
    }

    /// Takes the first answer to a question of this key.
    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        let index = self.0.iter().position(|(of, _)| of == key)?;
        Some(self.0.remove(index).1)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.0.iter().map(|(key, _)| key.clone()).collect()
    }
}

impl From<Value> for Answers {
    /// Any value but an object has no answers.
    fn from(value: Value) -> Self {
        match value {
            Value::Object(members) => Self(members.into_iter().collect()),
            _ => Self::default(),
        }
    }
}

impl<K: Into<String>, V: Into<Value>, const N: usize> From<[(K, V); N]> for Answers {
    fn from(pairs: [(K, V); N]) -> Self {
        Self(pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}
