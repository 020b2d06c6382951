//! `/cost`: what was used, by model since this process started, and by tool over the whole session.

use super::{Builtin, Outcome};
use crate::{agent::Agent, ledger::ToolSpend};

pub(super) const COST: Builtin = Builtin {
    name: "cost",
    argument_hint: "",
    description: "Show tokens and dollars spent, by model and by tool",
    run: |agent, _| Box::pin(async move { Ok(Outcome::Said(bill(agent))) }),
};

fn bill(agent: &Agent) -> String {
    let now = agent.ledger.total_usd();
    let mut lines = vec![format!("Total: ${now:.4}")];
    for (model, spend) in &agent.ledger.by_model {
        let usage = spend.usage;
        lines.push(format!(
            "{model}: ${:.4} ({} in, {} out, {} from cache, {} to cache)",
            spend.cost_usd, usage.input, usage.output, usage.cache_read, usage.cache_write
        ));
    }
    let spent = &agent.parts.session.state().spent;
    if spent.usd > now {
        lines.push(format!("Whole session: ${:.4}, {} tokens of all kinds", spent.usd, spent.tokens));
    }
    lines.extend(spent.by_tool.iter().map(|(tool, spend)| tool_line(tool, *spend)));
    lines.join("\n")
}

fn tool_line(tool: &str, spend: ToolSpend) -> String {
    let calls = if spend.calls == 1 { "call" } else { "calls" };
    let failed = if spend.failed == 0 { String::new() } else { format!(", {} failed", spend.failed) };
    let seconds = std::time::Duration::from_millis(spend.ran_ms).as_secs_f64();
    // Four bytes are about a token.
    format!(
        "{tool}: {} {calls}{failed}, {seconds:.1} s, about {} tokens of results",
        spend.calls,
        spend.bytes.div_ceil(4)
    )
}
