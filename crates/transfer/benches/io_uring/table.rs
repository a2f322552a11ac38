//! Medians and quartiles, as Markdown.

/// What one turn cost, for each operation.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cost {
    pub(crate) calls: f64,
    pub(crate) wall_us: f64,
    pub(crate) cpu_us: f64,
    pub(crate) client_cpu_us: f64,
}

/// One case: the costs of each variant, turn by turn. The first variant is what the others are compared with.
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) rows: Vec<(&'static str, Vec<Cost>)>,
}

impl Table {
    pub(crate) fn print(&self) {
        println!("\n{}\n", self.title);
        println!(
            "| variant | calls/op | CPU us/op | of the client | CPU, ratio | wall us/op | wall, ratio |"
        );
        println!("|---|---|---|---|---|---|---|");
        for (name, costs) in &self.rows {
            let of = |get: fn(&Cost) -> f64| quartiles(costs.iter().map(get).collect())[1];
            println!(
                "| {name} | {:.1} | {:.1} | {:.1} | {} | {:.1} | {} |",
                of(|cost| cost.calls),
                of(|cost| cost.cpu_us),
                of(|cost| cost.client_cpu_us),
                self.ratio(costs, |cost| cost.cpu_us),
                of(|cost| cost.wall_us),
                self.ratio(costs, |cost| cost.wall_us),
            );
        }
    }

    /// To the first variant, round by round: the median and the quartiles.
    fn ratio(&self, costs: &[Cost], get: fn(&Cost) -> f64) -> String {
        let pairs = costs.iter().zip(&self.rows[0].1);
        let [low, median, high] = quartiles(pairs.map(|(a, b)| get(a) / get(b)).collect());
        format!("{median:.2} ({low:.2}-{high:.2})")
    }
}

/// Prints the ratios of several cases with the same variants side by side.
pub(crate) fn print_side_by_side(tables: &[Table], what: &str, get: fn(&Cost) -> f64) {
    let Some(first) = tables.first() else { return };
    println!("\n{what}, ratio to the first row: median (quartiles)\n");
    let titles: Vec<&str> = tables.iter().map(|table| table.title.as_str()).collect();
    println!("| variant | {} |\n|{}", titles.join(" | "), "---|".repeat(tables.len() + 1));
    for (name, _) in &first.rows {
        let ratio = |table: &Table| {
            let row = table.rows.iter().find(|(other, _)| other == name);
            row.map_or("left out".to_owned(), |(_, costs)| table.ratio(costs, get))
        };
        let ratios: Vec<String> = tables.iter().map(ratio).collect();
        println!("| {name} | {} |", ratios.join(" | "));
    }
}

/// The lower quartile, the median and the upper quartile.
pub(crate) fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    [1, 2, 3].map(|quarter| values[last * quarter / 4])
}
