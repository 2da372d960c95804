//! Progress bars on standard error.

use std::sync::Arc;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use mcp_flow::client::RequestProgress;
use parking_lot::Mutex;

use crate::terminal::output::{is_dumb_terminal, sanitize, wants_colour};

/// Progress bars of a command. Draws nothing if standard error is no terminal.
#[derive(Clone, Debug)]
pub(crate) struct ProgressDisplay {
    bars: MultiProgress,
    call: Arc<Mutex<Option<ProgressBar>>>,
}

impl ProgressDisplay {
    pub(crate) fn new() -> Self {
        let bars = match is_dumb_terminal() {
            true => MultiProgress::with_draw_target(ProgressDrawTarget::hidden()),
            false => MultiProgress::new(),
        };
        Self { bars, call: Arc::default() }
    }

    /// Shows the progress of the call.
    pub(crate) fn report(&self, progress: &RequestProgress) {
        let mut call = self.call.lock();
        let bar = call.get_or_insert_with(|| self.bars.add(ProgressBar::no_length()));
        let total = progress.total.filter(|total| total.is_finite() && *total > 0.0);
        match total {
            Some(total) => {
                bar.set_style(style("{wide_bar} {percent:>3}% {eta:>4} {msg}"));
                bar.set_length(STEPS);
                bar.set_position(steps(progress.progress / total));
            }
            None => {
                bar.set_style(style("{spinner} {msg}"));
                bar.enable_steady_tick(Duration::from_millis(100));
            }
        }
        let message = progress.message.as_deref().unwrap_or_default();
        let message: String = sanitize(message).chars().take(MAX_MESSAGE_LENGTH).collect();
        bar.set_message(message.replace('\n', " "));
    }

    /// Removes the bar of the call, so that something else can be written.
    pub(crate) fn clear(&self) {
        let mut call = self.call.lock();
        if let Some(bar) = call.take() {
            bar.finish_and_clear();
        }
    }

    /// Adds a bar for a download: size, rate and remaining time.
    pub(crate) fn download(&self, name: &str, size: Option<u64>) -> ProgressBar {
        let bar = match size {
            Some(size) => ProgressBar::new(size)
                .with_style(style("{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}")),
            None => ProgressBar::no_length()
                .with_style(style("{spinner} {msg} {bytes} {bytes_per_sec}")),
        };
        bar.set_message(name.to_owned());
        self.bars.add(bar)
    }

    /// Creates a display that never draws, for machine-readable output.
    pub(crate) fn silent() -> Self {
        let display = Self::new();
        display.bars.set_draw_target(ProgressDrawTarget::hidden());
        display
    }
}

fn style(template: &str) -> ProgressStyle {
    // The test `templates_are_valid` checks them all.
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    match wants_colour() {
        true => style.progress_chars("━╸─"),
        false => style.progress_chars("#>-"),
    }
}

fn steps(share: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let steps = (share.clamp(0.0, 1.0) * STEPS_FLOAT) as u64;
    steps
}

const STEPS: u64 = 10_000;
const STEPS_FLOAT: f64 = 10_000.0;
const MAX_MESSAGE_LENGTH: usize = 60;

#[cfg(test)]
mod tests {
    use indicatif::ProgressStyle;

    #[test]
    fn templates_are_valid() {
        for template in [
            "{wide_bar} {percent:>3}% {eta:>4} {msg}",
            "{spinner} {msg}",
            "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
            "{spinner} {msg} {bytes} {bytes_per_sec}",
        ] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    /// A server may report any number.
    #[test]
    fn progress_is_clamped_to_the_bar() {
        for (share, steps) in [(0.5, 5000), (-1.0, 0), (2.0, 10_000), (f64::NAN, 0)] {
            assert_eq!(super::steps(share), steps);
        }
    }
}
