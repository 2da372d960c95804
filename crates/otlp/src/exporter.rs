//! The thread that sends telemetry, with a runtime of its own: a collector that is slow or gone
//! concerns no call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::histograms::Histograms;
use crate::payload::Origin;
use crate::queue::Queue;
use crate::sender::{SendError, Sender};
use crate::settings::{Batching, Signal, TelemetrySettings};

/// Queue of telemetry, shared by those who record it and the thread that sends it.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) spans: Option<Queue>,
    pub(crate) logs: Option<Queue>,
    pub(crate) histograms: Option<Histograms>,
    /// Exports of metrics that failed.
    pub(crate) lost_metrics: AtomicU64,
    origin: Origin,
}

impl Pipeline {
    pub(crate) fn new(settings: &TelemetrySettings) -> Self {
        let queue = |batching: Batching| Queue::new(batching.max_queue, batching.max_batch);
        Self {
            spans: settings.traces.is_some().then(|| queue(settings.span_batches)),
            logs: settings.logs.is_some().then(|| queue(settings.log_batches)),
            histograms: settings.metrics.is_some().then(|| Histograms::new(settings.is_delta)),
            lost_metrics: AtomicU64::new(0),
            origin: Origin::new(&settings.resource),
        }
    }
}

/// The running thread.
#[derive(Debug)]
pub(crate) struct Exporter {
    stop: CancellationToken,
    finished: Receiver<()>,
}

