//! What a process has spent so far, by model.

use ostler_proto::{ModelRow, Usage, envelope::ModelSpend};
use std::collections::BTreeMap;

/// Running totals.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) by_model: BTreeMap<String, ModelSpend>,
}

impl Ledger {
    /// Books one answer and returns its price in US dollars.
    pub(crate) fn book(&mut self, model: &str, row: &ModelRow, usage: Usage) -> f64 {
        let cost = row.price.cost(usage);
        let spend = self.by_model.entry(model.to_owned()).or_default();
        spend.usage.add(usage);
        spend.cost_usd += cost;
        spend.context_window = row.context_window;
        spend.max_output_tokens = row.max_output_tokens;
        cost
    }

    /// US dollars in all.
    pub(crate) fn total_usd(&self) -> f64 {
        self.by_model.values().map(|spend| spend.cost_usd).sum()
    }
}
