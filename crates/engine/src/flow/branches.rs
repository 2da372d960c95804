//! Concurrent branches of a flow.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use super::{Flow, FlowError, FlowResult};

impl Flow {
    /// Runs branches of the flow concurrently, and returns their results in the order of the
    /// branches, or the first error. The other branches are dropped then, as in a
    /// [`race`](Flow::race).
    ///
    /// ```
    /// # use mcp_flow_engine::{Flow, FlowResult};
    /// # async fn fetch(city: &str) -> std::io::Result<f64> { Ok(city.len() as f64) }
    /// # async fn temperatures(flow: Flow) -> FlowResult<Vec<f64>> {
    /// let cities = ["Oslo", "Rome"];
    /// flow.all(cities.map(|city| flow.step(city, move || fetch(city)))).await
    /// # }
    /// ```
    pub async fn all<T, B>(&self, branches: impl IntoIterator<Item = B>) -> FlowResult<Vec<T>>
    where
        B: Future<Output = FlowResult<T>>,
    {
        let mut branches: Vec<_> =
            branches.into_iter().map(|branch| (Some(Box::pin(branch)), None)).collect();
        poll_fn(|context| {
            // Always in this order, so that a replay goes the same way.
            for (branch, result) in &mut branches {
                let Some(running) = branch else { continue };
                if let Poll::Ready(done) = running.as_mut().poll(context) {
                    *branch = None;
                    *result = Some(done?);
                }
            }
            match branches.iter().all(|(branch, _)| branch.is_none()) {
                true => Poll::Ready(FlowResult::Ok(())),
                false => Poll::Pending,
            }
        })
        .await?;
        Ok(branches.into_iter().filter_map(|(_, result)| result).collect())
    }

    /// Runs branches of the flow concurrently, and returns the result of the first that is done,
    /// also if that is an error. The others are dropped: their questions are withdrawn, and their
    /// steps interrupted.
    pub async fn race<T, B>(&self, branches: impl IntoIterator<Item = B>) -> FlowResult<T>
    where
        B: Future<Output = FlowResult<T>>,
    {
        let mut branches: Vec<Pin<Box<B>>> = branches.into_iter().map(Box::pin).collect();
        if branches.is_empty() {
            return Err(FlowError::new("a race has no branches"));
        }
        poll_fn(|context| {
            let mut polled = branches.iter_mut().map(|branch| branch.as_mut().poll(context));
            polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }
}
