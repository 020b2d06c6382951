//! Reads the closing lines of the two test runners. Counts only what they say; never guesses a result.

use std::fmt;

/// The sum over all test programs of one `cargo test`, which prints a line for each but none for all.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    pub(crate) filtered_out: u64,
}

impl Summary {
    /// Adds a line like `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s`.
    pub(crate) fn add(&mut self, line: &str) {
        let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for part in counts.split("; ") {
            let Some((count, what)) = part.split_once(' ') else { continue };
            let Ok(count) = count.parse::<u64>() else { continue };
            match what {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.ignored += count,
                "filtered out" => self.filtered_out += count,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, ignored, filtered_out } = self;
        let verdict = if *failed == 0 { "ok" } else { "FAILED" };
        write!(
            f,
            "test result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored; {filtered_out} filtered out"
        )
    }
}

/// Whether nextest closes its run with this line, coloured or not.
pub(crate) fn is_of_nextest(line: &str) -> bool {
    line.contains("Summary") && (line.contains("tests run:") || line.contains("test run:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_all_programs_are_summed() {
        let mut summary = Summary::default();
        for line in [
            "running 4 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s",
            "test some::name ... ok",
        ] {
            summary.add(line);
        }
        assert_eq!(summary, Summary { passed: 4, failed: 2, ignored: 1, filtered_out: 2 });
        assert_eq!(summary.to_string(), "test result: FAILED. 4 passed; 2 failed; 1 ignored; 2 filtered out");
    }

    #[test]
    fn the_closing_line_of_nextest_is_known() {
        assert!(is_of_nextest("     Summary [   0.036s] 2 tests run: 2 passed, 0 skipped"));
        assert!(is_of_nextest(
            "\u{1b}[32;1m     Summary\u{1b}[0m [   0.036s] 1 test run: 1 passed, 0 skipped"
        ));
        assert!(!is_of_nextest("error: test run failed"));
        assert!(!is_of_nextest("        PASS [   0.004s] xtask tidy::Summary"));
    }
}
