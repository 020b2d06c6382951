//! The account of the context window as people read it and as programs do. Words and shapes only; it counts nothing.

use super::usage::{ContextUsage, Instructed, Share, Talk};
use ostler_proto::Json;
use serde_json::json;

/// Lines of each list that a person is shown.
const LISTED: usize = 30;
/// Squares in each direction of the picture that programs may draw.
const SQUARES: u64 = 10;
/// Tools of servers have this before their names.
const OF_SERVER: &str = "mcp__";

/// A part of the window as programs see it.
struct Category {
    name: &'static str,
    tokens: u64,
    color: &'static str,
}

impl ContextUsage {
    /// For people.
    pub fn to_text(&self) -> String {
        let budget = self.budget;
        let mut lines = vec![format!(
            "{}: {} of {} tokens ({:.1}%)",
            self.model,
            spaced(self.total),
            spaced(budget.window),
            self.percentage()
        )];
        let mut part = |name: &str, tokens: u64, shares: Vec<Share>| {
            lines.push(format!("{name:<26}{:>12}", spaced(tokens)));
            let more = shares.len().saturating_sub(LISTED);
            let listed = shares.into_iter().take(LISTED);
            lines.extend(listed.map(|share| format!("  {:<24}{:>12}", share.name, spaced(share.tokens))));
            if more > 0 {
                lines.push(format!("  and {more} more"));
            }
        };
        part("System prompt", self.system_tokens(), self.system.clone());
        part("Tools", self.tool_tokens(|_| true), largest_first(self.tools.clone()));
        part("Messages", self.talk.total(), self.talk.shares());
        part("Kept free for the answer", budget.reserve_output, Vec::new());
        part("Free", self.free(), Vec::new());
        lines.extend(self.instruction_lines());
        lines.push(match self.compacts_at {
            Some(tokens) => format!("Compacted by itself at {} tokens", spaced(tokens)),
            None => "Compacted only by /compact, or when a model refuses it as too long".to_owned(),
        });
        lines.extend(self.cache_lines());
        lines.join("\n")
    }

    fn instruction_lines(&self) -> Vec<String> {
        let line = |file: &Instructed| {
            format!("  {} ({}): {}", file.path.display(), file.scope.as_str(), spaced(file.tokens))
        };
        let head = (!self.instructions.is_empty()).then(|| "Instructions, among the messages:".to_owned());
        head.into_iter().chain(self.instructions.iter().map(line)).collect()
    }

