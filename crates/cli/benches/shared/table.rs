//! What a benchmark reports: samples in, one aligned table out.
//! It judges numbers against their targets and never fails a run because of them.

use std::{io::Write as _, time::Duration};

/// Measurements of one thing.
#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Adds a time, in milliseconds.
    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64() * 1e3);
    }

    /// The value below which this share of the measurements lies: 0 is the least, 0.5 the median.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        let before = (0..=last).take_while(|&index| to_f64(index) <= share * to_f64(last)).count();
        sorted.get(before.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }
}

/// One line of the table. Targets are the most that is still good; a line without one only informs.
#[derive(Debug, Default)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    /// What the same thing costs without us, measured in the same run.
    pub(crate) floor: Option<f64>,
    pub(crate) at_most: Option<f64>,
    /// As a multiple of the floor.
    pub(crate) at_most_floors: Option<f64>,
}

/// The first number among the program's arguments: how often to measure. Cargo's own flags are no numbers.
pub(crate) fn repeats(default: usize) -> usize {
    std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(default)
}

/// Writes the table.
pub(crate) fn print(title: &str, rows: &[Row]) -> anyhow::Result<()> {
    let head = ["what", "ours", "floor", "ratio", "target", ""].map(str::to_owned);
    let lines: Vec<[String; 6]> = std::iter::once(head).chain(rows.iter().map(Row::cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let mut out = std::io::stdout().lock();
    writeln!(out, "{title}")?;
    for line in &lines {
        write!(out, "  {:<1$}", line[0], width(0))?;
        for (column, cell) in line.iter().enumerate().skip(1) {
            write!(out, "  {cell:>0$}", width(column))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

impl Row {
    fn cells(&self) -> [String; 6] {
        let ratio = self.floor.map(|floor| self.ours / floor);
        let targets = [
            self.at_most.map(|most| format!("<= {}", amount(most, self.unit))),
            self.at_most_floors.map(|most| format!("<= {most:.2} x")),
        ];
        let too_much = self.at_most.is_some_and(|most| self.ours > most);
        let too_slow = self.at_most_floors.is_some_and(|most| ratio.is_none_or(|ratio| ratio > most));
        let verdict = match (targets.iter().any(Option::is_some), too_much || too_slow) {
            (false, _) => "",
            (true, false) => "ok",
            (true, true) => "missed",
        };
        [
            self.what.clone(),
            amount(self.ours, self.unit),
            self.floor.map(|floor| amount(floor, self.unit)).unwrap_or_default(),
            ratio.map(|ratio| format!("{ratio:.2} x")).unwrap_or_default(),
            targets.into_iter().flatten().collect::<Vec<_>>().join(", "),
            verdict.to_owned(),
        ]
    }
}

fn amount(value: f64, unit: &str) -> String {
    if unit == "B" { format!("{value:.0} B") } else { format!("{value:.2} {unit}") }
}

fn to_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
