//! `/cost`: what was used in this conversation by model and by who asked, what the whole run and the whole session
//! came to, and what calls took by tool.

use super::{Builtin, Outcome};
use crate::agent::Agent;
use ostler_proto::{Usage, envelope::ToolSpend};

pub(super) const COST: Builtin = Builtin {
    name: "cost",
    argument_hint: "",
    description: "Show tokens and dollars spent, by model, by agent and by tool",
    run: |agent, _| Box::pin(async move { Ok(Outcome::Said(bill(agent))) }),
};

fn bill(agent: &Agent) -> String {
    let ledger = &agent.ledger;
    let (now, run) = (ledger.total_usd(), ledger.run_usd());
    let mut lines = vec![format!("Total: ${now:.4}")];
    let by_model = ledger.by_model.iter().map(|(model, spend)| (model.clone(), spend.usage, spend.cost_usd));
    let by_agent =
        ledger.by_agent.iter().map(|(name, spend)| (format!("agent {name}"), spend.usage, spend.cost_usd));
    lines.extend(by_model.chain(by_agent).map(|(name, usage, usd)| share_line(&name, usage, usd)));
    if run > now {
        lines.push(format!("This run, with conversations before /clear: ${run:.4}"));
    }
    let spent = &agent.parts.session.state().spent;
    if spent.usd > now {
        lines.push(format!("Whole session: ${:.4}, {} tokens of all kinds", spent.usd, spent.tokens));
    }
    lines.extend(spent.by_tool.iter().map(|(tool, spend)| tool_line(tool, *spend)));
    lines.join("\n")
}

fn share_line(name: &str, usage: Usage, usd: f64) -> String {
    format!(
        "{name}: ${usd:.4} ({} in, {} out, {} from cache, {} to cache)",
        usage.input, usage.output, usage.cache_read, usage.cache_write
    )
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
