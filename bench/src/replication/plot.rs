//! Latencies by percentile, as SVG: the scale of HdrHistogram, on which each further nine is as wide as the one before.

use std::path::Path;

use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::Operation;
use crate::latencies::Latencies;
use crate::store::Result;

const SIZE: (u32, u32) = (1160, 600);
/// Width of what is right of the curves: their names.
const NAMES_WIDTH: u32 = 280;
/// Where percentiles are written: at 1 / (1 - percentile), on a logarithmic scale.
const TICKS: [(f64, &str); 5] = [(2.0, "50 %"), (10.0, "90 %"), (100.0, "99 %"), (1e3, "99.9 %"), (1e4, "99.99 %")];
const LEFT: f64 = TICKS[0].0;
const RIGHT: f64 = TICKS[TICKS.len() - 1].0;
/// How many times as far right each point of a curve is as the one before.
const STEP: f64 = 1.05;
/// Colours that the colour-blind can tell apart (Okabe and Ito), one for each server.
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(130, 130, 130)];

/// One line of a plot.
pub(crate) struct Curve {
    pub(crate) name: String,
    /// Lines of one server have one colour.
    pub(crate) colour: usize,
    /// Writes are drawn through, reads dashed.
    pub(crate) operation: Operation,
    /// Values of 1 / (1 - percentile), and milliseconds.
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// As far as there are enough samples for a percentile.
    pub(crate) fn of(name: String, colour: usize, operation: Operation, latencies: &Latencies) -> Self {
        let end = (latencies.count() as f64).min(RIGHT);
        let places = std::iter::successors(Some(LEFT), |place| Some(place * STEP)).take_while(|place| *place <= end);
        let point = |place: f64| (place, latencies.nanos_at(1.0 - 1.0 / place) / 1e6);
        Curve { name, colour, operation, points: places.map(point).collect() }
    }

    /// Through p50, p99 and p99.9, in milliseconds.
    pub(crate) fn through(name: String, colour: usize, operation: Operation, [p50, p99, p999]: [f64; 3]) -> Self {
        Curve { name, colour, operation, points: vec![(2.0, p50), (100.0, p99), (1e3, p999)] }
    }
}

/// Writes a plot to `path`.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn draw(path: &Path, title: &str, curves: &[Curve]) -> Result<()> {
    let all = || curves.iter().flat_map(|curve| &curve.points).map(|point| point.1.max(1e-3));
    let (least, most) = (all().fold(f64::INFINITY, f64::min).min(1.0), all().fold(1.0, f64::max));
    // Down and up to a tick.
    let mut ticks: Vec<f64> = (-3..6).flat_map(|ten| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(ten))).collect();
    let low = ticks.iter().rev().find(|tick| **tick <= least).copied().unwrap_or(1e-3);
    let high = ticks.iter().find(|tick| **tick >= most).copied().unwrap_or(most);
    ticks.retain(|tick| (low..=high).contains(tick));

    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (left, right) = area.split_horizontally(SIZE.0 - NAMES_WIDTH);
    let mut chart = ChartBuilder::on(&left)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .margin_right(45)
        .x_label_area_size(45)
        .y_label_area_size(65)
        .build_cartesian_2d(
            (LEFT..RIGHT).log_scale().with_key_points(TICKS.map(|(place, _)| place).to_vec()),
            (low..high).log_scale().with_key_points(ticks),
        )?;
    let name_of = |place: &f64| {
        let tick = TICKS.iter().find(|(tick, _)| (tick - place).abs() < 1e-6);
        tick.map_or_else(String::new, |(_, name)| (*name).to_owned())
    };
    chart
        .configure_mesh()
        .x_desc("percentile")
        .y_desc("latency from when a request was due, ms")
        .x_label_formatter(&name_of)
        .y_label_formatter(&|ms| format!("{ms}"))
        .label_style(("sans-serif", 14))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (number, curve) in curves.iter().enumerate() {
        let style = COLOURS[curve.colour % COLOURS.len()].stroke_width(2);
        let points = curve.points.iter().map(|(place, ms)| (*place, ms.max(low)));
        let height = 60 + 24 * number as i32;
        let (start, end) = ((0, height), (30, height));
        match curve.operation {
            Operation::Put => {
                chart.draw_series(LineSeries::new(points, style))?;
                right.draw(&PathElement::new([start, end], style))?;
            }
            Operation::Get => {
                chart.draw_series(DashedLineSeries::new(points, 7, 5, style))?;
                right.draw(&DashedPathElement::new([start, end], 7, 5, style))?;
            }
        }
        right.draw(&Text::new(curve.name.clone(), (38, height - 7), ("sans-serif", 14)))?;
    }
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_ends_where_its_samples_do() {
        let mut latencies = Latencies::new();
        (1..=1_000_u64).for_each(|sample| latencies.record(sample * 1_000_000));
        let curve = Curve::of("a".to_owned(), 0, Operation::Put, &latencies);
        let (first, last) = (curve.points[0], *curve.points.last().unwrap());
        assert!((499.0..=502.0).contains(&first.1), "{first:?}");
        assert!((950.0..=1_000.0).contains(&last.0) && (990.0..=1_001.0).contains(&last.1), "{last:?}");
        assert!(Curve::of("b".to_owned(), 0, Operation::Get, &Latencies::new()).points.is_empty());
    }

    #[test]
    fn a_plot_names_its_curves_and_percentiles() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plot.svg");
        let curves = [
            Curve::through("first".to_owned(), 0, Operation::Put, [0.5, 5.0, 50.0]),
            Curve::of("second".to_owned(), 1, Operation::Get, &Latencies::new()),
        ];
        draw(&path, "title", &curves).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        for part in ["<svg", "title", "first", "second", "99.99 %", "percentile"] {
            assert!(text.contains(part), "{part}");
        }
    }
}
