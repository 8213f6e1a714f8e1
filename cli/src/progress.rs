//! Progress bars, on standard error and only if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over `total_bytes` bytes.
pub(crate) fn bar(total_bytes: u64, stage: &str) -> ProgressBar {
    let bar = ProgressBar::new(total_bytes);
    let template = "{prefix:>12} [{bar:30}] {bytes}/{total_bytes}, {eta} left {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_prefix(stage.to_owned());
    bar
}

/// Follows what the engine reports of a long call: opening, checking.
#[derive(Default)]
pub(crate) struct Follower {
    /// The stage at hand and its bar.
    stage: Option<(&'static str, ProgressBar)>,
}

impl Follower {
    /// Shows one report.
    pub(crate) fn show(&mut self, progress: quipu::Progress) {
        match &self.stage {
            Some((stage, bar)) if *stage == progress.stage => {
                bar.set_length(progress.total);
                bar.set_position(progress.done);
            }
            _ => {
                self.clear();
                self.stage = Some((progress.stage, bar(progress.total, progress.stage)));
            }
        }
    }

    fn clear(&mut self) {
        if let Some((_, bar)) = self.stage.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.clear();
    }
}
