//! What a run cost, as a table for people.

use crate::clean::one_line;
use ostler_proto::{TurnEnd, Usage};
use std::collections::BTreeMap;

const HEAD: [&str; 6] = ["model", "input", "cached", "output", "cost", "time"];

/// One row for each model, a total where there are several, and how long it all took.
/// `answering` is the time each model took for its answers, in milliseconds.
pub(crate) fn table(end: &TurnEnd, answering: &BTreeMap<String, u64>) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    let mut total = Usage::default();
    for (model, spend) in &end.by_model {
        total.add(spend.usage);
        let time = answering.get(model).map_or_else(|| "–".to_owned(), |ms| seconds(*ms));
        rows.push(row(&one_line(model, 40), spend.usage, spend.cost_usd, time));
    }
    if end.by_model.len() > 1 {
        rows.push(row("total", total, end.cost_usd, seconds(answering.values().sum())));
    }
    let answers = if end.round_trips == 1 { "answer" } else { "answers" };
    let (all, waiting) = (seconds(end.duration_ms), seconds(end.api_ms));
    format!(
        "{}{} {answers} in {all}, of that {waiting} waiting for the model\n",
        aligned(&rows),
        end.round_trips
    )
}

fn row(name: &str, usage: Usage, dollars: f64, time: String) -> [String; 6] {
    let input = usage.input.saturating_add(usage.cache_write);
    [
        name.to_owned(),
        grouped(input),
        grouped(usage.cache_read),
        grouped(usage.output),
        format!("${dollars:.4}"),
        time,
    ]
}

fn aligned(rows: &[[String; 6]]) -> String {
    let mut widths = [0; 6];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut table = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        table.push_str(&cells.collect::<Vec<_>>().join("  "));
        table.push('\n');
    }
    table
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Milliseconds as people say them.
pub(crate) fn seconds(milliseconds: u64) -> String {
    format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [grouped(0), grouped(999), grouped(1000), grouped(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!([seconds(0), seconds(999), seconds(61_250)], ["0.0 s", "0.9 s", "61.2 s"]);
    }
}
