//! A request in flight: a stream of its progress, and a future of its result.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use crate::error::Error;
use crate::event::RequestProgress;

/// A pending request: a stream of its progress and a future of its result. The stream ends when the
/// result has arrived. Dropping it cancels the request.
#[must_use = "dropping it cancels the request"]
pub struct RunningRequest<R> {
    pub(super) steps: mpsc::Receiver<RequestProgress>,
    pub(super) result: BoxFuture<'static, Result<R, Error>>,
    pub(super) early: Option<Result<R, Error>>,
}

impl<R> Stream for RunningRequest<R> {
    type Item = RequestProgress;

    fn poll_next(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<RequestProgress>> {
        if self.early.is_none()
            && let Poll::Ready(result) = self.result.as_mut().poll(task)
        {
            self.early = Some(result);
        }
        match self.steps.poll_recv(task) {
            Poll::Ready(step) => Poll::Ready(step),
            Poll::Pending if self.early.is_some() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<R> Unpin for RunningRequest<R> {}

impl<R> Future for RunningRequest<R> {
    type Output = Result<R, Error>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Result<R, Error>> {
        match self.early.take() {
            Some(result) => Poll::Ready(result),
            None => self.result.as_mut().poll(task),
        }
    }
}

impl<R> std::fmt::Debug for RunningRequest<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RunningRequest").finish_non_exhaustive()
    }
}
