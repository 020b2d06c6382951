//! Where commands run, and what their redirections open.

use super::super::Within;
use super::super::facts::Word;
use super::{check, check_words, reading, words};

#[test]
fn c7_directories_are_followed_through_lists() {
    check("cd a && ls", &["/w: cd|a", "/w/a: ls"]);
    check("cd a || ls", &["/w: cd|a", "/w: ls"]);
    check("cd a; ls", &["/w: cd|a", "/w/a: ls", "/w: ls"]);
    check(
        "cd a && cd b && ls; pwd",
        &["/w: cd|a", "/w/a: cd|b", "/w/a/b: ls", "/w/a/b: pwd", "/w: pwd", "/w/a: pwd"],
    );
    check("(cd a && ls); pwd", &["/w: cd|a", "/w/a: ls", "/w: pwd"]);
    check("cd a | ls; pwd", &["/w: cd|a", "/w: ls", "/w: pwd"]);
    check("cd a & pwd", &["/w: cd|a", "/w: pwd"]);
    check("x=$(cd a && ls); pwd", &["/w: ", "/w: cd|a", "/w/a: ls", "/w: pwd"]);
    check("{ cd a && ls; } && pwd", &["/w: cd|a", "/w/a: ls", "/w/a: pwd"]);
    check("if cd a; then ls; else pwd; fi", &["/w: cd|a", "/w/a: ls", "/w: pwd"]);
    check("! cd a && ls", &["/w: cd|a", "/w: ls"]);
    check("cd .claude && cat x > y", &["/w: cd|.claude", "/w/.claude: cat|x >/w/.claude/y"]);
    check("cd a || exit 1; ls", &["/w: cd|a", "/w: exit|1", "/w/a: ls"]);
    check("cd a || { echo x; exit; }; ls", &["/w: cd|a", "/w: echo|x", "/w: exit", "/w/a: ls"]);
    check("if ! cd a; then exit; fi; ls", &["/w: cd|a", "/w: exit", "/w/a: ls"]);
    check("exit; ls", &["/w: exit", "?: ls"]);
    check("(exit); ls", &["/w: exit", "/w: ls"]);
    check("cd a || exit \"$x\"; ls", &["/w: cd|a", "/w: exit|?", "/w/a: ls", "/w: ls"]);
    check("cd && ls", &["/w: cd", "/home/user: ls"]);
    check("cd \"$x\" && ls > f", &["/w: cd|?", "?: ls >anywhere"]);
}

#[test]
fn c7_directories_that_repeat_or_hide_are_unknown() {
    check("while ls; do cd a; done; pwd", &["?: ls", "?: cd|a", "?: pwd"]);
    check("until cd a; do ls; done; pwd", &["?: cd|a", "?: ls", "?: pwd"]);
    check("for x in a b; do cd $x; done; pwd", &["?: cd|a", "?: cd|b", "?: pwd"]);
    check("f() { cd a; }; f; pwd", &["/w: cd|a", "/w: f", "?: pwd"]);
    check("command cd a && ls", &["/w: command|cd|a", "/w: cd|a", "/w: ls", "/w/a: ls"]);
    check(
        "cd a && echo $PWD; cd ..; echo $PWD",
        &[
            "/w: cd|a",
            "/w/a: echo|/w/a",
            "/w/a: cd|..",
            "/w: cd|..",
            "/w/a/..: echo|??",
            "/w/..: echo|??",
            "/w/a: echo|??",
            "/w: echo|??",
        ],
    );
}

#[test]
fn c3_redirections_are_files_that_are_touched() {
    check("ls > f 2>&1 < g", &["/w: ls >/w/f </w/g"]);
    check(
        "ls >| f; ls &> g; ls <> h; ls >>/i",
        &["/w: ls >/w/f", "/w: ls >/w/g", "/w: ls </w/h >/w/h", "/w: ls >/i"],
    );
    check("ls >/dev/null 2>/dev/stderr >&2 3>&-", &["/w: ls"]);
    check("> f", &["/w:  >/w/f"]);
    check("{ ls; } > f", &["?:  >/w/f", "/w: ls"]);
    check("ls > \"$x\"; ls > ~/f; ls >&f", &["/w: ls >anywhere", "/w: ls >/home/user/f", "/w: ls >/w/f"]);
    check("echo $(<f) <<< \"$(ls)\"", &["/w: echo|??", "/w:  </w/f", "/w: ls"]);
    check(
        "cat <<EOF > f && ls\n$(pwd) \\$(rm)\nEOF\ntrue",
        &["/w: cat >/w/f", "/w: pwd", "/w: ls", "/w: true"],
    );
    check("cat <<A <<-'B'; ls\n$(pwd)\nA\n\t$(rm)\n\tB\ntrue", &["/w: cat", "/w: pwd", "/w: ls", "/w: true"]);
    check("[[ -f a && b -nt c ]]", &["?:  </w/a", "?:  </w/b", "?:  </w/c"]);
}

