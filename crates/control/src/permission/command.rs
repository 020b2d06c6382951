//! Command patterns of rules tried on a command line: `Bash(git log *)` against what was read.
//! Allowing needs every command covered; denying and asking need one, in any spelling.

use super::{
    Policy,
    line::{Class, Line, Touched},
    path, rule,
    shell::{
        Simple,
        facts::{How, Word},
        table::{canonical, is_harmless_variable},
    },
};
use ostler_proto::{Mode, PathFact, Rule};
use std::path::Path;

/// Programs that run others in a way no prefix can vouch for.
const NEVER_BY_PREFIX: [&str; 4] = ["watch", "setsid", "ionice", "flock"];
/// Folders whose programs may be called by their bare names.
const SYSTEM_FOLDERS: [&str; 5] = ["/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin"];
/// Whether a rule that denies or asks speaks about the line.
pub(super) fn is_named(pattern: &str, line: &Line) -> bool {
    line.reading.commands.iter().any(|command| spellings(command).iter().any(|text| covers(pattern, text)))
}

/// Whether a rule that denies or asks might speak about the line once it runs: a word in it that
/// is only known then could complete it.
pub(super) fn might_be_named(pattern: &str, line: &Line) -> bool {
    let literal = pattern.split('*').next().unwrap_or_default().trim_end_matches([':', ' ']);
    line.reading.commands.iter().any(|command| {
        let known = command.words.iter().take_while(|word| word.known().is_some()).count();
        if known == command.words.len() {
            return false;
        }
        let mut head = joined(&bare(&command.words[..known]));
        if let Some(Word::Unknown { start, .. } | Word::Glob(start)) = command.words.get(known) {
            head.push(' ');
            head.push_str(start);
        }
        literal.starts_with(head.trim()) || head.trim().starts_with(literal)
    })
}

/// The allow rule that covers every command of the line which does not go without saying.
pub(super) fn allowed_by<'a>(tool: &str, line: &Line, policy: &'a Policy) -> Option<&'a Rule> {
    let rules = &policy.rules.allow;
    if line.reading.problem.is_some() {
        return None;
    }
    let bare = rules.iter().find(|rule| rule.pattern.is_none() && rule.tool == tool);
    let mut deciding = None;
    for index in 0..line.reading.commands.len() {
        if goes_without_saying(line, index, policy) {
            continue;
        }
        let granted = |rule: &&Rule| {
            rule.tool == tool
                && rule.pattern.as_deref().is_some_and(|pattern| grants(pattern, line, index))
                && writes_are_granted(line, index, policy)
        };
        let rule = bare.or_else(|| rules.iter().find(granted))?;
        deciding = deciding.or(Some(rule));
    }
    deciding.or(bare).or_else(|| rule::granting_edits(line, policy))
}

/// Rules that would cover what is not covered yet, one for each command; none when the line
/// cannot be said again exactly.
pub(super) fn suggestions(line: &Line, tool: &str, policy: &Policy) -> Vec<(String, String)> {
    const MOST: usize = 5;
    if line.reading.problem.is_some() {
        return Vec::new();
    }
    let mut rules: Vec<(String, String)> = Vec::new();
    for (index, command) in line.reading.commands.iter().enumerate() {
        let class = line.class_of(index, policy);
        if matches!(class, Class::Dangerous(_) | Class::Forbidden(_)) {
            return Vec::new();
        }
        if goes_without_saying(line, index, policy) {
            continue;
        }
        for touched in ungranted_writes(line, index, policy) {
            let Some(fact) = &touched.fact else { return Vec::new() };
            rules.push(("Edit".to_owned(), format!("/{}", fact.target.display())));
        }
        if class == Class::Edits
            && line.touched[index].iter().all(|touched| touched.how == How::Read || touched.redirected)
        {
            continue;
        }
        let has_odd_variable = !command.assignments.is_empty();
        if command.words.is_empty() || has_odd_variable || command.source.chars().any(char::is_control) {
            return Vec::new();
        }
        let text = prefix(command).unwrap_or_else(|| escaped(&command.source));
        rules.push((tool.to_owned(), text));
    }
    let mut seen = Vec::new();
    rules.retain(|rule| {
        !seen.contains(rule) && {
            seen.push(rule.clone());
            true
        }
    });
    if rules.len() > MOST { Vec::new() } else { rules }
}

