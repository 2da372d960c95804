//! How far work has come, drawn on standard error.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use mcp_flow::client::Progress;

use crate::show::{neutral, wants_colour};

/// Bars for everything a command does. Draws nothing where there is no terminal.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    bars: MultiProgress,
    call: Arc<Mutex<Option<ProgressBar>>>,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self { bars: MultiProgress::new(), call: Arc::default() }
    }

    /// Shows how far the call is.
    pub(crate) fn report(&self, progress: &Progress) {
        let mut call = self.call.lock().unwrap_or_else(PoisonError::into_inner);
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
        let message: String = neutral(message).chars().take(LONGEST_MESSAGE).collect();
        bar.set_message(message.replace('\n', " "));
    }

    /// Takes the bars away, so that something else can be written.
    pub(crate) fn clear(&self) {
        let mut call = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = call.take() {
            bar.finish_and_clear();
        }
    }

    /// A bar for a download: how much, how fast, how long still.
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

    /// One that never draws, for programs.
    pub(crate) fn silent() -> Self {
        let meter = Self::new();
        meter.bars.set_draw_target(ProgressDrawTarget::hidden());
        meter
    }
}

fn style(template: &str) -> ProgressStyle {
    // Templates are our own, and `the_templates_are_sound` holds them to it.
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
const LONGEST_MESSAGE: usize = 60;

#[cfg(test)]
mod tests {
    use indicatif::ProgressStyle;

    #[test]
    fn the_templates_are_sound() {
        for template in [
            "{wide_bar} {percent:>3}% {eta:>4} {msg}",
            "{spinner} {msg}",
            "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
            "{spinner} {msg} {bytes} {bytes_per_sec}",
        ] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    /// A server may report anything.
    #[test]
    fn odd_progress_is_drawn_within_the_bar() {
        for (share, steps) in [(0.5, 5000), (-1.0, 0), (2.0, 10_000), (f64::NAN, 0)] {
            assert_eq!(super::steps(share), steps);
        }
    }
}
