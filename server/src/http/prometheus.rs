//! The text of metrics as Prometheus reads it (version 0.0.4 of its format).
//!
//! Not here: which metrics there are (`monitoring`; of requests over HTTP: `metrics`).

use std::fmt::Write;

/// A page of metrics.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) text: String,
}

impl Page {
    /// Begins a metric.
    pub(super) fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A sample; `labels` as they stand in braces.
    pub(super) fn line(&mut self, name: &str, labels: &str, value: f64) {
        let _ = match labels {
            "" => writeln!(self.text, "{name} {value}"),
            _ => writeln!(self.text, "{name}{{{labels}}} {value}"),
        };
    }

    /// A metric of one sample.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, "gauge", help);
        self.line(name, "", value);
    }

    /// As above.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "counter", help);
        self.line(name, "", value as f64);
    }
}
