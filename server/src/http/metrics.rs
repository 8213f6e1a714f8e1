//! Counts what happens over HTTP, and writes these counts as metrics.
//!
//! Not here: all other metrics (`monitoring`), and their text (`prometheus`).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use hyper::{Method, Request, StatusCode};

use super::prometheus::Page;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Get,
    Put,
    Delete,
    Range,
    Position,
    Other,
}

impl Kind {
    const ALL: [Kind; 6] = [Kind::Get, Kind::Put, Kind::Delete, Kind::Range, Kind::Position, Kind::Other];

    fn name(self) -> &'static str {
        match self {
            Kind::Get => "get",
            Kind::Put => "put",
            Kind::Delete => "delete",
            Kind::Range => "range",
            Kind::Position => "position",
            Kind::Other => "other",
        }
    }

    pub(super) fn of<B>(request: &Request<B>) -> Kind {
        match (request.uri().path(), request.method()) {
            ("/v0/entity", &Method::GET | &Method::HEAD) => Kind::Get,
            ("/v0/entity", &Method::PUT) => Kind::Put,
            ("/v0/entity", &Method::DELETE) => Kind::Delete,
            ("/v0/entities", &Method::GET | &Method::HEAD) => Kind::Range,
            ("/v0/count" | "/v0/rank" | "/v0/nth", &Method::GET | &Method::HEAD) => Kind::Position,
            _ => Kind::Other,
        }
    }
}

const METHODS: [&str; 5] = ["GET", "HEAD", "PUT", "DELETE", "other"];
/// The last stands for any other.
const STATUSES: [u16; 20] =
    [200, 201, 202, 304, 400, 401, 403, 404, 405, 409, 411, 412, 413, 431, 500, 501, 503, 504, 507, 0];

/// Upper ends of the classes of latencies, in microseconds.
const CLASSES_US: [u64; 15] =
    [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 10_000_000];

/// Latencies of one kind of request.
#[derive(Debug, Default)]
struct Histogram {
    /// The last is for what took longer.
    counts: [AtomicU64; CLASSES_US.len() + 1],
    sum_ns: AtomicU64,
}

impl Histogram {
    fn note(&self, took: Duration) {
        let micros = took.as_micros() as u64;
        let class = CLASSES_US.partition_point(|&end| end < micros);
        self.counts[class].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    fn write(&self, page: &mut Page, name: &str, label: &str) {
        let mut count = 0;
        for (class, end) in self.counts.iter().zip(CLASSES_US.iter().map(Some).chain([None])) {
            count += class.load(Ordering::Relaxed);
            let end = end.map_or("+Inf".to_owned(), |micros| (*micros as f64 / 1e6).to_string());
            page.line(&format!("{name}_bucket"), &format!("{label},le=\"{end}\""), count as f64);
        }
        page.line(&format!("{name}_sum"), label, self.sum_ns.load(Ordering::Relaxed) as f64 / 1e9);
        page.line(&format!("{name}_count"), label, count as f64);
    }
}

/// The counters.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    requests: [[AtomicU64; STATUSES.len()]; METHODS.len()],
    latencies: [Histogram; Kind::ALL.len()],
    commits: AtomicU64,
    writes: AtomicU64,
    /// Connections there are.
    pub(super) connections: AtomicUsize,
    /// Connections there were.
    pub(super) connections_accepted: AtomicU64,
    /// Connections that were over the limit.
    pub(super) connections_refused: AtomicU64,
}

impl Metrics {
    /// Notes a request and its answer. The time is that to the start of the answer.
    pub(super) fn note_request(&self, kind: Kind, method: &Method, status: StatusCode, took: Duration) {
        let method = METHODS.iter().position(|known| *known == method.as_str()).unwrap_or(METHODS.len() - 1);
        let status = STATUSES.iter().position(|known| *known == status.as_u16()).unwrap_or(STATUSES.len() - 1);
        self.requests[method][status].fetch_add(1, Ordering::Relaxed);
        self.latencies[kind as usize].note(took);
    }

    /// Notes a commit of so many writes.
    pub(super) fn note_commit(&self, writes: u64) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.writes.fetch_add(writes, Ordering::Relaxed);
    }

    pub(super) fn write(&self, page: &mut Page) {
        page.head("quipu_http_requests_total", "counter", "Requests answered.");
        for (method, counts) in METHODS.iter().zip(&self.requests) {
            for (status, count) in STATUSES.iter().zip(counts) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let status = if *status == 0 { "other".to_owned() } else { status.to_string() };
                    let label = format!("method=\"{method}\",status=\"{status}\"");
                    page.line("quipu_http_requests_total", &label, count as f64);
                }
            }
        }
        let name = "quipu_http_request_seconds";
        page.head(name, "histogram", "Time from a request's head to the start of its answer.");
        for (kind, histogram) in Kind::ALL.into_iter().zip(&self.latencies) {
            histogram.write(page, name, &format!("request=\"{}\"", kind.name()));
        }
        page.counter("quipu_http_commits_total", "Commits of writes over HTTP.", self.commits.load(Ordering::Relaxed));
        page.counter("quipu_http_writes_total", "Writes in them.", self.writes.load(Ordering::Relaxed));
        let connections = self.connections.load(Ordering::Relaxed);
        page.gauge("quipu_http_connections", "Connections there are.", connections as f64);
        let accepted = self.connections_accepted.load(Ordering::Relaxed);
        page.counter("quipu_http_connections_accepted_total", "Connections there were.", accepted);
        let refused = self.connections_refused.load(Ordering::Relaxed);
        page.counter("quipu_http_connections_refused_total", "Connections over the limit.", refused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_cumulative() {
        let metrics = Metrics::default();
        for (kind, micros) in
            [(Kind::Get, 10), (Kind::Get, 50), (Kind::Get, 51), (Kind::Get, 60_000_000), (Kind::Put, 900)]
        {
            metrics.note_request(kind, &Method::GET, StatusCode::OK, Duration::from_micros(micros));
        }
        metrics.note_request(Kind::Other, &Method::PATCH, StatusCode::IM_A_TEAPOT, Duration::ZERO);
        let mut page = Page::default();
        metrics.write(&mut page);
        for line in [
            "quipu_http_requests_total{method=\"GET\",status=\"200\"} 5",
            "quipu_http_requests_total{method=\"other\",status=\"other\"} 1",
            "quipu_http_request_seconds_bucket{request=\"get\",le=\"0.00005\"} 2",
            "quipu_http_request_seconds_bucket{request=\"get\",le=\"0.0001\"} 3",
            "quipu_http_request_seconds_bucket{request=\"get\",le=\"10\"} 3",
            "quipu_http_request_seconds_bucket{request=\"get\",le=\"+Inf\"} 4",
            "quipu_http_request_seconds_count{request=\"get\"} 4",
            "quipu_http_request_seconds_sum{request=\"put\"} 0.0009",
        ] {
            assert!(page.text.lines().any(|known| known == line), "{line} is not in\n{}", page.text);
        }
    }
}