#[test]
fn c9_connections_of_the_shell_are_network() {
    for line in
        ["exec 3<>/dev/tcp/x/80", "ls > /dev/udp/x/1", "{ ls; } > /dev/tcp/$h/1", "cat < /dev/tcp/a/b"]
    {
        let reading = reading(line);
        assert_eq!(reading.problem, None, "{line}");
        assert!(reading.commands.iter().any(|simple| simple.effects.network), "{line}");
    }
}

#[test]
fn commands_that_run_commands_come_with_them() {
    let reading = reading("timeout 5 env ls -l");
    let runs: Vec<_> =
        reading.commands.iter().map(|simple| (words(simple), simple.run_by, simple.transparent)).collect();
    let expected =
        [("timeout|5|env|ls|-l", None, false), ("env|ls|-l", Some(0), true), ("ls|-l", Some(1), false)];
    assert_eq!(runs, expected.map(|(words, by, through)| (words.to_owned(), by, through)));
}

#[test]
fn texts_for_a_shell_are_read() {
    check("bash -c 'cd a && ls' && pwd", &["/w: bash|-c|cd a && ls", "/w: cd|a", "/w/a: ls", "/w: pwd"]);
    check(
        "eval 'cd a && x=1' && echo $x",
        &["/w: eval|cd a && x=1", "/w: cd|a", "/w/a: ", "/w/a: echo|??", "/w: echo|??"],
    );
    check_words("x=1; bash -c 'echo $x'", &["bash|-c|echo $x", "echo|??"]);
    check_words("sh -c 'ls | cat'", &["sh|-c|ls | cat", "ls", "cat"]);
    check_words("bash -c \"bash -c 'ls'\"", &["bash|-c|bash -c 'ls'", "bash|-c|ls", "ls"]);
}

#[test]
fn what_is_around_a_command_is_told() {
    let reading = reading("for x in a; do (ls | cat &) ; done; f() { echo $(pwd); }");
    let within: Vec<_> = reading.commands.iter().map(|simple| simple.within.as_slice()).collect();
    let pipe = |reads| Within::Pipe { reads };
    let background = [Within::Loop, Within::Subshell, Within::Background];
    let expected: [&[Within]; 4] = [
        &[&background[..], &[pipe(false)]].concat(),
        &[&background[..], &[pipe(true)]].concat(),
        &[Within::Function],
        &[Within::Function, Within::Substitution],
    ];
    assert_eq!(within, expected);
}

#[test]
fn processes_are_files_of_the_shell() {
    check_words("diff <(sort a) <(ls)", &["diff|/dev/fd/63|/dev/fd/63", "sort|a", "ls"]);
}

#[test]
fn a_function_of_the_line_is_known_and_its_body_counts() {
    let reading = reading("ls() { rm -rf /; }; ls");
    assert_eq!(reading.commands.iter().map(words).collect::<Vec<_>>(), ["rm|-rf|/", "ls"]);
    assert_eq!(reading.commands[1].effects.unknown, Vec::<String>::new());
    assert!(!reading.commands[0].effects.touches.is_empty());
}

#[test]
fn sources_are_as_written() {
    let reading = reading("A=1 git  log \"a b\" > f | (grep 'x')");
    let sources: Vec<_> = reading.commands.iter().map(|simple| simple.source.as_str()).collect();
    assert_eq!(sources, ["git  log \"a b\"", "grep 'x'"]);
    assert_eq!(reading.commands[0].assignments, [("A".to_owned(), Word::Known("1".to_owned()))]);
}
