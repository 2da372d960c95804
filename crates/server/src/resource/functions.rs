//! Resources read by synchronous functions.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::contents::IntoContents;
use super::{BadResource, Resource, ResourceBuilder, ResourceTemplate, TemplateBuilder};
use crate::context::Context;

impl ResourceBuilder {
    /// Finishes it with a function that returns immediately. It must not block or compute for long.
    pub fn quick<R, F>(self, function: F) -> Result<Resource, BadResource>
    where
        R: IntoContents + Send + 'static,
        F: Fn(&Context) -> R + Send + Sync + 'static,
    {
        self.read(move |context| std::future::ready(function(&context)))
    }

    /// Finishes it with a blocking function, run on a blocking thread.
    pub fn blocking<R, F>(self, function: F) -> Result<Resource, BadResource>
    where
        R: IntoContents + Send + 'static,
        F: Fn(&Context) -> R + Send + Sync + 'static,
    {
        let function = Arc::new(function);
        self.read(move |context| {
            let function = function.clone();
            on_blocking_thread(move || function(&context))
        })
    }
}

impl TemplateBuilder {
    /// Finishes it with a function of the variables that returns immediately. It must not block or
    /// compute for long.
    pub fn quick<T, R, F>(self, function: F) -> Result<ResourceTemplate, BadResource>
    where
        T: DeserializeOwned,
        R: IntoContents + Send + 'static,
        F: Fn(&Context, T) -> R + Send + Sync + 'static,
    {
        self.read(move |context, values: T| std::future::ready(function(&context, values)))
    }

    /// Finishes it with a blocking function of the variables, run on a blocking thread.
    pub fn blocking<T, R, F>(self, function: F) -> Result<ResourceTemplate, BadResource>
    where
        T: DeserializeOwned + Send + 'static,
        R: IntoContents + Send + 'static,
        F: Fn(&Context, T) -> R + Send + Sync + 'static,
    {
        let function = Arc::new(function);
        self.read(move |context, values: T| {
            let function = function.clone();
            on_blocking_thread(move || function(&context, values))
        })
    }
}

async fn on_blocking_thread<R: Send + 'static>(function: impl FnOnce() -> R + Send + 'static) -> R {
    match tokio::task::spawn_blocking(function).await {
        Ok(result) => result,
        // A panic propagates to the call. Otherwise the runtime is shutting down, and nobody waits
        // for the reply.
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => std::future::pending().await,
        },
    }
}
