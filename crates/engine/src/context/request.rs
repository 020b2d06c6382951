//! Puts one request together. What changes least comes first and is marked for the cache at its end; nothing is
//! ever inserted before what an earlier request has sent.

use crate::spawn::Limits;
use ostler_model::Chosen;
use ostler_proto::{Message, ModelRow, Reasoning, Request, Scope, Section, SystemText, Thinking, ToolSpec};
use std::sync::Arc;

/// What a request is made of.
pub(crate) struct Ingredients<'a> {
    pub(crate) chosen: &'a Chosen,
    pub(crate) limits: &'a Limits,
    pub(crate) system: &'a [Section],
    pub(crate) tools: &'a Arc<[ToolSpec]>,
    pub(crate) messages: Vec<Arc<Message>>,
}

/// The request.
pub(crate) fn build(ingredients: Ingredients<'_>) -> Request {
    let Ingredients { chosen, limits, system, tools, messages } = ingredients;
    let row = &chosen.row;
    let wanted = limits.max_output_tokens.unwrap_or(u64::MAX);
    Request {
        model: row.name.clone().unwrap_or_else(|| chosen.name.clone()),
        system: marked(system),
        tools: Arc::clone(tools),
        messages,
        max_output_tokens: row.max_output_tokens.min(wanted),
        thinking: limits.thinking,
        effort: limits.effort,
    }
}

/// The system prompt with a mark at the end of what every session shares and one at its own end.
pub(crate) fn marked(system: &[Section]) -> Vec<SystemText> {
    let said: Vec<&Section> = said(system).collect();
    let is_last_of_its_scope =
        |place: usize| said.get(place + 1).is_none_or(|next| next.scope != said[place].scope);
    let texts = said.iter().enumerate();
    texts
        .map(|(place, section)| SystemText { text: section.text.clone(), cache: is_last_of_its_scope(place) })
        .collect()
}

/// The sections that stand in the system prompt.
pub(crate) fn said(system: &[Section]) -> impl Iterator<Item = &Section> {
    system.iter().filter(|section| section.scope != Scope::Ephemeral && !section.text.trim().is_empty())
}

/// The longest answer that still fits behind a prompt of that length. Some APIs refuse a request whose prompt and
/// longest answer together exceed the window.
pub(crate) fn longest_answer(request: &Request, row: &ModelRow, prompt_tokens: u64) -> u64 {
    // There the reasoning budget follows from the answer's length, and changing it would cost the cache.
    let sets_budget = row.thinking
        && row.reasoning == Reasoning::Budget
        && matches!(request.thinking, Thinking::Adaptive | Thinking::Budget(_));
    if sets_budget {
        return request.max_output_tokens;
    }
    let budget = super::window(row);
    let room = budget.window.saturating_sub(prompt_tokens).max(budget.reserve_output);
    request.max_output_tokens.min(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_stand_where_a_scope_ends() {
        let section = |scope, text: &str| Section::new("s", scope, text);
        let marks = |sections: &[Section]| -> Vec<(String, bool)> {
            marked(sections).into_iter().map(|text| (text.text, text.cache)).collect()
        };
        let expect = |list: &[(&str, bool)]| -> Vec<(String, bool)> {
            list.iter().map(|(text, cache)| ((*text).to_owned(), *cache)).collect()
        };
        let all = [
            section(Scope::Global, "a"),
            section(Scope::Global, "b"),
            section(Scope::Global, " "),
            section(Scope::Session, "c"),
            section(Scope::Session, "d"),
            section(Scope::Ephemeral, "e"),
        ];
        assert_eq!(marks(&all), expect(&[("a", false), ("b", true), ("c", false), ("d", true)]));
        assert_eq!(marks(&all[..1]), expect(&[("a", true)]));
        assert_eq!(marks(&all[5..]), []);
    }

    #[test]
    fn an_answer_is_asked_for_only_as_long_as_it_fits() {
        let row = ModelRow { context_window: 100_000, max_output_tokens: 40_000, ..ModelRow::default() };
        let request = Request {
            model: String::new(),
            system: vec![],
            tools: Arc::new([]),
            messages: vec![],
            max_output_tokens: 40_000,
            thinking: Thinking::Budget(5_000),
            effort: None,
        };
        assert_eq!(longest_answer(&request, &row, 10_000), 40_000);
        assert_eq!(longest_answer(&request, &row, 70_000), 30_000);
        assert_eq!(longest_answer(&request, &row, 99_000), 20_000, "the reserve is kept for it");
        let thinks = ModelRow { thinking: true, ..row };
        assert_eq!(longest_answer(&request, &thinks, 70_000), 40_000, "the cache is worth more");
    }
}