impl Exporter {
    /// Starts the thread. An error names a setting that cannot be used.
    pub(crate) fn start(
        pipeline: Arc<Pipeline>,
        settings: &TelemetrySettings,
    ) -> Result<Self, std::io::Error> {
        let open = |signal| {
            let Some(destination) = settings.destination(signal) else { return Ok(None) };
            let sender = Sender::new(destination.clone()).map_err(std::io::Error::other)?;
            Ok::<_, std::io::Error>(Some(Link { sender, signal, is_failing: false }))
        };
        let links = (open(Signal::Traces)?, open(Signal::Logs)?, open(Signal::Metrics)?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stop = CancellationToken::new();
        let (stopped, settings) = (stop.clone(), settings.clone());
        let (done, finished) = channel();
        std::thread::Builder::new().name("telemetry".to_owned()).spawn(move || {
            runtime.block_on(run(&pipeline, links, &settings, &stopped));
            // Nobody listens if the time to finish is over.
            let _ = done.send(());
        })?;
        Ok(Self { stop, finished })
    }

    /// Exports what waits, for a bounded time, and stops.
    pub(crate) fn stop(self) {
        self.stop.cancel();
        if self.finished.recv_timeout(MAX_FLUSH + MAX_FLUSH / 8).is_err() {
            tracing::debug!("telemetry was not flushed in time");
        }
    }
}

async fn run(
    pipeline: &Pipeline,
    (traces, logs, metrics): (Option<Link>, Option<Link>, Option<Link>),
    settings: &TelemetrySettings,
    stop: &CancellationToken,
) {
    let origin = &pipeline.origin;
    let exports = async {
        tokio::join!(
            export_batches(pipeline.spans.as_ref(), traces, settings.span_batches, origin, stop),
            export_batches(pipeline.logs.as_ref(), logs, settings.log_batches, origin, stop),
            export_metrics(pipeline, metrics, settings.metric_interval, stop),
        )
    };
    // The deadlines of exports that are under way are later.
    let end = async {
        stop.cancelled().await;
        sleep(MAX_FLUSH).await;
    };
    tokio::select! {
        _ = exports => {}
        () = end => {}
    }
}

/// Sends batches of a queue, one after the other, until it is told to stop and the queue is empty.
async fn export_batches(
    queue: Option<&Queue>,
    link: Option<Link>,
    batching: Batching,
    origin: &Origin,
    stop: &CancellationToken,
) {
    let Some((queue, mut link)) = queue.zip(link) else { return };
    let mut reported = 0;
    loop {
        tokio::select! {
            () = queue.filled() => {}
            () = sleep(batching.delay) => {}
            () = stop.cancelled() => {}
        }
        let flush_until = stop.is_cancelled().then(|| Instant::now() + MAX_FLUSH);
        while let Some(batch) = queue.take() {
            let limit = Instant::now() + batching.timeout;
            let until = flush_until.map_or(limit, |flush| flush.min(limit));
            let request = origin.request(&batch.records);
            match link.deliver(request, until, stop).await {
                Ok(rejected) => queue.count_dropped(usize::try_from(rejected).unwrap_or(0)),
                Err(_) => queue.count_dropped(batch.count),
            }
            if flush_until.is_some_and(|until| Instant::now() >= until) {
                return;
            }
        }
        link.report_dropped(queue.dropped(), &mut reported);
        if flush_until.is_some() {
            return;
        }
    }
}

/// Sends the metrics at intervals, and once more at the end.
async fn export_metrics(
    pipeline: &Pipeline,
    link: Option<Link>,
    interval: Duration,
    stop: &CancellationToken,
) {
    let Some((histograms, mut link)) = pipeline.histograms.as_ref().zip(link) else { return };
    loop {
        tokio::select! {
            () = sleep(interval) => {}
            () = stop.cancelled() => {}
        }
        let is_last = stop.is_cancelled();
        if let Some(records) = histograms.encode() {
            let request = pipeline.origin.request(&records);
            let until = Instant::now() + if is_last { MAX_FLUSH } else { interval };
            if link.deliver(request, until, stop).await.is_err() {
                pipeline.lost_metrics.fetch_add(1, Ordering::Relaxed);
            }
        }
        if is_last {
            return;
        }
    }
}

/// Connection to the collector of one signal.
struct Link {
    sender: Sender,
    signal: Signal,
    /// Set while exports fail, so that a problem is logged once.
    is_failing: bool,
}

impl Link {
    /// Sends a request, again and again if that may help, until a deadline. Returns the number of
    /// records that the collector rejected.
    async fn deliver(
        &mut self,
        request: Vec<u8>,
        until: Instant,
        stop: &CancellationToken,
    ) -> Result<u64, SendError> {
        let mut delay = FIRST_DELAY;
        loop {
            let late = || SendError::late();
            let sent = timeout_at(until, self.sender.send(request.clone()));
            let error = match sent.await.unwrap_or_else(|_| Err(late())) {
                Ok(rejected) => {
                    self.report_success(rejected);
                    return Ok(rejected);
                }
                Err(error) => error,
            };
            self.report_failure(&error);
            let pause = error.retry_after.unwrap_or_else(|| delay.mul_f64(0.5 + fastrand::f64()));
            // While the program ends, there is one attempt.
            let is_over = stop.is_cancelled() || Instant::now() + pause >= until;
            if !error.is_temporary || is_over {
                return Err(error);
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = stop.cancelled() => {}
            }
            delay = (delay * 2).min(MAX_DELAY);
        }
    }

    fn report_success(&mut self, rejected: u64) {
        let signal = self.signal.name();
        if std::mem::take(&mut self.is_failing) {
            tracing::info!(signal, "telemetry is exported again");
        }
        if rejected > 0 {
            tracing::debug!(signal, rejected, "the collector rejected some records");
        }
    }

    fn report_failure(&mut self, error: &SendError) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let signal = self.signal.name();
            tracing::warn!(signal, %error, "telemetry cannot be exported; calls continue without it");
        }
    }

    fn report_dropped(&self, dropped: u64, reported: &mut u64) {
        let new = dropped - *reported;
        if new > 0 {
            let signal = self.signal.name();
            tracing::debug!(signal, dropped = new, "telemetry was dropped");
            *reported = dropped;
        }
    }
}

/// Time for the last exports when the program ends.
const MAX_FLUSH: Duration = Duration::from_secs(2);

/// Delay before the first retry; it doubles with each.
const FIRST_DELAY: Duration = Duration::from_millis(500);
const MAX_DELAY: Duration = Duration::from_secs(10);
