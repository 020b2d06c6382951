//! What of a markdown text is meant for the reader: comments go, and the files it imports are named. Code is left
//! alone, whatever stands in it. Pure, and total on every text.

/// A text as the model reads it, and what it imports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Prepared {
    /// Without comments.
    pub(super) text: String,
    /// Paths as written behind an `@`, in order, each once.
    pub(super) imports: Vec<String>,
}

/// The mark around code: its character and how often it is repeated.
#[derive(Clone, Copy)]
struct Fence {
    mark: char,
    length: usize,
}

/// Takes comments that open a line out of a text, and finds its imports.
pub(super) fn prepare(text: &str) -> Prepared {
    let mut prepared = Prepared::default();
    // Code in a line may go on in the next, so a paragraph is looked at as a whole.
    let mut paragraph = String::new();
    let mut fence: Option<Fence> = None;
    let mut rest = text;
    let last_end = text.rfind("-->").unwrap_or_default();
    while !rest.is_empty() {
        // Where none ends any more, none is looked for: a text full of openings must not take long.
        let may_comment = fence.is_none() && text.len() - rest.len() < last_end;
        if let Some(after) = may_comment.then(|| after_comment(rest)).flatten() {
            rest = after;
            continue;
        }
        let end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let (line, next) = rest.split_at(end);
        rest = next;
        prepared.text.push_str(line);
        let mark = fence_of(line);
        match fence {
            Some(open) if closes(line, open) => fence = None,
            Some(_) => {}
            None if mark.is_some() || line.trim().is_empty() => {
                fence = mark;
                imports(&std::mem::take(&mut paragraph), &mut prepared.imports);
            }
            None => paragraph.push_str(line),
        }
    }
    imports(&paragraph, &mut prepared.imports);
    prepared
}

/// What follows a comment that opens this line, and is closed anywhere; with the end of its last line if nothing
/// else stands there.
fn after_comment(text: &str) -> Option<&str> {
    let inside = text.trim_start_matches(' ').strip_prefix("<!--")?;
    let rest = &inside[inside.find("-->")? + 3..];
    let line = rest.find('\n').map_or(rest, |end| &rest[..end]);
    Some(if line.trim().is_empty() { &rest[(line.len() + 1).min(rest.len())..] } else { rest })
}

fn fence_of(line: &str) -> Option<Fence> {
    let line = line.trim_start().trim_start_matches("- ").trim_start();
    let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = line.chars().take_while(|c| *c == mark).count();
    let is_fence = length >= 3 && !(mark == '`' && line[length..].contains('`'));
    is_fence.then_some(Fence { mark, length })
}

fn closes(line: &str, open: Fence) -> bool {
    let line = line.trim();
    line.len() >= open.length && line.chars().all(|c| c == open.mark)
}

/// The imports of a paragraph, outside of code.
fn imports(paragraph: &str, found: &mut Vec<String>) {
    let mut rest = paragraph;
    let mut before = '\n';
    while let Some(c) = rest.chars().next() {
        let mut length = c.len_utf8();
        if c == '`' {
            length = code_span(rest);
        } else if c == '@' && before.is_whitespace() {
            let path = path_at(&rest[1..]);
            length += path.len();
            let path = path.replace("\\ ", " ");
            let starts = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '~' | '/');
            if path.starts_with(starts) && !found.contains(&path) {
                found.push(path);
            }
        }
        before = rest[..length].chars().next_back().unwrap_or(c);
        rest = &rest[length..];
    }
}

/// How long the code is that begins here; only its opening mark where it is never closed.
fn code_span(text: &str) -> usize {
    let run = |text: &str| text.len() - text.trim_start_matches('`').len();
    let open = run(text);
    let mut at = open;
    while let Some(next) = text[at..].find('`') {
        let close = run(&text[at + next..]);
        at += next + close;
        if close == open {
            return at;
        }
    }
    open
}

/// Up to the next blank that is not escaped.
fn path_at(text: &str) -> &str {
    let mut escaped = false;
    let end = text.find(|c: char| {
        let ends = c.is_whitespace() && !(escaped && c == ' ');
        escaped = c == '\\';
        ends
    });
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expected: &str, imports: &[&str]) {
        let imports = imports.iter().map(|&path| path.to_owned()).collect();
        assert_eq!(prepare(text), Prepared { text: expected.to_owned(), imports });
    }

    #[test]
    fn imports_stand_in_prose_only() {
        check("see @a.md and @b/c.md\n", "see @a.md and @b/c.md\n", &["a.md", "b/c.md"]);
        check("@~/x @/abs/y\n- @./z", "@~/x @/abs/y\n- @./z", &["~/x", "/abs/y", "./z"]);
        check("me@example.com @@b `@c` ``x ` @d`` @e", "me@example.com @@b `@c` ``x ` @d`` @e", &["e"]);
        check("`open @a\n", "`open @a\n", &["a"]);
        check("`over @a\nlines` @b\n", "`over @a\nlines` @b\n", &["b"]);
        check("```\n@a\n```\n@b", "```\n@a\n```\n@b", &["b"]);
        check("~~~~\n```\n@a\n~~~\n~~~~\n@b\n", "~~~~\n```\n@a\n~~~\n~~~~\n@b\n", &["b"]);
        check("- ```sh\n  @a\n  ```\n", "- ```sh\n  @a\n  ```\n", &[]);
        check("```\n@a", "```\n@a", &[]);
        check("@my\\ file.md @a @a", "@my\\ file.md @a @a", &["my file.md", "a"]);
    }

    #[test]
    fn comments_that_open_a_line_go() {
        check("a\n<!-- x\n@evil\n-->\nb\n", "a\nb\n", &[]);
        check("<!-- a --> text @b\n", " text @b\n", &["b"]);
        check("  <!-- a --><!-- b -->\nc", "c", &[]);
        check("in <!-- stays --> line", "in <!-- stays --> line", &[]);
        check("<!-- never closed\nb\n", "<!-- never closed\nb\n", &[]);
        check("```\n<!-- code -->\n```\n", "```\n<!-- code -->\n```\n", &[]);
    }

    proptest! {
        #[test]
        fn any_text_is_prepared_and_none_is_made_up(text in "([-<!>@`~ab/\\\\ \n]|<!--|-->|```){0,60}") {
            let prepared = prepare(&text);
            prop_assert!(prepared.text.len() <= text.len());
            prop_assert_eq!(&prepare(&text), &prepared);
            for import in &prepared.imports {
                let written = format!("@{import}");
                prop_assert!(text.replace("\\ ", " ").contains(&written));
            }
            if !text.contains("<!--") {
                prop_assert_eq!(prepared.text, text);
            }
        }
    }
}
