//! The result of a run: as a table, as JSON, and beside a former one.

use mooncake_client::SOFTWARE_VERSION;
use serde::{Deserialize, Serialize};

use super::row::Row;
use crate::version::COMMIT;

const HEADS: [&str; 7] = ["", "length", "at once", "median us", "p99 us", "objects/s", "MB/s"];

/// All figures of a run, and what they are of.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Report {
    pool: String,
    version: String,
    commit: String,
    rows: Vec<Row>,
}

impl Report {
    pub(super) fn new(master: String, rows: Vec<Row>) -> Self {
        let pool = mooncake_types::without_password(&master);
        Self { pool, version: SOFTWARE_VERSION.to_owned(), commit: COMMIT.to_owned(), rows }
    }

    pub(super) fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    pub(super) fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("plain data is JSON")
    }

    /// A table of the rows. If there is a former report, a last column says how many more objects a second there are
    /// than then.
    pub(super) fn table(&self, before: Option<&Self>) -> String {
        let mut rows: Vec<Vec<String>> = vec![HEADS.map(str::to_owned).to_vec()];
        rows.extend(self.rows.iter().map(|row| row.cells().to_vec()));
        if let Some(before) = before {
            rows[0].push(format!("than {}", before.commit));
            for (cells, row) in rows[1..].iter_mut().zip(&self.rows) {
                cells.push(change(row, before));
            }
        }
        aligned(&rows)
    }
}

/// The change of objects per second since the former report.
fn change(row: &Row, before: &Report) -> String {
    match before.rows.iter().find(|other| other.is_like(row)) {
        Some(other) if other.objects_per_second > 0.0 => {
            let percent = (row.objects_per_second / other.objects_per_second - 1.0) * 100.0;
            format!("{percent:+.1} %")
        }
        _ => "-".to_owned(),
    }
}

/// Rows of the same length, the first column at the left and the others at the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("  {cell:>width$}"),
        });
        text += cells.collect::<String>().trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(commit: &str, speed: f64) -> Report {
        let row = |operation: &str, len_bytes, objects_per_second| Row {
            operation: operation.to_owned(),
            len_bytes,
            at_once: 1,
            calls: 3,
            median_us: 12.5,
            p99_us: 100.0,
            objects_per_second,
        };
        let (pool, version) = ("m:1".to_owned(), "1.2.3".to_owned());
        let rows = vec![row("put", Some(4096), speed), row("exists", None, 2.0 * speed)];
        Report { pool, version, commit: commit.to_owned(), rows }
    }

    #[test]
    fn a_table_compares_with_a_former_run() {
        let now = report("new", 10_000.0);
        let mut before = report("old", 8_000.0);
        before.rows.truncate(1);
        let expected = "        length  at once  median us  p99 us  objects/s  MB/s  than old
put       4 KB        1       12.5   100.0      10000    41   +25.0 %
exists       -        1       12.5   100.0      20000     -         -
";
        assert_eq!(now.table(Some(&before)), expected);
        let alone = now.table(None);
        assert!(
            alone.starts_with("        length  at once  median us  p99 us  objects/s  MB/s\nput "),
            "{alone}"
        );
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let report = report("new", 10.0);
        assert_eq!(Report::read(&report.to_json().to_string()).expect("JSON"), report);
        assert!(Report::read("{}").is_err() && Report::read("").is_err());
    }
}