/// A prefix that people mean when they allow such a command once and for all.
fn prefix(command: &Simple) -> Option<String> {
    let words: Vec<&str> = command.words.iter().map_while(Word::known).take(3).collect();
    let plain = |word: &&str| {
        word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.'))
            && !word.starts_with('-')
    };
    let (program, sub) = (words.first()?, words.get(1).filter(|word| plain(word))?);
    match *program {
        "cargo" | "go" | "make" | "just" | "dotnet" | "mvn" | "gradle" => Some(format!("{program} {sub} *")),
        "git"
            if ["add", "commit", "stash", "fetch", "pull", "switch", "checkout", "restore", "tag"]
                .contains(sub) =>
        {
            Some(format!("git {sub} *"))
        }
        "npm" | "pnpm" | "yarn" | "bun" if *sub == "run" => {
            let script = words.get(2).filter(|word| plain(word))?;
            Some(format!("{program} run {script} *"))
        }
        "npm" | "pnpm" | "yarn" if ["test", "install", "ci", "build", "lint"].contains(sub) => {
            Some(format!("{program} {sub} *"))
        }
        _ => None,
    }
}

/// Whether the pattern of an allow rule covers one command.
fn grants(pattern: &str, line: &Line, index: usize) -> bool {
    let command = &line.reading.commands[index];
    let has_wildcard = without_escapes(pattern).contains('*');
    let program = command.words.first().and_then(Word::known).map(base_name);
    let runs_others = program.is_some_and(|program| {
        NEVER_BY_PREFIX.contains(&program) || (program == "find" && does_more_than_find(command))
    });
    if has_wildcard && runs_others {
        return false;
    }
    let mut texts = vec![command.source.trim().to_owned()];
    if command.words.iter().all(|word| word.known().is_some()) {
        texts.push(joined(&trusted_name(&command.words)));
    }
    texts.iter().any(|text| covers(pattern, text)) && assignments_are_plain(line, index)
}

fn does_more_than_find(command: &Simple) -> bool {
    let effects = &command.effects;
    !effects.runs.is_empty()
        || !effects.unknown.is_empty()
        || effects.touches.iter().any(|touch| touch.how != How::Read)
}

fn assignments_are_plain(line: &Line, index: usize) -> bool {
    line.reading.commands[index].assignments.iter().all(|(name, _)| is_harmless_variable(name))
}

/// Whether a command needs no rule of its own: it only reads, is judged by what it runs, or changes
/// nothing but files that may be edited.
fn goes_without_saying(line: &Line, index: usize, policy: &Policy) -> bool {
    let may_be_edited = |touched: &Touched| touched.fact.as_ref().is_some_and(|fact| may_edit(fact, policy));
    match line.class_of(index, policy) {
        Class::ReadOnly => true,
        Class::Edits => {
            is_seen_through(line, index)
                || line.touched[index]
                    .iter()
                    .all(|touched| touched.how == How::Read || may_be_edited(touched))
        }
        Class::Normal(_) => is_seen_through(line, index),
        Class::Dangerous(_) | Class::Forbidden(_) => false,
    }
}

fn writes_are_granted(line: &Line, index: usize, policy: &Policy) -> bool {
    ungranted_writes(line, index, policy).next().is_none()
}

/// What a command changes through redirections, or outside the working directories, needs leave of its own.
fn ungranted_writes<'a>(
    line: &'a Line,
    index: usize,
    policy: &'a Policy,
) -> impl Iterator<Item = &'a Touched> {
    line.touched[index].iter().filter(|touched| touched.how != How::Read).filter(|touched| {
        let Some(fact) = &touched.fact else { return touched.redirected };
        let inside = path::is_inside(fact, &policy.roots);
        (!inside || touched.redirected) && !may_edit(fact, policy)
    })
}

fn may_edit(fact: &PathFact, policy: &Policy) -> bool {
    let by_mode = policy.mode == Mode::AcceptEdits && path::is_inside(fact, &policy.roots);
    by_mode || rule::may_edit(fact, policy)
}

/// A wrapper that rules look through is judged by what it runs.
fn is_seen_through(line: &Line, index: usize) -> bool {
    line.reading.commands.iter().any(|command| command.run_by == Some(index) && command.transparent)
}

/// Every way to write the command that a denial must catch.
fn spellings(command: &Simple) -> Vec<String> {
    let mut texts = vec![command.source.trim().to_owned()];
    let words = bare(&command.words);
    texts.push(joined(&words));
    texts.push(words.iter().map(shown).collect::<Vec<_>>().join(" "));
    texts.push(joined(&canonical(&command.words)));
    texts
}

