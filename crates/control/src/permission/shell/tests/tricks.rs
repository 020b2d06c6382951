//! Ways by which other tools were deceived. Each must be seen for what it is, or refused.

use super::{check_refused, check_words, reading};

/// The line is parsed, but what it may do is not known.
#[track_caller]
fn check_problem(line: &str) {
    let reading = reading(line);
    assert!(reading.script.is_some(), "{line}: {:?}", reading.problem);
    assert!(reading.problem.is_some(), "{line}: {:?}", reading.commands);
}

/// The last command of the line is doubted.
#[track_caller]
fn check_doubted(line: &str) {
    let reading = reading(line);
    let last = reading.commands.last().unwrap();
    assert!(!last.effects.unknown.is_empty() || reading.problem.is_some(), "{line}: {last:?}");
}

#[test]
fn c1_confusing_quotes_are_read_as_bash_reads_them() {
    check_words("echo \"\\\"\"; ls; echo \"\\\"\"", &["echo|\"", "ls", "echo|\""]);
    check_words("echo 'a'\\''; ls #'", &["echo|a'; ls #"]);
    check_words("echo \"a\" # \" ; ls", &["echo|a"]);
    check_words("echo a#b;ls", &["echo|a#b", "ls"]);
    check_words("echo \\\nls", &["echo|ls"]);
    check_words("echo x\\;ls", &["echo|x;ls"]);
    check_words("echo `echo \\`ls\\``", &["echo|??", "echo|??", "ls"]);
    check_words("echo \"`ls \"a b\"`\"", &["echo|?", "ls|a b"]);
    check_words("echo \"$(echo \"$(ls)\")\"", &["echo|?", "echo|?", "ls"]);
    check_words("echo $IFS--pre=sh", &["echo|??"]);
}

#[test]
fn c1_what_bash_hides_is_refused() {
    check_refused("ls\r\nrm x", "rm");
    check_refused("ls\0; rm x", "rm");
    check_refused("ls \u{1}; rm x", "rm");
    check_refused("a &\\\n& rm x", "rm");
    check_refused("echo $\\\n(rm x)", "rm");
    check_refused("echo $(\\\n(rm x))", "rm");
    check_refused("ls; ((rm) ; (x))", "rm");
    check_refused("echo ${x:-{a}}; rm x", "rm");
    check_refused("cat <<E; rm x\nE\\\n", "rm");
    check_refused("echo \"${x:-'}\"; rm x; echo '}\"", "rm");
    check_refused("echo ${x:-<(rm x)}", "rm");
    check_refused("if true; then rm x", "rm");
    check_refused("{ rm x; ", "rm");
    check_refused("echo a<(rm x)", "rm");
    // Bash ends this document at its second line and runs what follows there.
    check_refused("echo $(cat <<E\nE; rm x )\nE\n)", "rm");
    check_refused("rm x >&-y", "rm");
    check_refused("[[ a \n]]; rm x", "rm");
    check_refused("coproc coproc rm x", "rm");
    check_refused("coproc a{ { rm x; ", "rm");
    check_refused("declare > f x=(1); rm x", "rm");
    check_refused("a=(b)c; rm x", "rm");
    check_refused("ls < 1>f; rm x", "rm");
}