    fn cache_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(usage) = self.charged {
            lines.push(format!(
                "Last request: {} from the cache, {} to the cache, {} beside it",
                spaced(usage.cache_read),
                spaced(usage.cache_write),
                spaced(usage.input)
            ));
        }
        if self.breaks.is_empty() && self.charged.is_some() {
            lines.push("Cache: every request extended the one before it".to_owned());
        }
        for lost in &self.breaks {
            lines.push(format!(
                "Cache lost {}: {}; {} bytes paid again, about ${:.4}",
                lost.at,
                lost.by,
                spaced(lost.bytes),
                lost.est_cost_usd
            ));
        }
        lines
    }

    /// For programs, in the fields that public SDKs document.
    pub fn to_json(&self) -> Json {
        let categories = self.categories();
        let of_server = |share: &&Share| share.name.starts_with(OF_SERVER);
        let plain = |share: &Share| json!({"name": share.name, "tokens": share.tokens});
        let server = |share: &Share| {
            let server = share.name.trim_start_matches(OF_SERVER).split("__").next();
            json!({"name": share.name, "serverName": server, "tokens": share.tokens, "isLoaded": true})
        };
        let listed: Vec<Json> = categories
            .iter()
            .map(|part| json!({"name": part.name, "tokens": part.tokens, "color": part.color}))
            .collect();
        let breaks = self.breaks.iter().map(|lost| {
            json!({
                "at": lost.at, "by": lost.by, "reason": lost.by.to_string(), "bytes": lost.bytes,
                "estCostUsd": lost.est_cost_usd,
            })
        });
        let mut account = json!({
            "categories": listed,
            "totalTokens": self.total,
            "maxTokens": self.budget.usable,
            "rawMaxTokens": self.budget.window,
            "percentage": self.percentage(),
            "gridRows": self.grid(&categories),
            "model": self.model,
            "memoryFiles": self.instructions.iter().map(memory_file).collect::<Vec<_>>(),
            "mcpTools": self.tools.iter().filter(of_server).map(server).collect::<Vec<_>>(),
            "agents": [],
            "isAutoCompactEnabled": self.compacts_at.is_some(),
            "systemTools": self.tools.iter().filter(|share| !of_server(share)).map(plain).collect::<Vec<_>>(),
            "systemPromptSections": self.system.iter().map(plain).collect::<Vec<_>>(),
            "messageBreakdown": self.talk.to_json(),
            "apiUsage": self.charged,
            "cacheBreaks": breaks.collect::<Vec<_>>(),
        });
        if let Some(tokens) = self.compacts_at {
            account["autoCompactThreshold"] = json!(tokens);
        }
        account
    }

    fn categories(&self) -> Vec<Category> {
        let of_server = |name: &str| name.starts_with(OF_SERVER);
        let all = [
            Category { name: "System prompt", tokens: self.system_tokens(), color: "gray" },
            Category {
                name: "System tools",
                tokens: self.tool_tokens(|name| !of_server(name)),
                color: "blue",
            },
            Category { name: "MCP tools", tokens: self.tool_tokens(of_server), color: "cyan" },
            Category { name: "Messages", tokens: self.talk.total(), color: "magenta" },
            Category { name: "Free space", tokens: self.free(), color: "lightgray" },
            Category { name: "Reserved for the answer", tokens: self.budget.reserve_output, color: "yellow" },
        ];
        all.into_iter().filter(|part| part.tokens > 0).collect()
    }

    /// The window as squares, each of them shown as the part that its middle lies in.
    fn grid(&self, categories: &[Category]) -> Vec<Vec<Json>> {
        let all = SQUARES * SQUARES;
        let window = self.budget.window.max(1);
        let square = |number: u64| {
            let middle = (2 * number + 1).saturating_mul(window) / (2 * all);
            let mut end = 0;
            let part = categories.iter().find(|part| {
                end += part.tokens;
                middle < end
            });
            part.map(|part| {
                json!({
                    "color": part.color, "isFilled": part.name != "Free space", "categoryName": part.name,
                    "tokens": part.tokens, "percentage": part.tokens.saturating_mul(100) / window,
                    "squareFullness": 1.0,
                })
            })
        };
        (0..SQUARES)
            .map(|row| (0..SQUARES).filter_map(|column| square(row * SQUARES + column)).collect())
            .collect()
    }
}

impl Talk {
    fn shares(&self) -> Vec<Share> {
        let share = |name: String, tokens: u64| Share { name, tokens };
        let kinds = [
            ("user", self.user),
            ("notes", self.notes),
            ("attachments", self.attachments),
            ("assistant", self.assistant),
            ("thinking", self.thinking),
        ];
        let kinds = kinds.into_iter().map(|(name, tokens)| share(name.to_owned(), tokens));
        let calls = self.calls.iter().map(|(tool, tokens)| share(format!("calls of {tool}"), *tokens));
        let results = self.results.iter().map(|(tool, tokens)| share(format!("results of {tool}"), *tokens));
        kinds.chain(calls).chain(results).filter(|share| share.tokens > 0).collect()
    }

