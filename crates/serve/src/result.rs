//! How a turn ended, in the words of each audience: the result object, the exit code, one line for people.

use ostler_proto::{
    Denial, EntryId, Json, Limit, Round, SessionId, TurnEnd, TurnOutcome, Usage, Why,
    envelope::{AgentSpend, ModelSpend, ToolSpend},
};
use serde_json::json;
use uuid::Uuid;

/// The one result object of a turn.
pub(crate) fn result(end: &TurnEnd, session: &SessionId, prompt: Option<&EntryId>) -> Json {
    let outcome = &end.outcome;
    let mut frame = json!({
        "type": "result",
        "subtype": subtype(outcome),
        "is_error": !matches!(outcome, TurnOutcome::Completed | TurnOutcome::HookStopped { .. }),
        "duration_ms": end.duration_ms,
        "duration_api_ms": end.api_ms,
        "num_turns": end.round_trips,
    });
    match outcome {
        TurnOutcome::Completed => frame["result"] = json!(end.text),
        TurnOutcome::HookStopped { reason } => {
            frame["result"] = json!(end.text);
            frame["hook_stop_reason"] = json!(reason);
        }
        TurnOutcome::ApiError { status, message, .. } | TurnOutcome::PromptTooLong { status, message } => {
            frame["result"] = json!(api_error(*status, message));
            frame["api_error_status"] = json!(status);
        }
        TurnOutcome::MaxTurns { .. }
        | TurnOutcome::BudgetExhausted { .. }
        | TurnOutcome::Interrupted { .. }
        | TurnOutcome::Failed { .. } => frame["errors"] = json!(problem(outcome).as_slice()),
    }
    frame["stop_reason"] = json!(end.stop);
    frame["session_id"] = json!(session);
    frame["uuid"] = json!(Uuid::new_v4().to_string());
    frame["total_cost_usd"] = json!(end.cost_usd);
    frame["usage"] = usage_in_full(end.usage);
    frame["modelUsage"] =
        end.by_model.iter().map(|(model, spend)| (model.clone(), model_usage(spend))).collect();
    frame["agentUsage"] =
        end.by_agent.iter().map(|(name, spend)| (name.clone(), agent_usage(spend))).collect();
    frame["toolUsage"] = end.by_tool.iter().map(|(tool, spend)| (tool.clone(), tool_usage(*spend))).collect();
    frame["permission_denials"] = end
        .denials
        .iter()
        .map(|denial| {
            json!({"tool_name": denial.tool, "tool_use_id": denial.call, "tool_input": denial.input})
        })
        .collect();
    frame["terminal_reason"] = json!(terminal_reason(outcome));
    if !end.stopped_jobs.is_empty() {
        frame["background_tasks_stopped"] = end
            .stopped_jobs
            .iter()
            .map(|job| {
                json!({"task_id": job.id.0, "task_type": "local_bash", "description": job.description,
                    "command": job.command})
            })
            .collect();
    }
    if let Some(prompt) = prompt {
        frame["user_message_uuid"] = json!(prompt);
    }
    frame
}

/// What the process exits with after this outcome.
pub(crate) fn exit_code(outcome: &TurnOutcome) -> u8 {
    match outcome {
        // Whoever set the hook up wanted it so: nothing went wrong.
        TurnOutcome::Completed | TurnOutcome::HookStopped { .. } | TurnOutcome::Interrupted { .. } => 0,
        TurnOutcome::MaxTurns { .. }
        | TurnOutcome::BudgetExhausted { .. }
        | TurnOutcome::ApiError { .. }
        | TurnOutcome::PromptTooLong { .. }
        | TurnOutcome::Failed { .. } => 1,
    }
}

/// Why the turn did not simply end.
pub(crate) fn problem(outcome: &TurnOutcome) -> Option<String> {
    match outcome {
        TurnOutcome::Completed => None,
        TurnOutcome::MaxTurns { limit } => Some(format!("Reached maximum number of turns ({limit})")),
        TurnOutcome::BudgetExhausted { limit } => Some(match limit {
            Limit::Usd(dollars) => format!("Reached maximum budget (${dollars})"),
            Limit::Tokens(tokens) => format!("Reached maximum budget ({tokens} tokens)"),
            Limit::Seconds(seconds) => format!("Reached maximum budget ({seconds} seconds)"),
            Limit::Calls(calls) => format!("Reached maximum budget ({calls} tool calls)"),
        }),
        TurnOutcome::Interrupted { .. } => Some("Interrupted by the user".to_owned()),
        TurnOutcome::HookStopped { reason } => Some(format!("stopped by a hook: {reason}")),
        TurnOutcome::ApiError { status, message, .. } | TurnOutcome::PromptTooLong { status, message } => {
            Some(api_error(*status, message))
        }
        TurnOutcome::Failed { message } => Some(message.clone()),
    }
}

