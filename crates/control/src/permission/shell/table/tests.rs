//! The table against its own examples, the two lists of commands, and what must hold for any words.

use super::*;
use crate::permission::shell::facts::Touch;
use crate::permission::shell::facts::{Inner, Place};
use proptest::prelude::*;
use std::path::PathBuf;

const READ_ONLY: &str = include_str!("../../../../tests/data/read_only.txt");
const NOT_READ_ONLY: &str = include_str!("../../../../tests/data/not_read_only.txt");

/// What a command is, from the most harmless to the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Read,
    Runs,
    Writes,
    Outside,
    Network,
    Asks,
    Danger,
}

/// The words of a line as far as the examples need a shell: quotes, patterns, variables and the home.
fn words(line: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut rest = line.chars().peekable();
    while let Some(first) = rest.peek().copied() {
        if first == ' ' {
            rest.next();
            continue;
        }
        let (mut text, mut is_glob, mut unknown) = (String::new(), false, None);
        let mut quote = None;
        while let Some(c) = rest.next_if(|c| quote.is_some() || *c != ' ') {
            match (c, quote) {
                ('\'' | '"', None) => quote = Some(c),
                (c, Some(open)) if c == open => quote = None,
                ('$', None | Some('"')) if rest.peek().is_some_and(char::is_ascii_alphabetic) => {
                    unknown = unknown.or(Some((text.clone(), quote.is_none())));
                }
                ('*' | '?', None) => {
                    is_glob = true;
                    text.push(c);
                }
                ('~', None) if text.is_empty() => text.push_str("/home/u"),
                (c, _) => text.push(c),
            }
        }
        words.push(match unknown {
            Some((start, splits)) => Word::Unknown { start, splits },
            None if is_glob => Word::Glob(text),
            None => Word::Known(text),
        });
    }
    words
}

fn effects_of(line: &str) -> Effects {
    effects(&words(line), &At { directory: &Directory::Known("/w".into()), home: Path::new("/home/u") })
}

fn class(words: &[Word], directory: &Directory) -> Class {
    let effects = effects(words, &At { directory, home: Path::new("/home/u") });
    let mut class = Class::Read;
    for touch in &effects.touches {
        let inside = match &touch.place {
            Place::At(path) | Place::Below(path) => place::normal(path).starts_with("/w"),
            Place::Anywhere => false,
        };
        class = class.max(match (inside, touch.how) {
            (false, _) => Class::Outside,
            (true, How::Read) => Class::Read,
            (true, How::Write | How::Remove) => Class::Writes,
        });
    }
    for inner in &effects.runs {
        class = class.max(match inner {
            Inner::Script(_) => Class::Runs,
            Inner::Words { words, directory: inner, .. } => {
                self::class(words, inner.as_ref().unwrap_or(directory))
            }
        });
    }
    let flags = [
        (effects.network, Class::Network),
        (!effects.unknown.is_empty(), Class::Asks),
        (!effects.dangers.is_empty(), Class::Danger),
    ];
    flags.into_iter().filter(|(is_so, _)| *is_so).fold(class, |class, (_, other)| class.max(other))
}

fn class_of(line: &str) -> Class {
    class(&words(line), &Directory::Known(PathBuf::from("/w")))
}

fn class_named(name: &str) -> Class {
    match name {
        "read" => Class::Read,
        "runs" => Class::Runs,
        "writes" => Class::Writes,
        "outside" => Class::Outside,
        "network" => Class::Network,
        "asks" => Class::Asks,
        "danger" => Class::Danger,
        other => panic!("no examples can be of the class {other}"),
    }
}

/// Whether a line needs nothing of a shell but what `words` knows.
fn is_plain(line: &str) -> bool {
    let mut quote = None;
    for c in line.chars() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (';' | '&' | '|' | '<' | '>' | '(' | ')' | '`' | '{' | '}' | '\\' | '[' | '!' | '#', None) => {
                return false;
            }
            ('`' | '\\', Some('"')) => return false,
            _ => {}
        }
    }
    !line.contains("$(")
        && !line.contains("${")
        && !line.contains("$'")
        && !line.split(' ').next().is_some_and(|w| w.contains('='))
}

fn commands(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
}

