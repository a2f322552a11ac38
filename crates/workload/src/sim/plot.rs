//! The results as an SVG: hits by pool size, one line for each policy. It is readable on light and dark pages.

use std::fmt::Write;

use super::run::{Comparison, Row};
use super::table::size;

const WIDTH: f64 = 680.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 62.0;
/// Colours that colour-blind people can tell apart.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
const STYLE: &str = "text { font: 12px system-ui, sans-serif; fill: #24292f; } .title { font-size: 15px; font-weight: 600; } \
    .tick { font-size: 11px; fill: #57606a; } .grid { stroke: #d0d7de; } .line { fill: none; stroke-width: 2; } \
    .limit { stroke: #57606a; stroke-dasharray: 5 4; } @media (prefers-color-scheme: dark) { text { fill: #e6edf3; } \
    .tick { fill: #9da7b3; } .grid { stroke: #30363d; } .limit { stroke: #8b949e; } }";

/// Maps values to positions in the image.
struct Axes {
    /// The logarithms of the smallest and the largest pool.
    pools: (f64, f64),
    /// The highest hit ratio on the axis, in percent.
    top: f64,
    /// The distance between grid lines, in percent.
    step: f64,
}

impl Axes {
    fn new(comparison: &Comparison) -> Self {
        let log = |row: Option<&Row>| row.map_or(0.0, |row| (row.bytes as f64).ln());
        let (least, greatest) = (log(comparison.rows.first()), log(comparison.rows.last()));
        let most = comparison.percent(comparison.possible_hits).max(1.0);
        let steps = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0];
        let step = steps.into_iter().find(|step| most / step <= 6.0).unwrap_or(25.0);
        let top = (most / step).ceil() * step;
        // A single pool is drawn in the middle.
        let spread = if greatest > least { 0.0 } else { 1.0 };
        Self { pools: (least - spread, greatest + spread), top, step }
    }

    fn x(&self, bytes: u64) -> f64 {
        let (least, greatest) = self.pools;
        LEFT + ((bytes as f64).ln() - least) / (greatest - least) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, percent: f64) -> f64 {
        HEIGHT - BOTTOM - percent / self.top * (HEIGHT - TOP - BOTTOM)
    }
}

/// The text of the SVG file.
pub(super) fn plot(comparison: &Comparison) -> String {
    let axes = Axes::new(comparison);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         role=\"img\">\n<style>{STYLE}</style>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"22\">Hits in % of all blocks, by the size of the pool</text>\n"
    );
    draw_grid(&mut svg, comparison, &axes);
    let names = comparison.policies.iter().map(|policy| policy.name());
    for (at, name) in names.chain(["optimum"]).enumerate() {
        let hits = |row: &Row| row.tallies.get(at).map_or(row.best_hits, |tally| tally.hits);
        let points = comparison
            .rows
            .iter()
            .map(|row| (axes.x(row.bytes), axes.y(comparison.percent(hits(row)))));
        draw_line(&mut svg, (at, name), &points.collect::<Vec<_>>());
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw_grid(svg: &mut String, comparison: &Comparison, axes: &Axes) {
    let right = WIDTH - RIGHT;
    let lines = (axes.top / axes.step).round() as usize;
    for line in 0..=lines {
        let percent = line as f64 * axes.step;
        let y = axes.y(percent);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{percent}</text>",
            LEFT - 8.0,
            y + 4.0
        );
    }
    let y = axes.y(comparison.percent(comparison.possible_hits));
    let _ = writeln!(
        svg,
        "<line class=\"limit\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>"
    );
    for row in &comparison.rows {
        let (x, share) =
            (axes.x(row.bytes), row.room as f64 * 100.0 / comparison.distinct_blocks as f64);
        let labels = [size(row.bytes), format!("{share:.1} %")];
        for (label, y) in labels.iter().zip([HEIGHT - BOTTOM + 18.0, HEIGHT - BOTTOM + 34.0]) {
            let _ = writeln!(
                svg,
                "<text class=\"tick\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{label}</text>"
            );
        }
    }
    let _ = writeln!(
        svg,
        "<text class=\"tick\" x=\"{LEFT}\" y=\"{}\">memory of the pool, and its share of the distinct blocks; dashed: a pool that \
         never evicts</text>",
        HEIGHT - 8.0
    );
}

fn draw_line(svg: &mut String, (number, name): (usize, &str), points: &[(f64, f64)]) {
    let colour = COLOURS[number % COLOURS.len()];
    let path: String = points.iter().map(|(x, y)| format!("{x:.1},{y:.1} ")).collect();
    let _ = writeln!(
        svg,
        "<polyline class=\"line\" stroke=\"{colour}\" points=\"{}\"/>",
        path.trim_end()
    );
    for (x, y) in points {
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
    }
    let x = LEFT + number as f64 * 104.0;
    let _ = writeln!(
        svg,
        "<circle cx=\"{:.1}\" cy=\"40\" r=\"5\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"44\">{name}</text>",
        x + 5.0,
        x + 15.0
    );
}
