//! Whether a program of jq or yq only transforms its input. It may not load other files or look at
//! the environment.

/// What a program of jq must not name.
const JQ: [&str; 7] = ["env", "$ENV", "ENV", "import", "include", "modulemeta", "get_search_list"];

/// What a program of yq must not name; its variants add operators, so that beginnings count.
const YQ: [&str; 9] = ["load", "env", "ENV", "strenv", "eval", "system", "import", "include", "$ENV"];

/// Says why a program of jq may do more, if it may.
pub(super) fn check(program: &str) -> Result<(), String> {
    refuse(program, |name| JQ.contains(&name))
}

/// Says why a program of yq may do more, if it may.
pub(super) fn check_yq(program: &str) -> Result<(), String> {
    refuse(program, |name| YQ.iter().any(|reaching| name.starts_with(reaching)))
}

/// Looks at every name, also in strings, where programs may be embedded. A name right behind a dot is
/// a field of the input.
fn refuse(program: &str, is_reaching: impl Fn(&str) -> bool) -> Result<(), String> {
    let mut before = ' ';
    let mut rest = program;
    while let Some(first) = rest.chars().next() {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        if !is_name(first) && first != '$' {
            before = first;
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let length =
            rest[first.len_utf8()..].find(|c| !is_name(c)).map_or(rest.len(), |at| at + first.len_utf8());
        let (name, behind) = rest.split_at(length);
        if before != '.' && is_reaching(name) {
            return Err(format!("its program uses {name}"));
        }
        before = 'a';
        rest = behind;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_not_names() {
        for program in
            [".", ".env", ".a.env[0]", ".[] | select(.x == 1) | .name", "map(.include)", "{a: .b}", "keys"]
        {
            assert_eq!(check(program), Ok(()), "{program}");
        }
        for program in [
            "env",
            "$ENV.HOME",
            "\"\\(env.X)\"",
            "import \"a\" as a; .",
            ". | env",
            "include \"x\"; .",
            "..|env",
            "$ ENV",
        ] {
            assert!(check(program).is_err(), "{program}");
        }
        assert!(check_yq("load(\"/etc/x\")").is_err() && check_yq("load_str(\"x\")").is_err());
        assert_eq!(check_yq(".spec.env"), Ok(()));
    }
}