/// The commands of a pipe or list, without harmless redirections.
fn pieces(line: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut quote) = (0, None);
    for (at, c) in line.char_indices() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('|' | ';' | '&', None) => {
                pieces.push(&line[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&line[start..]);
    pieces
        .into_iter()
        .map(|piece| piece.trim().trim_end_matches("2>/dev/null").trim_end_matches(">/dev/null 2>").trim())
        .filter(|piece| !piece.is_empty() && *piece != "1")
        .collect()
}

#[test]
fn every_entry_keeps_its_examples() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (name, examples) in row::examples(&FAMILIES) {
        assert!(!examples.is_empty(), "{name} has no examples");
        for (expected, lines) in examples {
            for line in lines {
                count += 1;
                let found = class_of(&line);
                if found != class_named(&expected) {
                    let effects = effects_of(&line);
                    wrong.push(format!("[{name}] {line}: {found:?}, not {expected}: {effects:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} examples are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(ROWS.names().filter(|name| !name.contains(' ')).count() >= 100);
}

#[test]
fn ordinary_reading_is_seen_as_reading() {
    let needs_walker =
        |line: &&str| ["; do ", "; then ", "=src;", "N=5;"].iter().any(|part| line.contains(part));
    let lines = commands(READ_ONLY).filter(|line| !needs_walker(line));
    let pieces: Vec<&str> = lines.flat_map(pieces).filter(|line| is_plain(line)).collect();
    let classes = pieces.iter().map(|line| (class_of(line), line));
    // A text for a shell is the walker's to read.
    let wrong: Vec<String> = classes
        .filter(|(class, _)| *class > Class::Runs)
        .map(|(class, line)| format!("{class:?}: {line}"))
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), pieces.len(), wrong.join("\n"));
    assert!(
        commands(READ_ONLY).count() >= 330 && pieces.len() >= 400,
        "{} lines, {} pieces",
        commands(READ_ONLY).count(),
        pieces.len()
    );
}

#[test]
fn nothing_else_is_seen_as_reading() {
    let plain: Vec<&str> = commands(NOT_READ_ONLY).filter(|line| is_plain(line)).collect();
    let wrong: Vec<&&str> = plain.iter().filter(|line| class_of(line) == Class::Read).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{wrong:#?}", wrong.len(), plain.len());
    assert!(commands(NOT_READ_ONLY).count() >= 400, "{}", commands(NOT_READ_ONLY).count());
}

#[track_caller]
fn refused(line: &str, directory: &str) -> bool {
    let directory = Directory::Known(PathBuf::from(directory));
    let at = At { directory: &directory, home: Path::new("/home/u") };
    let roots = [PathBuf::from("/home/u/work/app"), PathBuf::from("/srv/lib")];
    forbidden(&words(line), &at, &Vital { home: at.home, roots: &roots }).is_some()
}

#[test]
fn the_floor_holds() {
    for line in [
        "rm -rf /",
        "rm -rf /*",
        "rm -rf / --no-preserve-root",
        "rm -fr -- /",
        "/bin/rm -rf /",
        "rm -rf /etc",
        "rm -rf /usr/",
        "rm -r /home",
        "rm -rf ~",
        "rm -rf ~/",
        "rm -rf ~/*",
        "rm -rf ~/.*",
        "rm -rf /home/u/work",
        "rm -rf .",
        "rm -rf ./",
        "rm -rf *",
        "rm -rf ./*",
        "rm -rf ..",
        "rm -rf ../..",
        "rm -rf src/..",
        "rm -rf /srv/lib",
        "rm -rf /srv/lib/*",
        "rm -rf /srv",
        "rm -rf /e*",
        "rm --recursive ~",
        "rm --recurs ~/*",
        "rm -rf ~/$x",
        "rm -rf /$x",
        "rm -rf /usr/*",
        "rm -rf /home/u/work/app/**",
        "rm -rf a b /",
        "rmdir ~",
        "rmdir /srv/lib",
        "find / -delete",
        "find . -delete",
        "find . -type f -delete",
        "find -delete",
        "find ~ -depth -delete",
        "mv ~ /dev/null",
        "mv -t x ~",
        "chmod -R -x ~",
        "mv / x",
        "mv /home/u/work/app /tmp/x",
        "chmod -R 777 /",
        "chmod -R 000 ~",
        "chown -R x /usr",
        "chown -R x .",
        "shred /",
        "dd if=/dev/zero of=/dev/sda",
        "dd of=/dev/nvme0n1 if=x",
        "cp x /dev/sda",
        "tee /dev/sda1",
        "mkfs.ext4 /dev/sda1",
        "mkfs /dev/vda",
        "wipefs -a /dev/sda",
        "kill -9 -1",
        "kill -- -1",
        "kill -KILL -1",
        "kill -s KILL -1",
        "rm -rf /home/u/./work/../work/app",
    ] {
        assert!(refused(line, "/home/u/work/app"), "{line}");
    }
}

#[test]
fn the_floor_lets_ordinary_work_through() {
    for line in [
        "rm -rf target",
        "rm -rf ./build",
        "rm -rf src/*",
        "rm -rf node_modules dist",
        "rm a",
        "rm -f *.o",
        "rm -rf src*",
        "rm *",
        "rm -rf /tmp/x",
        "rm -rf /tmp/*",
        "rm -rf ~/work/other/x",
        "find . -name '*.pyc' -delete",
        "find target -delete",
        "find /tmp/x -delete",
        "mv a b",
        "mv src /tmp/x",
        "chmod 755 .",
        "chmod -R u+w src",
        "chown me .",
        "chmod -R 755 /srv/lib/x",
        "kill -9 123",
        "kill -1 123",
        "kill -s 1 123",
        "dd if=/dev/sda of=img",
        "mkfs.ext4 disk.img",
        "cat /",
        "ls -R /",
        "grep -r rm /",
        "rm -rf $x",
        "tee /dev/null",
        "rm ./?*",
        "echo rm -rf /",
        "rmdir x",
        "rm -rf ./**/?*",
    ] {
        assert!(!refused(line, "/home/u/work/app"), "{line}");
    }
}

#[test]
fn redirections_can_be_asked_about() {
    let write = |path: &str| Touch { how: How::Write, place: Place::At(path.into()), deep: false };
    assert!(
        forbidden_touch(&write("/dev/sda")).is_some()
            && forbidden_touch(&write("/dev/../dev/nvme0n1")).is_some()
    );
    assert!(
        forbidden_touch(&write("/dev/null")).is_none() && forbidden_touch(&write("/w/dev/sda")).is_none()
    );
}

#[test]
fn wrappers_hand_on_what_they_run() {
    let run = |line: &str| effects_of(line).runs;
    let inner = |line: &str, directory: &str, transparent: bool| Inner::Words {
        words: words(line),
        directory: Some(Directory::Known(directory.into())),
        transparent,
    };
    for (line, expected, transparent) in [
        ("timeout -k 1 5 rm -f a", "rm -f a", true),
        ("nice -n 3 ls", "ls", true),
        ("nohup ls -l", "ls -l", true),
        ("stdbuf -o L ls", "ls", true),
        ("time ls", "ls", true),
        ("command ls", "ls", true),
        ("builtin cd a", "cd a", true),
        ("noglob ls a", "ls a", true),
        ("env A=b rm a", "rm a", false),
        ("sudo -u me A=b rm a", "rm a", false),
        ("setsid ls", "ls", false),
        ("ionice -c 3 ls", "ls", false),
        ("flock l ls", "ls", false),
        ("exec ls", "ls", false),
    ] {
        assert_eq!(run(line), vec![inner(expected, "/w", transparent)], "{line}");
    }
    assert_eq!(run("env -C src ls"), vec![inner("ls", "/w/src", false)]);
    let from_input = |splits| Word::Unknown { start: String::new(), splits };
    let with = |line: &str, last: Word| words(line).into_iter().chain([last]).collect::<Vec<_>>();
    let directory = Some(Directory::Known("/w".into()));
    let of = |words, transparent| vec![Inner::Words { words, directory: directory.clone(), transparent }];
    assert_eq!(run("xargs grep x"), of(with("grep x", from_input(true)), true));
    assert_eq!(run("xargs -0 grep x"), of(with("grep x", from_input(true)), false));
    assert_eq!(run("xargs -I% grep x %"), of(with("grep x", from_input(false)), false));
    assert_eq!(run("find src -exec grep x {} +"), of(with("grep x", Word::Glob("src/**".into())), false));
    assert_eq!(run("bash -ec 'a b' c"), vec![Inner::Script(Word::Known("a b".into()))]);
}

#[test]
fn the_shell_is_followed() {
    let moves = |line: &str| effects_of(line).moves;
    assert_eq!(moves("cd src/../x"), Some(Directory::Known("/w/src/../x".into())));
    assert_eq!(moves("cd /etc"), Some(Directory::Known("/etc".into())));
    assert_eq!(moves("cd"), Some(Directory::Known("/home/u".into())));
    assert_eq!(
        (moves("cd -"), moves("cd $x"), moves("popd")),
        (Some(Directory::Unknown), Some(Directory::Unknown), Some(Directory::Unknown))
    );
    assert_eq!(moves("ls"), None);
    assert_eq!(class(&words("ls a"), &Directory::Unknown), Class::Outside);
    assert_eq!(class(&words("ls /w/a"), &Directory::Unknown), Class::Read);
}

#[test]
fn git_is_marked_only_where_it_reads() {
    let git = |line: &str| effects_of(line).git;
    assert!(
        git("git status") && git("git log -p") && git("/usr/bin/git show") && git("git submodule status")
    );
    assert!(!git("git commit") && !git("git fetch") && !git("git diff --output=x") && !git("ls"));
}

#[test]
fn copies_touch_what_they_leave_in_a_folder() {
    let touches = effects(
        &words("cp a/.mcp.json ."),
        &At { directory: &Directory::Known("/w".into()), home: Path::new("/h") },
    )
    .touches;
    let write = Touch { how: How::Write, place: Place::At("/w/./.mcp.json".into()), deep: false };
    assert!(touches.contains(&write), "{touches:?}");
}

#[test]
fn a_word_that_is_only_known_later_never_makes_it_harmless() {
    let harmless = |word: &Word| !word.known().is_some_and(|text| text.starts_with(['/', '-']));
    for line in commands(NOT_READ_ONLY).filter(|line| is_plain(line)) {
        let words = words(line);
        for (at, splits) in (0..words.len()).flat_map(|at| [(at, false), (at, true)]) {
            if harmless(&words[at]) {
                continue;
            }
            let mut words = words.clone();
            words[at] = Word::Unknown { start: String::new(), splits };
            let found = class(&words, &Directory::Known(PathBuf::from("/w")));
            assert!(found > Class::Read, "{line} is read-only with {words:?}");
        }
    }
}

#[test]
fn rules_that_forbid_see_the_program_and_its_subcommand() {
    for (line, expected) in [
        ("/usr/bin/git -C x --no-pager push -f", "git push -f"),
        ("git -c a=b --git-dir=x push", "git push"),
        ("git --git-dir x --exec-path=y push", "git push"),
        ("./rm -rf a", "rm -rf a"),
        ("git --version", "git --version"),
        ("kubectl -n x delete pod y", "kubectl delete pod y"),
        ("ls -la", "ls -la"),
    ] {
        assert_eq!(canonical(&words(line)), words(expected), "{line}");
    }
    assert_eq!(canonical(&words("$x a")), words("$x a"));
}

fn any_word() -> impl Strategy<Value = Word> {
    prop_oneof![
        6 => "(-{0,2}[a-zA-Z#]{1,4}(=[a-z/.]{0,4})?|[-a-z0-9./{};+=*$|>\"'\\\\\u{e9}]{0,8}|[a-z]{1,5})".prop_map(Word::Known),
        1 => "[-a-z./*?\u{e9}\\[{(\\\\]{0,6}".prop_map(Word::Glob),
        1 => ("[-a-z./=]{0,4}", any::<bool>()).prop_map(|(start, splits)| Word::Unknown { start, splits }),
    ]
}

fn any_program() -> impl Strategy<Value = Vec<Word>> {
    let mut names: Vec<String> = ROWS.names().map(str::to_owned).collect();
    names.sort();
    prop::sample::select(names)
        .prop_map(|name| name.split(' ').map(|word| Word::Known(word.to_owned())).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics(program in any_program(), rest in prop::collection::vec(any_word(), 0..6)) {
        let words: Vec<Word> = program.into_iter().chain(rest).collect();
        let directory = Directory::Known(PathBuf::from("/w"));
        let at = At { directory: &directory, home: Path::new("/home/u") };
        effects(&words, &at);
        forbidden(&words, &at, &Vital { home: at.home, roots: &[PathBuf::from("/w")] });
        class(&words, &Directory::Unknown);
    }

    #[test]
    fn an_option_that_is_not_known_never_makes_it_more_harmless(
        line in prop::sample::select(commands(READ_ONLY).filter(|line| is_plain(line)).collect::<Vec<_>>()),
        option in "--zz[a-z]{2,6}(=x)?",
        at in any::<prop::sample::Index>(),
    ) {
        let mut words = words(line);
        let before = class_of(line);
        words.insert(1 + at.index(words.len()), Word::Known(option));
        let after = class(&words, &Directory::Known(PathBuf::from("/w")));
        prop_assert!(after >= before, "{line}: {before:?} became {after:?} with {words:?}");
    }
}
