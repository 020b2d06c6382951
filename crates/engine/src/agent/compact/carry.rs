//! Gathers what is carried over a compaction: from the session's own memory, from the executor and from files as
//! they are now, cut down until it fits.

use super::{Agent, Work, summary::Summary};
use crate::{
    compaction::{self, Contract, File, Shares, Words},
    session::shorten,
    tokens,
};
use ostler_control::executor::{Recollection, Room as FileRoom};
use ostler_proto::{Block, Compaction, Instruction, Role};
use std::path::Path;

/// How many files are shown again.
const MOST_SHOWN: usize = 5;
/// How many touched files are told of.
const MOST_TOLD: usize = 30;
/// How often what is carried is halved until it fits.
const MOST_SQUEEZED: u32 = 4;
/// Tokens of the shortest summary, and of what is said around it.
const LEAST_SUMMARY: u64 = 300;
/// Tokens of a last exchange that are always worth keeping.
const LEAST_TAIL: u64 = 500;

impl Agent {
    /// The whole compaction. What does not fit is halved, and halved again.
    pub(super) async fn carry_over(&mut self, work: &Work, summary: &Summary) -> Compaction {
        let mut squeezed = 0;
        let goal = work.room.comfortable().min(work.now().saturating_sub(1));
        loop {
            let shares = work.room.shares(work.fixed, squeezed);
            let compaction = self.carried(work, summary, shares).await;
            let pruned = shorten::pruned(&work.messages, &compaction);
            let after = work.would_be(&shorten::carried(pruned, &compaction));
            if after <= goal || squeezed == MOST_SQUEEZED {
                return Compaction {
                    post_tokens: after,
                    model: self.parts.chosen.name.clone(),
                    usage: summary.paid.usage,
                    cost_usd: summary.paid.cost_usd,
                    ..compaction
                };
            }
            squeezed += 1;
        }
    }

    /// Tokens that the context could not come below with a summary, however short.
    pub(super) fn least(&self, work: &Work) -> u64 {
        let shares = work.room.shares(work.fixed, 0);
        let state = self.parts.session.state();
        let said: u64 = state.remembered.said.iter().map(|said| tokens::of_text(&said.text)).sum();
        let standing: u64 = state.instructions.iter().map(|file| file.tokens).sum();
        let tail = &work.messages[work.messages.len() - work.survey.kept..];
        work.would_be(tail) + said.min(shares.said) + standing.min(shares.instructions) + LEAST_SUMMARY
    }

    async fn carried(&mut self, work: &Work, summary: &Summary, shares: Shares) -> Compaction {
        let room = compaction::tail(&work.messages, shares);
        let survey = compaction::survey(&work.messages, room);
        let pruned = self.set_aside(survey.tail.iter()).await;
        let kept = Compaction { pruned, kept: survey.kept, ..work.nothing_yet() };
        let from = work.messages.len() - survey.kept;
        let tail = shorten::pruned(&work.messages, &kept).split_off(from);
        let mut contract = self.contract(summary, shares).await;
        let fits = compaction::weight(&tail) <= room.max(LEAST_TAIL).saturating_mul(2);
        if !fits {
            let last = work.messages.iter().rfind(|message| message.role == Role::Assistant);
            contract.note_calls(last.iter().flat_map(|last| last.content.iter().filter_map(Block::as_call)));
        }
        let carried = contract.blocks(shares.instructions);
        Compaction { carried, kept: if fits { kept.kept } else { 0 }, ..kept }
    }

    async fn contract(&mut self, summary: &Summary, shares: Shares) -> Contract {
        let said = self.words_of_user(shares.said).await;
        let files = self.files(shares).await;
        let state = self.parts.session.state();
        let executor = &self.parts.executor;
        Contract {
            instructions: standing(&state.instructions),
            said,
            summary: summary.marked.clone(),
            last_calls: Vec::new(),
            todos: state.todos.clone(),
            failing: state.remembered.failing.clone(),
            refused: state.remembered.refused.clone(),
            rules: executor.granted_rules(),
            jobs: executor.running_jobs(),
            mode: executor.mode(),
            cwd: executor.cwd(),
            files,
            transcript: self.parts.session.transcript().map(Path::to_path_buf),
        }
    }

    /// Everything the user said, word for word where there is room; what is cut is kept whole elsewhere.
    async fn words_of_user(&mut self, tokens: u64) -> Vec<Words> {
        let said = &self.parts.session.state().remembered.said;
        let mut words = Vec::with_capacity(said.len());
        for (said, bytes) in said.iter().zip(compaction::allot(said, tokens)) {
            if bytes == 0 && !said.text.is_empty() {
                words.push(Words::LeftOut);
                continue;
            }
            let note = if bytes < said.text.len() {
                let kept = self.parts.executor.keep(said.text.to_string()).await;
                kept.map(|path| format!("; all of it is in {}", path.display())).unwrap_or_default()
            } else {
                String::new()
            };
            let mut text = compaction::ends(&said.text, bytes, &note);
            if said.attachments > 0 {
                text.push_str("\n[pictures or documents came with it, which may no longer be attached]");
            }
            words.push(Words::Shown(text));
        }
        words
    }

    /// The files that were touched last, some of them as they are now. Only what is shown counts as read.
    async fn files(&mut self, shares: Shares) -> Vec<File> {
        let touched = &self.parts.session.state().remembered.touched;
        let last: Vec<_> = touched.iter().rev().take(MOST_TOLD).collect();
        let paths: Vec<_> = last.iter().map(|touched| touched.path.clone()).collect();
        let tokens = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let room = FileRoom { files: MOST_SHOWN, each: tokens(shares.file), total: tokens(shares.files) };
        let recalled = self.parts.executor.recall(&paths, room).await;
        let changed = |path: &Path| last.iter().any(|touched| touched.path == path && touched.changed);
        recalled
            .into_iter()
            .map(|file| File {
                changed: changed(&file.path),
                content: match file.content {
                    Recollection::Hash(hash) => format!("hash {hash}"),
                    Recollection::Unknown(why) => why,
                },
                path: file.path,
                text: file.text,
            })
            .collect()
    }
}

/// Each file of instructions in force, as a note of its own: what does not fit is cut file by file.
fn standing(instructions: &[Instruction]) -> Vec<String> {
    let note = |file: &Instruction| format!("<system-reminder>\n{}\n</system-reminder>", file.text);
    instructions.iter().map(note).collect()
}