    fn to_json(&self) -> Json {
        let of = |list: &std::collections::BTreeMap<String, u64>, tool: &String| {
            list.get(tool).copied().unwrap_or_default()
        };
        let mut tools: Vec<&String> = self.calls.keys().chain(self.results.keys()).collect();
        tools.sort();
        tools.dedup();
        let by_type = tools.into_iter().map(|tool| {
            json!({
                "name": tool, "callTokens": of(&self.calls, tool), "resultTokens": of(&self.results, tool),
            })
        });
        json!({
            "userMessageTokens": self.user,
            "assistantMessageTokens": self.assistant,
            "thinkingTokens": self.thinking,
            "reminderTokens": self.notes,
            "attachmentTokens": self.attachments,
            "toolCallTokens": self.calls.values().sum::<u64>(),
            "toolResultTokens": self.results.values().sum::<u64>(),
            "toolCallsByType": by_type.collect::<Vec<_>>(),
            "attachmentsByType": [],
        })
    }
}

fn memory_file(file: &Instructed) -> Json {
    json!({"path": file.path, "type": file.scope.as_str(), "tokens": file.tokens})
}

fn largest_first(mut shares: Vec<Share>) -> Vec<Share> {
    shares.sort_by_key(|share| std::cmp::Reverse(share.tokens));
    shares
}

/// A number with its thousands apart.
fn spaced(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{context::Budget, session::Lost};
    use ostler_proto::{CacheBreak, InstructionScope, Usage};

    fn usage() -> ContextUsage {
        ContextUsage {
            model: "m".to_owned(),
            budget: Budget { window: 1_000, reserve_output: 200, usable: 800 },
            total: 300,
            system: vec![Share { name: "Character".to_owned(), tokens: 100 }],
            tools: vec![
                Share { name: "Read".to_owned(), tokens: 40 },
                Share { name: "mcp__docs__find".to_owned(), tokens: 60 },
            ],
            talk: Talk { user: 100, ..Talk::default() },
            charged: Some(Usage { input: 4, output: 50, cache_write: 1_000, cache_read: 20_000 }),
            breaks: vec![Lost {
                at: "2026-11-16T10:00:00.000Z".to_owned(),
                by: CacheBreak::SystemChanged,
                bytes: 43_210,
                est_cost_usd: 0.1234,
            }],
            instructions: vec![Instructed {
                path: "/p/AGENTS.md".into(),
                scope: InstructionScope::Project,
                tokens: 30,
            }],
            compacts_at: Some(700),
        }
    }

    #[test]
    fn a_person_reads_parts_and_their_sums() {
        insta::assert_snapshot!(usage().to_text(), @"
        m: 300 of 1,000 tokens (30.0%)
        System prompt                      100
          Character                        100
        Tools                              100
          mcp__docs__find                   60
          Read                              40
        Messages                           100
          user                             100
        Kept free for the answer           200
        Free                               500
        Instructions, among the messages:
          /p/AGENTS.md (Project): 30
        Compacted by itself at 700 tokens
        Last request: 20,000 from the cache, 1,000 to the cache, 4 beside it
        Cache lost 2026-11-16T10:00:00.000Z: the system prompt changed; 43,210 bytes paid again, about $0.1234
        ");
    }

    #[test]
    fn a_program_gets_the_whole_window_in_squares() {
        let json = usage().to_json();
        let squares: Vec<&Json> =
            json["gridRows"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap()).collect();
        assert_eq!(squares.len(), 100);
        let count = |name: &str| squares.iter().filter(|square| square["categoryName"] == name).count();
        assert_eq!((count("System prompt"), count("System tools"), count("MCP tools")), (10, 4, 6));
        assert_eq!((count("Messages"), count("Free space"), count("Reserved for the answer")), (10, 50, 20));
        assert_eq!(json["mcpTools"][0]["serverName"], "docs");
        let file = json!({"path": "/p/AGENTS.md", "type": "Project", "tokens": 30});
        assert_eq!(json["memoryFiles"], json!([file]));
        assert_eq!(
            (&json["isAutoCompactEnabled"], &json["autoCompactThreshold"]),
            (&json!(true), &json!(700))
        );
        let never = ContextUsage { compacts_at: None, ..usage() }.to_json();
        assert_eq!(never["isAutoCompactEnabled"], false);
        assert!(never.get("autoCompactThreshold").is_none());
    }

    #[test]
    fn thousands_are_apart() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(spaced), ["0", "999", "1,000", "1,234,567"]);
    }
}
