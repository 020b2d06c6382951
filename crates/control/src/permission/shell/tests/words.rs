//! What words become: quoting, braces, tildes, variables and patterns.

use super::super::facts::Word;
use super::{check_words, reading};
use proptest::prelude::*;

#[test]
fn quotes_come_off_as_bash_takes_them_off() {
    check_words("'rm' \"r\"m r\\m $'\\x72m' r\"\"m", &["rm|rm|rm|rm|rm"]);
    check_words(r#"echo "a\"b\$c\\d\e" 'a\b' $'a\'b\tc'"#, &["echo|a\"b$c\\d\\e|a\\b|a'b\tc"]);
    check_words("echo '' \"\" $empty_word", &["echo|||??"]);
    check_words("e=; echo $e a$e\"\" \"$e\"", &["echo|a|"]);
    check_words("echo -\\l \\-x", &["echo|-l|-x"]);
}

#[test]
fn braces_expand_or_are_not_known() {
    check_words("echo {a,b}{1..3} x{y} {} {a}", &["echo|a1|a2|a3|b1|b2|b3|x{y}|{}|{a}"]);
    check_words("echo {3..1} {a..c} {-1..1}", &["echo|3|2|1|a|b|c|-1|0|1"]);
    check_words("echo {a,\"b c\",'d'}x \"{a,b}\" \\{a,b}", &["echo|ax|b cx|dx|{a,b}|{a,b}"]);
    check_words("echo {a,b {1..99999} {01..03}", &["echo|??|??|??"]);
    // Bash expands the text, which makes `$xa` and `$xb` of this.
    check_words("x=1; echo $x{a,b} {$x,b}c ${x}{a,b}", &["echo|??|??|1a|1b"]);
    check_words("echo @{u}..HEAD stash@{0} {a{b,c}}", &["echo|@{u}..HEAD|stash@{0}|{ab}|{ac}"]);
}

#[test]
fn tildes_are_the_home_or_not_known() {
    check_words("echo ~ ~/x ~user/x \"~\" '~/x' a~", &["echo|/home/user|/home/user/x|?|~|~/x|a~"]);
    check_words("x=~/a; echo $x a=~/b --c=~/d", &["echo|/home/user/a|?|?"]);
    check_words("x=/a:~/b; echo \"$x\"", &["echo|?"]);
}

#[test]
fn variables_of_the_line_are_known() {
    check_words("d=src; ls \"$d\" $d/a ${d}b", &["ls|src|src/a|srcb"]);
    check_words("f='-l -a'; ls $f \"$f\"", &["ls|-l|-a|-l -a"]);
    check_words("f='*.rs'; ls $f \"$f\"", &["ls|??|*.rs"]);
    check_words("echo $HOME \"$PWD\" $UNSET \"$UNSET\"x", &["echo|/home/user|/w|??|?"]);
    check_words("a=1; a+=2; b=$a$a; echo $b", &["echo|1212"]);
    check_words("a=1 echo $a", &["echo|??"]);
    check_words("echo \"$@\" \"$*\" $# $? \"${a[@]}\" \"${a[0]}\"", &["echo|??|?|?|?|??|?"]);
    check_words("x=a; echo ${x:-b} ${x} \"${y:-b}\" ${#x} ${x%a}", &["echo|a|a|?|?|??"]);
    check_words("x=$(date); echo \"v-$x\"", &["date", "echo|?v-"]);
    check_words("export A=b; echo $A", &["export|A=b", "echo|b"]);
    check_words("RANDOM=1; readonly R=2; R=3; echo $RANDOM $R", &["readonly|R=2", "echo|??|??"]);
}

#[test]
fn patterns_stay_patterns() {
    check_words("ls *.rs src/?x [a-z]* [ a]", &["ls|glob(*.rs)|glob(src/?x)|glob([a-z]*)|[|a]"]);
    check_words("ls '*'.rs \"a\"* \\* '*'*", &["ls|*.rs|glob(a*)|*|??*"]);
    check_words("x=a; ls $x* \"$y\"*", &["ls|glob(a*)|??"]);
}

#[test]
fn what_may_not_have_happened_is_not_known() {
    check_words("a=1; ls && a=2; echo $a", &["ls", "echo|??"]);
    check_words("a=1; (a=2); echo $a", &["echo|1"]);
    check_words("a=1; ls | a=2; echo $a", &["ls", "echo|1"]);
    check_words("a=1; if ls; then a=2; fi; echo $a", &["ls", "echo|??"]);
    check_words("a=1; while ls; do echo $a; a=2; done; echo $a", &["ls", "echo|??", "echo|??"]);
    check_words("a=1; f() { a=2; }; f; echo $a", &["f", "echo|??"]);
    check_words("a=1; read a; echo $a", &["read|a", "echo|??"]);
    check_words(
        "a=1; read -rp x a; printf -v b %s 1; b=2; echo $a",
        &["read|-rp|x|a", "printf|-v|b|%s|1", "echo|??"],
    );
    check_words("a=1 && echo $a && a=2 && echo $a", &["echo|1", "echo|2"]);
    check_words("a=1; : ${a:=2}; echo $a", &[":|??", "echo|??"]);
}

#[test]
fn loops_run_for_each_value() {
    check_words("for f in a b; do ls $f; done", &["ls|a", "ls|b"]);
    check_words("for f in {1..3}; do echo x$f; done; echo $f", &["echo|x1", "echo|x2", "echo|x3", "echo|??"]);
    check_words("for f in *.rs; do ls \"$f\" \"$f.x\" $f; done", &["ls|glob(*.rs)|glob(*.rs.x)|??"]);
    check_words(
        "for f in a *; do g=$f; ls \"$g\" \"${f%x}\"; done; ls \"$f\"",
        &["ls|a|?", "ls|glob(*)|?", "ls|?"],
    );
    check_words("for f in *; do ls \"*$f\"; done", &["ls|??*"]);
    check_words("for f in {1..20}; do ls \"$f\"; done", &["ls|?"]);
    check_words("for ((i=0;i<3;i++)); do echo $i; done", &["echo|?"]);
    check_words("i=0; while [ $i -lt 3 ]; do i=$((i+1)); ls; done", &["[|?|-lt|3|]", "ls"]);
}

/// Four ways to write one text.
fn quoted(text: &str, way: u8) -> String {
    match way {
        0 => format!("'{}'", text.replace('\'', "'\\''")),
        1 => {
            let escape = |c: char| if "\"\\$`".contains(c) { vec!['\\', c] } else { vec![c] };
            format!("\"{}\"", text.chars().flat_map(escape).collect::<String>())
        }
        2 => text.chars().flat_map(|c| ['\\', c]).collect(),
        _ => format!("$'{}'", text.replace('\\', "\\\\").replace('\'', "\\'")),
    }
}

proptest! {
    #[test]
    fn quoting_never_changes_a_word(text in "[ -~äß✓]{1,24}", way in 0_u8..4) {
        let line = format!("echo {}", quoted(&text, way));
        let reading = reading(&line);
        if reading.script.is_some() {
            prop_assert_eq!(&reading.problem, &None, "{}", line);
            prop_assert_eq!(reading.commands.len(), 1);
            prop_assert_eq!(&reading.commands[0].words[1..], &[Word::Known(text)], "{}", line);
        } else {
            // Only the second reader may have its own mind.
            let problem = reading.problem.unwrap_or_default();
            prop_assert!(problem.contains("second reading") || problem.contains("two readings"), "{}: {}", line, problem);
        }
    }
}