#[test]
fn c5_expansions_that_run_commands_are_not_understood() {
    check_problem("x='$(id)'; echo ${x@P}");
    check_problem("echo ${!x}");
    check_problem("echo ${a[x]}");
    check_problem("echo ${a:x:1}");
    check_problem("echo $((x))");
    check_problem("((x++))");
    check_problem("[[ a[$(ls)] -eq 1 ]]");
    check_problem("[[ $x -eq 1 ]]");
    check_problem("[[ -v $x ]]");
    check_problem("test -v 'a[$(ls)]'");
    check_problem("[ -v \"$x\" ]");
    check_problem("printf -v 'a[$(ls)]' x");
    check_problem("read 'a[$(ls)]'");
    check_problem("unset 'a[$(ls)]'");
    check_problem("let 'a[$(ls)]=1'");
    check_problem("declare -i x='a[$(ls)]'");
    check_problem("declare -a 'x=($(ls))'");
    check_problem("declare -n r=x");
    check_problem("a[$x]=1");
    check_problem("for ((i=x;i<3;i++)); do ls; done");
    check_problem("mapfile -C 'rm x' -c 1 a");
    check_problem("bash -c \"$x\"");
    check_doubted("zsh -c 'ls'");
    check_doubted("sh -c 'ls &> f'");
    check_problem("bash -c 'if'");
}

#[test]
fn arithmetic_on_numbers_is_understood() {
    check_words("i=1; ((i++)); echo $((i * 2 + 0x1f)) ${a[0]} ${a:1:2} ${a: -1}", &["echo|?|??|??|??"]);
    check_words("[[ 1 -eq 2 && $# -gt 0 ]] && ls", &["ls"]);
    check_words("a[0]=1; a[1]=2; ls", &["ls"]);
    check_words("let i=1 i++", &["let|i=1|i++"]);
}

#[test]
fn c5_what_changes_later_commands_makes_them_doubted() {
    check_doubted("PATH=/tmp:$PATH; ls");
    check_doubted("export LD_PRELOAD=./x.so; ls");
    check_doubted("IFS=x; ls");
    check_doubted("alias ls=rm; ls");
    check_doubted("shopt -s expand_aliases; ls");
    check_doubted("enable -f ./x ls; ls");
    check_doubted("hash -p /tmp/x ls; ls");
    check_doubted("source ./x; ls");
    check_doubted(". ./x; ls");
    check_doubted("eval \"$x\"; ls");
    check_doubted("$x; ls");
    check_doubted("set -o posix; ls");
    check_doubted("trap 'rm x' DEBUG; ls");
    check_doubted("read PATH; ls");
    check_doubted("for PATH in a; do ls; done");
    check_doubted("printf -v BASH_ENV x; ls");
    check_doubted("if true; then ls() { echo; }; fi; ls");
    check_doubted("HOME=/x bash -c 'ls ~'");
    check_words("set -euo pipefail; set -x; ls", &["set|-euo|pipefail", "set|-x", "ls"]);
    assert!(reading("set -euo pipefail; ls").commands[1].effects.unknown.is_empty());
    assert!(reading("(PATH=x); ls").commands[1].effects.unknown.is_empty());
}

#[test]
fn splitting_by_another_sign_is_unknown() {
    check_words("IFS=,; x=a,b; ls $x \"$x\"", &["ls|??|a,b"]);
    check_words("x=a; IFS=x read -r y; ls $x", &["read|-r|y", "ls|a"]);
}

#[test]
fn a_function_that_starts_copies_of_itself_is_a_danger() {
    for line in [":(){ :|:& };:", "f() { f & f & }; f", "b() { b | b; }; b"] {
        let reading = reading(line);
        assert!(reading.commands.iter().any(|simple| !simple.effects.dangers.is_empty()), "{line}");
    }
}

#[test]
fn c8_limits_refuse_and_still_show_the_commands() {
    check_refused(&format!("echo {}; rm x", "a".repeat(10_000)), "rm");
    check_refused(&format!("{} rm x", "ls;".repeat(501)), "rm");
    check_refused(&format!("{}rm x{}", "(".repeat(60), ")".repeat(60)), "rm");
    check_refused(&format!("{}rm x{}", "$(".repeat(60), ")".repeat(60)), "rm");
    let mut nested = "rm x".to_owned();
    for _ in 0..9 {
        nested = format!("eval '{}'", nested.replace('\'', "'\\''"));
    }
    let reading = reading(&nested);
    assert!(reading.problem.is_some(), "{:?}", reading.commands);
}