/// Says that calls were refused: an answer may rest on work that was not done.
pub(crate) fn refused(denials: &[Denial]) -> Option<String> {
    let mut tools: Vec<&str> = denials.iter().map(|denial| denial.tool.as_str()).collect();
    tools.sort_unstable();
    tools.dedup();
    let calls = match denials.len() {
        0 => return None,
        1 => "1 call was".to_owned(),
        many => format!("{many} calls were"),
    };
    Some(format!("{calls} not allowed ({}); --verbose says why, --allowedTools allows", tools.join(", ")))
}

/// Why the model is asked again, where nothing else tells.
pub(crate) fn again(round: Round) -> Option<String> {
    match round.why {
        Why::OutputLimit => Some(format!("the answer hit the output limit and goes on ({})", round.times)),
        Why::Pause => Some(format!("the server paused its answer and is asked to go on ({})", round.times)),
        Why::Refusal => Some("the model would not answer and is asked once more".to_owned()),
        Why::Closing => {
            Some("the budget is nearly used up; the model is asked for a closing word".to_owned())
        }
        Why::Prompt
        | Why::Results
        | Why::Retry
        | Why::Fallback
        | Why::StopHook
        | Why::Queue
        | Why::Compaction => None,
    }
}

/// The words for a request the model API would not answer.
pub(crate) fn api_error(status: Option<u16>, message: &str) -> String {
    match status {
        Some(status) => format!("API Error: {status} {message}"),
        None => format!("API Error: {message}"),
    }
}

fn subtype(outcome: &TurnOutcome) -> &'static str {
    match outcome {
        // An API failure is a success with `is_error`: the run worked, the answer is the error.
        TurnOutcome::Completed
        | TurnOutcome::HookStopped { .. }
        | TurnOutcome::ApiError { .. }
        | TurnOutcome::PromptTooLong { .. } => "success",
        TurnOutcome::MaxTurns { .. } => "error_max_turns",
        TurnOutcome::BudgetExhausted { .. } => "error_max_budget_usd",
        TurnOutcome::Interrupted { .. } | TurnOutcome::Failed { .. } => "error_during_execution",
    }
}

fn terminal_reason(outcome: &TurnOutcome) -> &'static str {
    match outcome {
        TurnOutcome::Completed => "completed",
        TurnOutcome::HookStopped { .. } => "hook_stopped",
        TurnOutcome::ApiError { .. } => "api_error",
        TurnOutcome::PromptTooLong { .. } => "prompt_too_long",
        TurnOutcome::MaxTurns { .. } => "max_turns",
        TurnOutcome::BudgetExhausted { .. } => "budget_exhausted",
        TurnOutcome::Interrupted { during_tools: true } => "aborted_tools",
        TurnOutcome::Interrupted { during_tools: false } => "aborted_streaming",
        TurnOutcome::Failed { .. } => "failed",
    }
}

fn usage_in_full(usage: Usage) -> Json {
    let mut full = json!(usage);
    full["server_tool_use"] = json!({"web_search_requests": 0, "web_fetch_requests": 0});
    full["service_tier"] = json!("standard");
    full["cache_creation"] =
        json!({"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": usage.cache_write});
    full
}

fn agent_usage(spend: &AgentSpend) -> Json {
    json!({
        "inputTokens": spend.usage.input,
        "outputTokens": spend.usage.output,
        "cacheReadInputTokens": spend.usage.cache_read,
        "cacheCreationInputTokens": spend.usage.cache_write,
        "costUSD": spend.cost_usd,
    })
}

fn tool_usage(spend: ToolSpend) -> Json {
    json!({
        "calls": spend.calls,
        "failed": spend.failed,
        "durationMs": spend.ran_ms,
        "resultBytes": spend.bytes,
    })
}

fn model_usage(spend: &ModelSpend) -> Json {
    json!({
        "inputTokens": spend.usage.input,
        "outputTokens": spend.usage.output,
        "cacheReadInputTokens": spend.usage.cache_read,
        "cacheCreationInputTokens": spend.usage.cache_write,
        "webSearchRequests": 0,
        "costUSD": spend.cost_usd,
        "contextWindow": spend.context_window,
        "maxOutputTokens": spend.max_output_tokens,
    })
}