/// The words with the program's folder taken off.
fn bare(words: &[Word]) -> Vec<Word> {
    let mut words = words.to_vec();
    if let Some(Word::Known(program)) = words.first_mut() {
        *program = base_name(program).to_owned();
    }
    words
}

/// The words with a folder of the system taken off the program; another folder's stays.
fn trusted_name(words: &[Word]) -> Vec<Word> {
    let in_system = words.first().and_then(Word::known).is_some_and(|program| {
        Path::new(program)
            .parent()
            .and_then(Path::to_str)
            .is_some_and(|folder| SYSTEM_FOLDERS.contains(&folder))
    });
    if in_system { bare(words) } else { words.to_vec() }
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// The words as one text in which no two different lists of words look the same.
fn joined(words: &[Word]) -> String {
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &Word) -> String {
    match word {
        Word::Known(text)
            if text.is_empty() || text.contains(|c: char| c.is_whitespace() || "'\"\\".contains(c)) =>
        {
            format!("'{}'", text.replace('\'', "'\\''"))
        }
        Word::Known(_) | Word::Glob(_) | Word::Unknown { .. } => shown(word),
    }
}

fn shown(word: &Word) -> String {
    match word {
        Word::Known(text) | Word::Glob(text) => text.clone(),
        // A character no command line can hold: only a star of a pattern matches it.
        Word::Unknown { start, .. } => format!("{start}\0"),
    }
}

/// A text as a pattern that matches nothing else.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('*', "\\*");
    // A colon before a star at the end would read as a prefix; there is no star left to follow it.
    text.trim().to_owned()
}

/// Whether a pattern covers a text. A trailing ` *` or `:*` is a prefix that ends at a word; other
/// stars match any text; `\*` and `\\` stand for themselves.
pub(super) fn covers(pattern: &str, text: &str) -> bool {
    let prefix = pattern.strip_suffix(":*").or_else(|| pattern.strip_suffix(" *"));
    match prefix.filter(|prefix| !prefix.ends_with('\\')) {
        Some(prefix) => {
            let parts = literal_parts(prefix);
            wildcard(&parts, text) || wildcard(&literal_parts(&format!("{prefix} *")), text)
        }
        None => wildcard(&literal_parts(pattern), text),
    }
}

fn without_escapes(pattern: &str) -> String {
    pattern.replace("\\\\", "").replace("\\*", "")
}

/// The texts between the stars.
fn literal_parts(pattern: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = pattern.chars().peekable();
    while let Some(c) = characters.next() {
        let literal = match (c, characters.peek()) {
            ('\\', Some('*' | '\\')) => characters.next(),
            // A colon before a star is a mark only at the end; elsewhere both stand for themselves.
            (':', Some('*')) => {
                characters.next();
                if let Some(part) = parts.last_mut() {
                    part.push_str(":*");
                }
                continue;
            }
            ('*', _) => None,
            (other, _) => Some(other),
        };
        match (literal, parts.last_mut()) {
            (Some(literal), Some(part)) => part.push(literal),
            (None, _) => parts.push(String::new()),
            (Some(_), None) => {}
        }
    }
    parts
}

/// Whether the parts occur in this order, the first at the start and the last at the end.
fn wildcard(parts: &[String], text: &str) -> bool {
    let Some((first, rest)) = parts.split_first() else { return text.is_empty() };
    let Some(mut left) = text.strip_prefix(first.as_str()) else { return false };
    let Some((last, middle)) = rest.split_last() else { return left.is_empty() };
    for part in middle {
        match left.find(part.as_str()) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last.as_str())
}

#[cfg(test)]
mod tests {
    use super::covers;

    #[test]
    fn patterns() {
        for (pattern, text, expect) in [
            ("ls *", "ls", true),
            ("ls *", "ls -la", true),
            ("ls *", "lsof", false),
            ("ls*", "lsof", true),
            ("npm run:*", "npm run test", true),
            ("npm run:*", "npm runx", false),
            ("git * main", "git log main", true),
            ("git * main", "git log main x", false),
            ("git * --force *", "git push --force", true),
            ("git * --force *", "git push --forceful", false),
            ("a:*b", "a:xb", false),
            ("a:*b", "a:*b", true),
            ("echo \\*", "echo *", true),
            ("echo \\*", "echo x", false),
            ("echo \\\\*", "echo \\x", true),
            ("make", "make x", false),
        ] {
            assert_eq!(covers(pattern, text), expect, "{pattern} on {text}");
        }
    }
}
