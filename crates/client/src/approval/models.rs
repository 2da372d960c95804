//! Models for sampling, and model selection (PAT-050).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_flow_proto::model::{CreateMessage, ModelPreferences, SampleResult};

use crate::host::SampleRefusal;

/// Runs sampling requests: a command, an HTTP endpoint, a function.
pub trait Backend: Send + Sync + 'static {
    /// Completes a request. The caller applies the timeout.
    fn ask(&self, request: CreateMessage) -> BoxFuture<'_, Result<SampleResult, String>>;

    /// Returns whether requests may offer tools. Defaults to no.
    fn supports_tools(&self) -> bool {
        false
    }
}

/// A model: its name, its ratings and its backend.
#[derive(Clone)]
pub struct Model {
    name: String,
    cheapness: f64,
    speed: f64,
    intelligence: f64,
    timeout: Duration,
    backend: Arc<dyn Backend>,
}

impl Model {
    /// Creates a model with ratings of 0.5.
    pub fn new(name: impl Into<String>, backend: impl Backend) -> Self {
        Self {
            name: name.into(),
            cheapness: 0.5,
            speed: 0.5,
            intelligence: 0.5,
            timeout: Duration::from_secs(120),
            backend: Arc::new(backend),
        }
    }

    /// Sets the ratings for cost (1 is cheapest), speed and intelligence, each from 0 to 1.
    #[must_use]
    pub fn ratings(mut self, cheapness: f64, speed: f64, intelligence: f64) -> Self {
        (self.cheapness, self.speed, self.intelligence) = (cheapness, speed, intelligence);
        self
    }

    /// Sets the timeout for an answer. Defaults to two minutes.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Name of the model.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) async fn ask(&self, request: CreateMessage) -> Result<SampleResult, SampleRefusal> {
        if request.needs_tools() && !self.backend.supports_tools() {
            let why = format!("{} does not support tools", self.name);
            return Err(SampleRefusal::Model(why));
        }
        match tokio::time::timeout(self.timeout, self.backend.ask(request)).await {
            Ok(answer) => answer.map_err(SampleRefusal::Model),
            Err(_) => Err(SampleRefusal::Timeout),
        }
    }

    /// Score of the model: its ratings weighted by the server's priorities.
    fn score(&self, preferences: &ModelPreferences) -> f64 {
        // NaN and infinite priorities are ignored.
        let number = |priority: Option<f64>| priority.filter(|number| number.is_finite());
        let weight = |priority| number(priority).unwrap_or(0.0).clamp(0.0, 1.0);
        weight(preferences.cost_priority) * self.cheapness
            + weight(preferences.speed_priority) * self.speed
            + weight(preferences.intelligence_priority) * self.intelligence
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Model").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Configured models, the default first.
#[derive(Clone, Debug, Default)]
pub struct Models {
    list: Vec<Model>,
}

impl Models {
    /// Creates the list, with the default model first.
    pub fn new(list: impl IntoIterator<Item = Model>) -> Self {
        Self { list: list.into_iter().collect() }
    }

    /// Selects a model: by the first hint that is part of a name, then by the server's priorities,
    /// else the default.
    pub fn choose(&self, preferences: Option<&ModelPreferences>) -> Option<&Model> {
        let Some(preferences) = preferences else { return self.list.first() };
        let hints = preferences.hints.iter().filter_map(|hint| hint.name.as_deref());
        for hint in hints.filter(|hint| !hint.is_empty()).take(MAX_HINTS) {
            let hint = hint.to_lowercase();
            let fitting =
                self.list.iter().filter(|model| model.name.to_lowercase().contains(&hint));
            if let Some(model) = best(fitting, preferences) {
                return Some(model);
            }
        }
        best(self.list.iter(), preferences)
    }

    pub(super) fn support_tools(&self) -> bool {
        !self.list.is_empty() && self.list.iter().all(|model| model.backend.supports_tools())
    }
}

/// The model with the highest score, the first among equals.
fn best<'a>(
    models: impl Iterator<Item = &'a Model>,
    preferences: &ModelPreferences,
) -> Option<&'a Model> {
    models.fold(None, |best: Option<&Model>, model| match best {
        Some(best) if best.score(preferences) >= model.score(preferences) => Some(best),
        _ => Some(model),
    })
}

/// Maximum number of hints considered.
const MAX_HINTS: usize = 32;

#[cfg(test)]
mod tests {
    use super::{Backend, Model, Models};
    use futures_util::future::BoxFuture;
    use mcp_flow_proto::model::{CreateMessage, ModelHint, ModelPreferences, SampleResult};

    struct Never;

    impl Backend for Never {
        fn ask(&self, _: CreateMessage) -> BoxFuture<'_, Result<SampleResult, String>> {
            Box::pin(async { Err("never".to_owned()) })
        }
    }

    /// PAT-050: hints first, in their order, then what is important.
    #[test]
    fn hints_and_priorities_choose() {
        let models = Models::new([
            Model::new("Acme-Small", Never).ratings(0.9, 0.9, 0.2),
            Model::new("acme-large", Never).ratings(0.1, 0.3, 0.9),
            Model::new("other", Never).ratings(0.5, 1.0, 0.5),
        ]);
        let hinted = |names: &[&str], cost: f64, speed: f64, intelligence: f64| {
            let hints = names.iter().map(|name| ModelHint { name: Some((*name).to_owned()) });
            let preferences = ModelPreferences {
                hints: hints.collect(),
                cost_priority: Some(cost),
                speed_priority: Some(speed),
                intelligence_priority: Some(intelligence),
            };
            models.choose(Some(&preferences)).unwrap().name()
        };
        assert_eq!(models.choose(None).unwrap().name(), "Acme-Small");
        assert_eq!(hinted(&["large"], 1.0, 0.0, 0.0), "acme-large");
        assert_eq!(hinted(&["unknown", "OTHER"], 0.0, 0.0, 1.0), "other");
        assert_eq!(hinted(&["acme"], 0.0, 0.0, 1.0), "acme-large");
        assert_eq!(hinted(&["acme"], 1.0, 0.0, 0.0), "Acme-Small");
        assert_eq!(hinted(&[""], 0.0, 0.0, 1.0), "acme-large");
        assert_eq!(hinted(&[], 0.0, 1.0, 0.0), "other");
        assert_eq!(hinted(&[], f64::NAN, 0.0, 0.0), "Acme-Small");
        assert!(Models::default().choose(None).is_none());
    }
}
